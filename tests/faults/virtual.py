"""Time of a simulated world, and the trace by which two runs of a seed are compared."""

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from random import Random

START = datetime(2026, 3, 7, 14, 32, tzinfo=UTC)


class VirtualTime:
    """One heap of things to come, ordered by (time, seeded tie, number)."""

    def __init__(self, rng: Random) -> None:
        self.now_s = 0.0
        self._rng = rng
        self._heap: list[tuple[float, float, int, Callable[[], None]]] = []
        self._number = 0

    def after(self, delay_s: float, call: Callable[[], None]) -> None:
        """Run ``call`` in ``delay_s`` seconds."""
        self._number += 1
        heappush(self._heap, (self.now_s + max(0.0, delay_s), self._rng.random(), self._number, call))

    def run_until(self, end_s: float) -> None:
        """Let time pass up to ``end_s``."""
        while self._heap and self._heap[0][0] <= end_s:
            self.now_s, _, _, call = heappop(self._heap)
            call()
        self.now_s = end_s


class HostClock:
    """Clocks of one machine: its wall may be wrong, its monotonic clock begins anew at each boot."""

    def __init__(self, time: VirtualTime) -> None:
        self._time = time
        self._booted_s = -1_000.0
        self.wall_offset_s = 0.0

    def now(self) -> datetime:
        """Return the wall clock."""
        return START + timedelta(seconds=round(self._time.now_s + self.wall_offset_s, 3))

    def mono_s(self) -> float:
        """Return seconds since boot."""
        return self._time.now_s - self._booted_s

    def call_later(self, delay_s: float, call: Callable[[], None]) -> None:
        """Run ``call`` after ``delay_s`` seconds."""
        self._time.after(delay_s, call)

    def reboot(self) -> None:
        """Begin anew."""
        self._booted_s = self._time.now_s - 10.0


class Trace:
    """What happened, as a hash and its last lines."""

    KEPT = 400

    def __init__(self, time: VirtualTime) -> None:
        self._time = time
        self._hash = hashlib.sha256()
        self.lines: list[str] = []
        self.faults: dict[str, int] = {}

    def add(self, *words: object) -> None:
        """Note one thing."""
        line = f"{self._time.now_s:9.3f} {' '.join(map(str, words))}"
        self._hash.update(line.encode() + b"\n")
        self.lines.append(line)
        if len(self.lines) > 2 * self.KEPT:
            del self.lines[: self.KEPT]

    def fault(self, kind: str, *words: object) -> None:
        """Note one fault that has fired."""
        self.faults[kind] = self.faults.get(kind, 0) + 1
        self.add("FAULT", kind, *words)

    def count(self, kind: str) -> None:
        """Count one fault of a kind that would fill the trace."""
        self.faults[kind] = self.faults.get(kind, 0) + 1

    def digest(self) -> str:
        """Return the hash over everything noted so far."""
        return self._hash.hexdigest()


class Violation(AssertionError):
    """Something happened that must never happen; the name of the checker comes first."""

    def __init__(self, checker: str, what: str) -> None:
        super().__init__(f"{checker}: {what}")
        self.checker = checker
