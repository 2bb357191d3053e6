"""How often the engine's thread asks the broker for reports."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from scheduler.live.worker import RECEIVE_S, _receive
from tests.support.live.ports import ManualClock


class Stopping(threading.Event):
    """Remembers the pauses and lets time pass instead."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self.pauses: list[float] = []
        self._clock = clock

    def wait(self, timeout: float | None = None) -> bool:
        """Let the time pass."""
        self.pauses.append(timeout or 0.0)
        self._clock.advance(timeout or 0.0)
        return False


@pytest.mark.parametrize(("servers", "pause_s"), [(2, 0.0005), (400, 0.1), (1_000, RECEIVE_S), (5_000, RECEIVE_S)])
def test_reports_gather_the_longer_the_more_servers_there_are(servers: int, pause_s: float) -> None:
    """Asking costs by servers, however few have reported; two servers wait for nothing that one could notice."""
    clock = ManualClock()
    turns: list[float] = []

    def turn(server_ids: list[str], *, timeout_s: float) -> None:
        turns.append(clock.mono_s())
        clock.advance(0.05)

    engine: Any = SimpleNamespace(server_ids=lambda: ["s"] * servers, turn=turn)
    ports: Any = SimpleNamespace(clock=clock)
    stopping = Stopping(clock)
    _receive(engine, ports, stopping)

    assert set(stopping.pauses) == {pause_s}
    assert len(turns) == len(stopping.pauses) > 1
