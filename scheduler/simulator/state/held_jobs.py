"""Jobs of a replay that have come and may not join the line yet: for jobs that have to end first, or for their array.

To the planners they arrive when they are let in, so these need to know of neither. Twin of live rounds, where
``scheduler/core/round/held_back.py`` leaves such jobs out: a job is at work from the moment that its array lets it in
until it ends, also while it is preempted or pauses after a failure.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

from scheduler.core.model.plan import WaitReason
from scheduler.simulator.jobs import SimJob


def held_jobs(jobs: Sequence[SimJob]) -> "HeldJobs | None":
    """Return what holds jobs of a workload back; None where nothing does."""
    return HeldJobs(jobs) if any(job.after or job.array_most for job in jobs) else None


class HeldJobs:
    """Which jobs wait outside the line, and whom the end of a job lets in."""

    def __init__(self, jobs: Sequence[SimJob]) -> None:
        """Begin before the first arrival."""
        row_of = {job.number: row for row, job in enumerate(jobs) if job.number}
        self._open: dict[int, set[int]] = {}
        self._waiting_for: dict[int, list[int]] = defaultdict(list)
        for row, job in enumerate(jobs):
            others = {row_of[number] for number in job.after if number in row_of} - {row}
            if others:
                self._open[row] = others
            for other in others:
                self._waiting_for[other].append(row)
        self._array = {row: job.array for row, job in enumerate(jobs) if job.array and job.array_most}
        self._room = {job.array: job.array_most for job in jobs if job.array and job.array_most}
        self._at_door: dict[int, list[int]] = defaultdict(list)  # of each array, the lowest row first
        self._come: set[int] = set()
        self._let_in: set[int] = set()

    def arrive(self, row: int) -> WaitReason | None:
        """Note that a job has come; return why it may not join the line, None where it does."""
        self._come.add(row)
        if self._open.get(row):
            return WaitReason.DEPENDENCY
        array = self._array.get(row)
        if array is None:
            return None
        if self._room[array] < 1:
            heappush(self._at_door[array], row)
            return WaitReason.ARRAY_LIMIT
        self._room[array] -= 1
        self._let_in.add(row)
        return None

    def end(self, row: int) -> tuple[list[int], list[int]]:
        """Note that a job has ended; return those that join the line now, and those that wait for their array now."""
        joining: list[int] = []
        at_door: list[int] = []
        array = self._array.get(row)
        if array is not None and row in self._let_in:
            self._let_in.discard(row)
            self._room[array] += 1
            if self._at_door[array]:
                joining.append(heappop(self._at_door[array]))
                self._room[array] -= 1
                self._let_in.add(joining[0])
        for other in self._waiting_for.pop(row, ()):
            self._open[other].discard(row)
            if self._open[other] or other not in self._come:
                continue
            (joining if self.arrive(other) is None else at_door).append(other)
        return joining, at_door

    def restore(self, *, ended: Iterable[int], joined: Iterable[int]) -> None:
        """Take up a state: jobs that have ended, and those that have joined the line and not ended."""
        for row in ended:
            for other in self._waiting_for.pop(row, ()):
                self._open[other].discard(row)
        for row in joined:
            self._open.pop(row, None)
            self._come.add(row)
            array = self._array.get(row)
            if array is not None:
                self._room[array] -= 1
                self._let_in.add(row)
