"""The jobs of a workload as columns, and how far each of them is.

Progress is not written every round: a row is *settled* when its rate changes, and a column is computed only for the
rows that a round reads. Between two changes of its rate a job costs nothing.
"""

import math
from collections.abc import Callable, MutableSequence, Sequence
from dataclasses import fields
from typing import Any, cast

import numpy as np

from scheduler.core.model.profile import demand
from scheduler.core.model.tables import NO_ROW, BoolArray, FloatArray, IntArray, JobTable
from scheduler.simulator.jobs import UNKNOWN, SimJob


def cells(column: FloatArray | IntArray | BoolArray) -> MutableSequence[float]:
    """Return the column for access to one cell at a time: ten times as fast as the array, on the same memory."""
    return cast(MutableSequence[float], memoryview(column.data))  # it reads and writes plain Python numbers


class Columns:
    """One array a field, one row a job of the workload; times in seconds.

    Attributes:
        since_s: (n,) time up to which the row is settled.
        ready_s: (n,) time from which it makes progress on its present GPUs.
        rate: (n,) its speed since then; 0 while it waits.
        held_gpus: (n,) GPUs it holds.
        work_s: (n,) work left, seconds at speed 1.
        next_s: (n,) when it ends or fails if nothing changes; +inf while it waits.
        fail_after_s: (n,) run time left until its present attempt fails.
        active_s: Time integral of the number of active jobs, up to ``counted_s``.
    """

    def __init__(self, jobs: Sequence[SimJob]) -> None:
        """Read the workload; nothing has arrived yet."""
        self._static(jobs)
        size = len(jobs)
        self.since_s, self.work_s = self.arrival_s.copy(), self.run_s.copy()
        self.ready_s, self.held_at_s = np.full(size, -np.inf), np.full(size, np.inf)
        self.rate, self.held_gpus = np.zeros(size), np.zeros(size)
        self.attained_gpu_s, self.executed_s, self.waited_s = np.zeros(size), np.zeros(size), np.zeros(size)
        self.service_gpu_s, self.queueing_s, self.lost_s = np.zeros(size), np.zeros(size), np.zeros(size)
        self.unsaved_s = np.zeros(size)
        self.first_start_s, self.end_s, self.next_s = (np.full(size, np.inf) for _ in range(3))
        self.fail_after_s = np.array([job.failures[0].after_s if job.failures else math.inf for job in jobs])
        self.attempts, self.preemptions, self.moves, self.reconfigurations = (
            np.zeros(size, dtype=np.int64) for _ in range(4)
        )
        self.arrived, self.lent = np.zeros(size, dtype=np.bool_), np.zeros(size, dtype=np.bool_)
        self.ended, self.preemptible = np.zeros(size, dtype=np.bool_), np.ones(size, dtype=np.bool_)
        self.joined_active_s, self.left_active_s = np.zeros(size), np.zeros(size)
        self.active_s, self.counted_s, self.num_active = 0.0, 0.0, 0
        self._make_cells()

    def _static(self, jobs: Sequence[SimJob]) -> None:
        def floats(values: list[float]) -> FloatArray:
            return np.array(values, dtype=np.float64)

        def ints(values: list[int]) -> IntArray:
            return np.array(values, dtype=np.int64)

        self.arrival_s, self.run_s = floats([job.arrival_s for job in jobs]), floats([job.run_s for job in jobs])
        self.num_gpus, self.queue = ints([job.num_gpus for job in jobs]), ints([job.queue for job in jobs])
        self.max_servers, self.owner = ints([job.max_servers for job in jobs]), ints([job.owner for job in jobs])
        self.priority, self.weight = floats([job.priority for job in jobs]), floats([job.weight for job in jobs])
        self.min_gpus = ints([job.num_gpus if job.min_gpus is None else job.min_gpus for job in jobs])
        self.max_gpus = ints([job.num_gpus if job.max_gpus is None else job.max_gpus for job in jobs])
        self.min_cpus = floats([job.min_cpus for job in jobs])
        self.min_memory_bytes = floats([job.min_memory_bytes for job in jobs])
        self.profiles = tuple(dict.fromkeys(job.profile for job in jobs if job.profile is not UNKNOWN))
        number = {profile: row for row, profile in enumerate(self.profiles)}
        self.profile = ints([number.get(job.profile, NO_ROW) if job.profile is not UNKNOWN else NO_ROW for job in jobs])
        one = [demand(profile, num_gpus=1) for profile in (*self.profiles, UNKNOWN)]  # NO_ROW is the last
        self.demand_cpus = self.num_gpus * floats([want.cpus for want in one])[self.profile]
        self.demand_memory_bytes = self.num_gpus * floats([want.memory_bytes for want in one])[self.profile]

    def _make_cells(self) -> None:
        self._since, self._ready, self._rate = cells(self.since_s), cells(self.ready_s), cells(self.rate)
        self._held, self._work, self._next = cells(self.held_gpus), cells(self.work_s), cells(self.next_s)
        self._attained, self._executed = cells(self.attained_gpu_s), cells(self.executed_s)
        self._waited, self._queueing = cells(self.waited_s), cells(self.queueing_s)
        self._service, self._unsaved = cells(self.service_gpu_s), cells(self.unsaved_s)
        self._fail_after, self._held_at = cells(self.fail_after_s), cells(self.held_at_s)
        self._preemptions = cells(self.preemptions)

    def __len__(self) -> int:
        return len(self.arrival_s)

    @property
    def active(self) -> IntArray:
        """Rows of the jobs that have arrived and not ended, ascending."""
        return np.flatnonzero(self.arrived & ~self.ended)

    def count(self, now_s: float, change: int) -> float:
        """Note that the number of active jobs changes; return its time integral up to now."""
        self.active_s += self.num_active * (now_s - self.counted_s)
        self.counted_s = now_s
        self.num_active += change
        return self.active_s

    def settle(self, row: int, now_s: float) -> None:
        """Write what time has changed in the row."""
        since_s = self._since[row]
        step_s = now_s - since_s
        if not step_s:
            return
        self._since[row] = now_s
        gpus = self._held[row]
        if not gpus:
            self._waited[row] += step_s
            self._queueing[row] += step_s
            return
        self._executed[row] += step_s
        step_gpu_s = step_s * gpus
        self._attained[row] += step_gpu_s
        self._service[row] += step_gpu_s
        ready_s = self._ready[row]
        busy_s = now_s - (since_s if since_s > ready_s else ready_s)
        if busy_s > 0:
            self._work[row] -= busy_s * self._rate[row]
            self._unsaved[row] += busy_s
            self._fail_after[row] -= busy_s

    def remaining_s(self, rows: Sequence[int], now_s: float) -> list[float]:
        """Return the work left of a few rows, as a ``Glimpse`` gives it for many."""
        left_s = []
        for row in rows:
            since_s, ready_s = self._since[row], self._ready[row]
            busy_s = now_s - (since_s if since_s > ready_s else ready_s)
            work_s = self._work[row] - (busy_s if busy_s > 0.0 else 0.0) * self._rate[row]
            left_s.append(work_s if work_s > 0.0 else 0.0)
        return left_s

    def set_rate(self, row: int, *, gpus: float, rate: float) -> float:
        """Let a settled row that sits go on at another speed; return when it ends or fails."""
        self._held[row], self._rate[row] = gpus, rate
        begin_s, ready_s = self._since[row], self._ready[row]
        if ready_s > begin_s:
            begin_s = ready_s
        end_s = begin_s + self._work[row] / rate if rate > 0 else math.inf
        fail_s = begin_s + self._fail_after[row]
        next_s = fail_s if fail_s < end_s else end_s
        self._next[row] = next_s
        return next_s

    def rise(self, row: int) -> None:
        """Let a settled row leave its seats."""
        self._held[row] = self._rate[row] = self._unsaved[row] = 0.0
        self._next[row] = self._held_at[row] = math.inf

    def preempt(self, row: int, now_s: float) -> None:
        """Let a row leave its seats for another."""
        self.settle(row, now_s)
        self._preemptions[row] += 1
        self.rise(row)

    def sit(self, row: int, now_s: float, ready_s: float) -> None:
        """Let a settled row begin on seats; it makes progress from ``ready_s`` on."""
        self._ready[row], self._held_at[row], self._waited[row] = ready_s, now_s, 0.0

    def look(self, rows: IntArray, now_s: float) -> JobTable:
        """Return the rows as a JobTable whose columns are gathered when they are first looked at."""
        return cast(JobTable, Glimpse(self, rows, now_s))  # it has every attribute of the table

    def table(self, rows: IntArray, now_s: float) -> JobTable:
        """Return the rows as a whole JobTable."""
        glimpse = Glimpse(self, rows, now_s)
        columns: dict[str, Any] = {name: getattr(glimpse, name) for name in _FIELDS}  # Any: arrays by name
        return JobTable(**columns)


_FIELDS = [field.name for field in fields(JobTable)]


class Glimpse:
    """Some rows of the workload with the attributes of a JobTable."""

    def __init__(self, columns: Columns, rows: IntArray, now_s: float) -> None:
        self.job_id = rows
        self.profiles = columns.profiles
        self._columns, self._now_s = columns, now_s

    def __len__(self) -> int:
        return len(self.job_id)

    def __getattr__(self, name: str) -> Any:  # Any: arrays of several types
        derive = _DERIVED.get(name)
        column = derive(self) if derive else getattr(self._columns, name)[self.job_id]
        self.__dict__[name] = column
        return column

    def _step_s(self) -> FloatArray:
        return self._now_s - self._columns.since_s[self.job_id]

    def _running(self) -> BoolArray:
        running: BoolArray = self._columns.held_gpus[self.job_id] > 0
        return running

    def _attained_gpu_s(self) -> FloatArray:
        columns, rows = self._columns, self.job_id
        return columns.attained_gpu_s[rows] + self._step_s() * columns.held_gpus[rows]

    def _executed_s(self) -> FloatArray:
        return self._columns.executed_s[self.job_id] + np.where(self.running, self._step_s(), 0.0)

    def _waited_s(self) -> FloatArray:
        waited_s: FloatArray = np.where(self.running, 0.0, self._columns.waited_s[self.job_id] + self._step_s())
        return waited_s

    def _busy_s(self) -> FloatArray:
        columns, rows = self._columns, self.job_id
        begin_s = np.maximum(columns.since_s[rows], columns.ready_s[rows])
        busy_s: FloatArray = np.maximum(0.0, self._now_s - begin_s)
        return busy_s

    def _remaining_s(self) -> FloatArray:
        columns, rows = self._columns, self.job_id
        left_s: FloatArray = np.maximum(0.0, columns.work_s[rows] - self._busy_s() * columns.rate[rows])
        return left_s

    def _unsaved_s(self) -> FloatArray:
        # A job that is preempted saves its state first.
        return np.zeros(len(self))

    def _sharers(self) -> FloatArray:
        columns, rows = self._columns, self.job_id
        active_s = columns.active_s + columns.num_active * (self._now_s - columns.counted_s)
        lived_s = self._now_s - columns.arrival_s[rows]
        mean = np.full(len(rows), float(max(1, columns.num_active)))
        np.divide(active_s - columns.joined_active_s[rows], lived_s, out=mean, where=lived_s > 0)
        sharers: FloatArray = np.maximum(1.0, mean)
        return sharers

    def _rate(self) -> FloatArray:
        rate: FloatArray = np.where(self.running, self._columns.rate[self.job_id], np.nan)
        return rate

    def _total_s(self) -> FloatArray:
        return self._columns.run_s[self.job_id]


_DERIVED: dict[str, Callable[[Glimpse], Any]] = {  # Any: as above
    "running": Glimpse._running,
    "attained_gpu_s": Glimpse._attained_gpu_s,
    "executed_s": Glimpse._executed_s,
    "waited_s": Glimpse._waited_s,
    "remaining_s": Glimpse._remaining_s,
    "unsaved_s": Glimpse._unsaved_s,
    "sharers": Glimpse._sharers,
    "rate": Glimpse._rate,
    "total_s": Glimpse._total_s,
}
