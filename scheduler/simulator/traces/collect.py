"""Gather the jobs of a trace while it is read: number names, refuse ids seen before, sort, count warnings."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import TypedDict, Unpack

from scheduler.core.model.profile import Profile
from scheduler.simulator.jobs import Failure, SimJob
from scheduler.simulator.traces.errors import TraceError, shown
from scheduler.simulator.traces.trace import Trace


class JobOptions(TypedDict, total=False):
    """Fields of a job that most formats lack; meanings as in SimJob."""

    profile: Profile
    model: str
    priority: float
    weight: float
    min_gpus: int | None
    max_gpus: int | None
    max_servers: int
    min_cpus: float
    min_memory_bytes: float
    failures: tuple[Failure, ...]


_YEAR_S = 365 * 86_400.0


def _gaps(jobs: Sequence[SimJob]) -> list[str]:
    """Return a warning where nothing is submitted for years, as after a mistyped date; ``jobs`` by submission."""
    gap_s, begin_s = max(
        ((job.arrival_s - last.arrival_s, last.arrival_s) for last, job in pairwise(jobs)), default=(0.0, 0.0)
    )
    if gap_s < _YEAR_S:
        return []
    day = (begin_s - jobs[0].arrival_s) / 86_400
    years = f"for {gap_s / _YEAR_S:.1f} years, from day {day:.0f} on"
    return [f"{years}, no job is submitted: check the dates, or take a --window"]


class NameNumbers:
    """Numbers for names, in the order in which they appear."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, name: str) -> int:
        """Return the number of a name, a new one when it is new."""
        return self._numbers.setdefault(name, len(self._numbers))

    def all(self, otherwise: str) -> tuple[str, ...]:
        """Return the names by number; ``otherwise`` when there is none or where it is empty."""
        return tuple(name or otherwise for name in self._numbers) or (otherwise,)


class Collector:
    """Jobs read so far.

    With ``dated`` the arrivals are Unix seconds, and those of the finished trace count from the earliest of them.
    """

    def __init__(self, *, format: str, file: str, dated: bool = False) -> None:
        self.rows = 0
        self._format = format
        self._file = file
        self._dated = dated
        self._origin_s: float | None = None if dated else 0.0
        self._jobs: list[SimJob] = []
        self._owners = NameNumbers()
        self._queues = NameNumbers()
        self._ids: set[str] = set()
        self._counts: Counter[str] = Counter()
        self._said: list[str] = []
        self._latest_s = float("-inf")

    def add(
        self,
        *,
        line: int,
        arrival_s: float,
        num_gpus: int,
        run_s: float,
        id: str = "",
        id_column: str = "",
        owner: str = "",
        queue: str = "",
        **options: Unpack[JobOptions],
    ) -> None:
        """Take one job; a job that ran for 0 s is counted and left out, since it did no work.

        Raises:
            TraceError: If the id was seen before.
        """
        self.rows += 1
        if id in self._ids:
            raise TraceError(file=self._file, line=line, column=id_column, problem=f"{shown(id)} stands there twice")
        if id:
            self._ids.add(id)
        if run_s <= 0:
            self.count("ran for 0 s and left out")
            return
        if self._origin_s is None:
            self._origin_s = arrival_s
        arrival_s -= self._origin_s
        if arrival_s < self._latest_s:
            self.count("submitted before the latest job above them; sorted by submission")
        self._latest_s = max(self._latest_s, arrival_s)
        self._jobs.append(
            SimJob(
                arrival_s=arrival_s,
                num_gpus=num_gpus,
                run_s=run_s,
                queue=self._queues.number(queue),
                owner=self._owners.number(owner),
                name=id,
                **options,
            )
        )

    def leave_out(self, what: str) -> None:
        """Take one row that is no job of the replay, and count it."""
        self.rows += 1
        self.count(what)

    def count(self, what: str) -> None:
        """Count one more row of which ``what`` is to be told: ``3 jobs <what>``."""
        self._counts[what] += 1

    def say(self, what: str) -> None:
        """Add a warning that is not about a number of jobs."""
        self._said.append(what)

    def trace(self) -> Trace:
        """Return what was read.

        Raises:
            TraceError: If there is no job left.
        """
        counted = (f"{count:,} job{'s' * (count > 1)} {what}" for what, count in self._counts.items())
        warnings = (*counted, *self._said)
        if not self._jobs:
            reason = f" ({'; '.join(warnings)})" if warnings else " below the header" if not self.rows else ""
            raise TraceError(file=self._file, problem=f"there is no job{reason}")
        self._jobs.sort(key=lambda job: job.arrival_s)
        warnings = (*warnings, *_gaps(self._jobs))
        starts_s = self._origin_s or 0.0
        if self._dated and self._jobs[0].arrival_s != 0.0:
            starts_s += self._shift()
        return Trace(
            format=self._format,
            source=self._file,
            jobs=self._jobs,
            queues=self._queues.all("default"),
            owners=self._owners.all("unknown"),
            starts_at=datetime.fromtimestamp(starts_s, tz=UTC) if self._dated else None,
            rows=self.rows,
            warnings=warnings,
        )

    def _shift(self) -> float:
        """Make the earliest arrival 0 s, and return what it was."""
        earliest_s = self._jobs[0].arrival_s
        for index, job in enumerate(self._jobs):
            self._jobs[index] = replace(job, arrival_s=job.arrival_s - earliest_s)
        return earliest_s
