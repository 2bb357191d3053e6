"""Simulation workers for tests: real processes, a clock that can be set ahead, frames that are kept."""

from contextlib import suppress
from datetime import datetime, timedelta

import psutil

from agents.protocol.clock import SystemClock
from scheduler.ports import Ports
from scheduler.whatif.scenarios.children import MODULE
from scheduler.whatif.scenarios.runner import Runner
from tests.support.live.ports import MemoryTransport, RecordingFrames, SequentialIds


class AheadClock(SystemClock):
    """The machine's clock, set ahead."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def now(self) -> datetime:
        """Return the wall clock."""
        return super().now() + self.ahead


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
        """Return the processes of runs that live."""
        found = []
        for child in psutil.Process().children():
            with suppress(psutil.Error):  # other tests may have left one that ended and was not waited for
                found += [child.pid] if MODULE in child.cmdline() else []
        return found

    def stop(self) -> None:
        """End all workers and their processes."""
        for runner in self._runners:
            runner.stop()
