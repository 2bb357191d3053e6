"""Simulation workers for tests: real processes, a clock that can be set ahead, frames that are kept."""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import psutil
from django.contrib.auth.models import User

from agents.protocol.clock import SystemClock
from scheduler.models import Scenario
from scheduler.ports import Ports
from scheduler.services.whatif.scenarios import scenario_create
from scheduler.whatif.scenarios.children import MODULE
from scheduler.whatif.scenarios.runner import Runner
from tests.support.e2e.stack import wait_for
from tests.support.live.ports import MemoryTransport, RecordingFrames, SequentialIds
from tests.support.rows.scenarios import scenario_body


class AheadClock(SystemClock):
    """The machine's clock, set ahead."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def now(self) -> datetime:
        """Return the wall clock."""
        return super().now() + self.ahead

    def mono_s(self) -> float:
        """Return the monotonic clock, as far ahead."""
        return super().mono_s() + self.ahead.total_seconds()


class Worlds:
    """Any number of workers over one database."""

    def __init__(self) -> None:
        self.frames = RecordingFrames()
        self._clock = AheadClock()
        self._runners: list[Runner] = []

    def runner(self, *, slots: int = 2) -> Runner:
        """Return another worker; only ``tick`` makes it work."""
        ports = Ports(clock=self._clock, transport=MemoryTransport(), ids=SequentialIds(), frames=self.frames)
        made = Runner(ports, name=f"worker-{len(self._runners)}", slots=slots)
        self._runners.append(made)
        return made

    def clock_ahead(self, by: timedelta) -> None:
        """Let time pass for all workers at once."""
        self._clock.ahead += by

    def pids(self) -> list[int]:
        """Return the processes that make runs and live; each forks for a run."""
        found = []
        for child in psutil.Process().children():
            with suppress(psutil.Error):  # other tests may have left one that ended and was not waited for
                found += [child.pid] if MODULE in child.cmdline() else []
        return found

    def forks(self) -> list[int]:
        """Return the forks in which runs are made."""
        found = []
        for pid in self.pids():
            with suppress(psutil.Error):
                found += [fork.pid for fork in psutil.Process(pid).children()]
        return found

    def stop(self) -> None:
        """End all workers and their processes."""
        for runner in self._runners:
            runner.stop()


def until(runner: Runner, what: str, check: Callable[[], object]) -> None:
    """Let a worker work until something holds."""

    def found() -> object:
        runner.tick()
        return check()

    wait_for(what, found, within_s=60)


def ask(user: User, **changes: Any) -> Scenario:
    """Keep a scenario."""
    return scenario_create(actor=user, body=scenario_body(**changes), at=datetime.now(UTC))


def finished(worlds: Worlds, scenario: Scenario) -> Scenario:
    """Let one worker work until the scenario has ended."""
    runner = worlds.runner()

    def ended() -> bool:
        runner.tick()
        scenario.refresh_from_db()
        return scenario.ended_at is not None

    wait_for("the scenario has ended", ended, within_s=180)
    return scenario
