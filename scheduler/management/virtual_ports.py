"""Ports (clock, broker, bell, frames) of a cluster inside one process on a virtual clock, for ``demo_week.py``."""

from collections.abc import Callable, Mapping, Sequence, Set
from datetime import datetime, timedelta
from typing import Any

from scheduler.ports import Ports, UlidIds


class VirtualClock:
    """A clock that moves only by ``advance``."""

    def __init__(self, start: datetime) -> None:
        self._now, self._mono_s = start, 0.0

    def now(self) -> datetime:
        """Return the wall clock."""
        return self._now

    def mono_s(self) -> float:
        """Return seconds that only rise."""
        return self._mono_s

    def call_later(self, delay_s: float, call: Callable[[], None]) -> None:
        """Not used here."""
        raise NotImplementedError

    def advance(self, seconds: float) -> None:
        """Move the clock."""
        self._mono_s += seconds
        self._now += timedelta(seconds=seconds)


class VirtualTransport:
    """A broker in memory."""

    def __init__(self) -> None:
        self._desired: dict[str, list[str]] = {}
        self._reports: list[tuple[str, str]] = []

    def send_desired(self, messages: Mapping[str, str]) -> None:
        """Put messages on the queues of servers."""
        for server_id, message in messages.items():
            self._desired.setdefault(server_id, []).append(message)

    def send_report(self, server_id: str, message: str) -> None:
        """Put a message on the list of reports."""
        self._reports.append((server_id, message))

    def receive_reports(self, server_ids: Sequence[str], *, timeout_s: float) -> list[tuple[str, str]]:
        """Return all waiting reports."""
        reports, self._reports = self._reports, []
        return reports

    def receive_desired(self, server_id: str) -> list[str]:
        """Return the messages for one server."""
        return self._desired.pop(server_id, [])

    def take_touched(self) -> list[str]:
        """Return nothing: there are no other processes."""
        return []


class VirtualBell:
    """Remembers which round was asked for first."""

    def __init__(self) -> None:
        self.trigger = ""

    def request_round(self, trigger: str) -> None:
        """Remember the first trigger."""
        self.trigger = self.trigger or trigger

    def round_begins(self) -> None:
        """Forget the trigger."""
        self.trigger = ""

    def touch(self, names: Sequence[str]) -> None:
        """Do nothing: no page is open yet."""


class NoFrames:
    """A sink for live frames while no page is open."""

    def watched(self) -> Set[str]:
        """Return no group."""
        return frozenset()

    def send(self, group: str, kind: str, data: Mapping[str, Any]) -> None:  # JSON data of a page
        """Send nothing."""


def virtual_ports(start: datetime) -> tuple[Ports, VirtualClock, VirtualTransport]:
    """Return the ports, with the clock and the transport that the caller drives."""
    clock, transport = VirtualClock(start), VirtualTransport()
    return Ports(clock=clock, transport=transport, ids=UlidIds(), frames=NoFrames()), clock, transport
