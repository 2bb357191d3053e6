"""The simulated cluster: which jobs there are, how far each is, and what it holds.

Time passes in ``advance``; what the scheduler sees of it is ``snapshot``; what it decided becomes true in
``carry_out``.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.core.plan import Plan
from scheduler.core.profile import Profile, demand, speed
from scheduler.core.tables import (
    BoolArray,
    IntArray,
    JobTable,
    Placements,
    QueueTable,
    ServerTable,
    Snapshot,
    optional_columns,
)

_UNKNOWN = Profile()
# Work below this is float dust of a finished job, seconds.
_DUST_S = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class SimJob:
    """One job of a workload.

    Attributes:
        arrival_s: Time of submission, seconds.
        num_gpus: GPUs of its gang.
        run_s: Run time at speed 1 (its GPUs, their proportional share, on few servers, alone), seconds.
        queue: Row in the QueueTable.
        max_servers: Most servers it may use, 0 for any number.
        profile: How its speed depends on what it gets.
    """

    arrival_s: float
    num_gpus: int
    run_s: float
    queue: int = 0
    max_servers: int = 0
    profile: Profile = _UNKNOWN


class World:
    """State of all jobs of a workload, one array a field.

    Attributes:
        now_s: The present.
        end_s: (n,) time at which each job completed, +inf before.
        first_start_s: (n,) time of its first start, +inf before.
        queueing_s: (n,) seconds it has waited in all.
        preemptions: (n,) times it was stopped.
    """

    def __init__(
        self, jobs: Sequence[SimJob], servers: ServerTable, queues: QueueTable, *, restart_s: float = 0.0
    ) -> None:
        """Begin at the first arrival; ``restart_s`` is what every start after the first costs, seconds."""
        size = len(jobs)
        self._jobs, self._servers, self._queues = jobs, servers, queues
        self._restart_s = restart_s
        self._arrival_s = np.array([job.arrival_s for job in jobs], dtype=np.float64)
        self._num_gpus = np.array([job.num_gpus for job in jobs], dtype=np.int64)
        self._work_s = np.array([job.run_s for job in jobs], dtype=np.float64)
        self._queue = np.array([job.queue for job in jobs], dtype=np.int64)
        self._max_servers = np.array([job.max_servers for job in jobs], dtype=np.int64)
        wants = [demand(job.profile, num_gpus=job.num_gpus) for job in jobs]
        self._cpus = np.array([want.cpus for want in wants], dtype=np.float64)
        self._memory = np.array([want.memory_bytes for want in wants], dtype=np.float64)
        self._attained_gpu_s, self._executed_s, self._waited_s = np.zeros(size), np.zeros(size), np.zeros(size)
        self._speed, self._debt_s = np.zeros(size), np.zeros(size)
        self._held_at_s = np.full(size, np.inf)
        self._running = np.zeros(size, dtype=np.bool_)
        self._held = Placements.none()  # job: row in these arrays
        self.now_s = float(self._arrival_s.min(initial=math.inf))
        self.end_s, self.first_start_s = np.full(size, np.inf), np.full(size, np.inf)
        self.queueing_s, self.preemptions = np.zeros(size), np.zeros(size, dtype=np.int64)

    @property
    def active(self) -> IntArray:
        """Rows of the jobs that have arrived and not completed, ascending."""
        return np.flatnonzero((self._arrival_s <= self.now_s) & np.isinf(self.end_s))

    def next_arrival_s(self) -> float:
        """Return the time of the next submission, +inf after the last."""
        return float(self._arrival_s[self._arrival_s > self.now_s].min(initial=math.inf))

    def next_end_s(self) -> float:
        """Return when the next running job completes if nothing changes, +inf when none runs."""
        rows = np.flatnonzero(self._running)
        left_s = self._debt_s[rows] + self._work_s[rows] / self._speed[rows]
        return float(self.now_s + left_s.min(initial=math.inf))

    def advance(self, to_s: float) -> None:
        """Let time pass; jobs whose work is done complete."""
        active = self.active
        step_s, runs = to_s - self.now_s, self._running[active]
        running, waiting = active[runs], active[~runs]
        paid_s = np.minimum(self._debt_s[running], step_s)
        self._debt_s[running] -= paid_s
        self._work_s[running] -= (step_s - paid_s) * self._speed[running]
        self._executed_s[running] += step_s
        self._attained_gpu_s[running] += step_s * self._num_gpus[running]
        self._waited_s[waiting] += step_s
        self.queueing_s[waiting] += step_s
        self.now_s = to_s
        done = running[(self._work_s[running] <= _DUST_S) & (self._debt_s[running] <= _DUST_S)]
        self.end_s[done] = to_s
        self._running[done] = False
        self._held = _without(self._held, ~self._running)

    def snapshot(self) -> tuple[Snapshot, IntArray]:
        """Return what the scheduler sees, and the row here of each of its jobs."""
        rows = self.active
        table = JobTable(
            job_id=rows,
            queue=self._queue[rows],
            num_gpus=self._num_gpus[rows],
            max_servers=self._max_servers[rows],
            arrival_s=self._arrival_s[rows],
            priority=np.zeros(len(rows)),
            preemptible=np.ones(len(rows), dtype=np.bool_),
            attained_gpu_s=self._attained_gpu_s[rows],
            executed_s=self._executed_s[rows],
            waited_s=self._waited_s[rows],
            first_start_s=self.first_start_s[rows],
            remaining_s=self._work_s[rows],
            demand_cpus=self._cpus[rows],
            demand_memory_bytes=self._memory[rows],
            min_cpus=np.zeros(len(rows)),
            min_memory_bytes=np.zeros(len(rows)),
            running=self._running[rows],
            held_at_s=self._held_at_s[rows],
            unsaved_s=np.zeros(len(rows)),
            **optional_columns(self._num_gpus[rows]),
        )
        held = _renumbered(self._held, np.searchsorted(rows, self._held.job))
        return Snapshot(now_s=self.now_s, jobs=table, servers=self._servers, queues=self._queues, held=held), rows

    def promote(self, rows: IntArray) -> None:
        """Let jobs begin again at the top of a feedback queue."""
        for column in (self._attained_gpu_s, self._executed_s, self._waited_s):
            column[rows] = 0.0

    def carry_out(self, plan: Plan, rows: IntArray) -> None:
        """Make a plan true at once."""
        self._held = _renumbered(plan.grants, rows[plan.grants.job])
        before = self._running.copy()
        self._running[:] = False
        self._running[self._held.job] = True
        stopped = rows[[preemption.job for preemption in plan.preemptions]]
        self.preemptions[stopped] += 1
        kept = np.zeros(len(before), dtype=np.bool_)
        kept[rows[list(plan.kept)]] = True
        started = np.flatnonzero(self._running & ~kept)
        again = np.isfinite(self.first_start_s[started])
        self._debt_s[started] = np.where(again, self._restart_s, 0.0)
        self.first_start_s[started] = np.minimum(self.first_start_s[started], self.now_s)
        self._held_at_s[started] = self.now_s
        self._held_at_s[~self._running] = np.inf
        self._waited_s[started] = 0.0
        self._set_speeds()

    def _set_speeds(self) -> None:
        held, size = self._held, len(self._jobs)
        cpus = np.bincount(held.job, weights=held.cpus, minlength=size)
        memory = np.bincount(held.job, weights=held.memory_bytes, minlength=size)
        servers = np.bincount(held.job, minlength=size)
        for row in np.flatnonzero(self._running).tolist():
            job = self._jobs[row]
            self._speed[row] = speed(
                job.profile,
                asked_gpus=job.num_gpus,
                num_gpus=job.num_gpus,
                cpus=float(cpus[row]),
                memory_bytes=float(memory[row]),
                num_servers=int(servers[row]),
            )


def _without(held: Placements, gone: BoolArray) -> Placements:
    return _picked(held, ~gone[held.job])


def _picked(held: Placements, mine: BoolArray) -> Placements:
    return Placements(
        job=held.job[mine],
        server=held.server[mine],
        num_gpus=held.num_gpus[mine],
        cpus=held.cpus[mine],
        memory_bytes=held.memory_bytes[mine],
    )


def _renumbered(held: Placements, job: IntArray) -> Placements:
    return Placements(
        job=job, server=held.server, num_gpus=held.num_gpus, cpus=held.cpus, memory_bytes=held.memory_bytes
    )
