"""What the next round would decide with one job more, or if a waiting job asked for something else.

Every answer comes from ``plan_round`` on a changed copy of the snapshot. Used by the preview of a job and by the advice
on how a waiting job could start (``scheduler.whatif``).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from scheduler.core.model.plan import Plan, Preemption
from scheduler.core.model.tables import NO_ROW, JobTable, Placements, Snapshot, only_jobs
from scheduler.core.round.config import SchedulerConfig
from scheduler.core.round.plan_round import plan_round


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSeat:
    """What the job would hold on one server (row of the ServerTable)."""

    server: int
    num_gpus: int
    cpus: float
    memory_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDecision:
    """What a round decides about one job.

    Attributes:
        seats: Where it would start or go on; empty when it waits.
        plan: What the round decides about all jobs.
        preemptions: Running jobs that would have to leave although without it they stay.
        follows_leavers: Whether jobs that leave, in this round or since an earlier one, still hold something of its
            servers: it may have to wait for them.
    """

    seats: tuple[PlannedSeat, ...]
    plan: Plan
    preemptions: tuple[Preemption, ...]
    follows_leavers: bool = False

    @property
    def starts(self) -> bool:
        """Return whether the round gives it GPUs."""
        return bool(self.seats)


def with_job(snapshot: Snapshot, one: JobTable) -> Snapshot:
    """Return the snapshot with the only job of ``one`` as its last row."""
    return replace(snapshot, jobs=_joined(snapshot.jobs, one, at=None))


def with_job_as(snapshot: Snapshot, row: int, one: JobTable) -> Snapshot:
    """Return the snapshot with a waiting job as ``one`` describes it."""
    assert not snapshot.jobs.running[row]
    return replace(snapshot, jobs=_joined(snapshot.jobs, one, at=row))


def _joined(jobs: JobTable, one: JobTable, *, at: int | None) -> JobTable:
    """Return the table with one row more, or another row in place of one."""
    assert len(one) == 1
    columns = {}
    for column in fields(jobs):
        if column.name == "profiles":
            continue
        value = getattr(one, column.name)
        if column.name == "profile":
            value = np.where(value == NO_ROW, NO_ROW, value + len(jobs.profiles))
        columns[column.name] = np.concatenate((getattr(jobs, column.name), value))
    if at is not None:
        rows = np.arange(len(jobs))
        rows[at] = len(jobs)
        columns = {name: column[rows] for name, column in columns.items()}
    return JobTable(**columns, profiles=(*jobs.profiles, *one.profiles))


def decision_of(snapshot: Snapshot, config: SchedulerConfig, row: int, *, without: Snapshot) -> JobDecision:
    """Return what the next round decides about a job.

    Args:
        snapshot: The state, with the job in it.
        config: How rounds decide.
        row: The job.
        without: The state as it really is, to tell which jobs have to leave in any case.
    """
    plan = plan_round(snapshot, config)
    seats = seats_of(plan.grants, row)
    leave_anyway: set[int] = set()
    if plan.preemptions and seats:
        leave_anyway = {preemption.job for preemption in plan_round(without, config).preemptions}
    caused = tuple(preemption for preemption in plan.preemptions if seats and preemption.job not in leave_anyway)
    return JobDecision(
        seats=seats,
        plan=plan,
        preemptions=caused,
        follows_leavers=_follows_leavers(snapshot, seats, [preemption.job for preemption in plan.preemptions]),
    )


def _follows_leavers(snapshot: Snapshot, seats: Sequence[PlannedSeat], leaving: Sequence[int]) -> bool:
    """Return whether jobs that leave, in this round or since an earlier one, hold something on one of the servers."""
    servers = [seat.server for seat in seats]
    held, releasing = snapshot.held, snapshot.releasing
    leave = np.isin(held.job, leaving) & np.isin(held.server, servers)
    return bool(leave.any() or np.isin(releasing.server, servers).any())


def seats_of(grants: Placements, row: int) -> tuple[PlannedSeat, ...]:
    """Return what a plan gives one job."""
    own = np.flatnonzero(grants.job == row)
    columns = (grants.server[own], grants.num_gpus[own], grants.cpus[own], grants.memory_bytes[own])
    return tuple(
        PlannedSeat(server=server, num_gpus=num_gpus, cpus=cpus, memory_bytes=memory_bytes)
        for server, num_gpus, cpus, memory_bytes in zip(*(column.tolist() for column in columns), strict=True)
    )


def could_run(snapshot: Snapshot, config: SchedulerConfig, row: int) -> bool:
    """Return whether a waiting job would start if it had all servers and all quotas for itself."""
    alone = replace(
        only_jobs(snapshot, np.array([row])), held=Placements.none(), releasing=Placements.none(), trials=()
    )
    return bool(len(plan_round(alone, config).grants.job))


def most_gpus(
    snapshot: Snapshot, config: SchedulerConfig, row: int, *, below: int, sized: Callable[[int], JobTable]
) -> int:
    """Return the most GPUs fewer than ``below`` with which a waiting job could ever run; 0 for none.

    Args:
        snapshot, config, row: As in ``could_run``.
        below: GPUs with which it cannot.
        sized: Returns the job with so many GPUs.
    """
    low, high = 0, min(below - 1, int(snapshot.servers.num_gpus.sum()))
    while low < high:
        gpus = (low + high + 1) // 2
        if could_run(with_job_as(snapshot, row, sized(gpus)), config, row):
            low = gpus
        else:
            high = gpus - 1
    return low


def first_that_starts(
    snapshot: Snapshot,
    config: SchedulerConfig,
    row: int,
    options: Sequence[JobTable],
    *,
    goes_on: Callable[[], bool] = lambda: True,
) -> tuple[int, JobDecision] | None:
    """Return the first of several requests with which the next round starts a waiting job.

    Args:
        snapshot, config: The state and how rounds decide.
        row: The job as it asks now.
        options: Other requests for the same job, the least change first.
        goes_on: Whether there is time to try another option.

    Returns:
        The number of the option and what the round decides; None when no option that was tried starts the job.
    """
    for number, one in enumerate(options):
        if not goes_on():
            break
        said = decision_of(with_job_as(snapshot, row, one), config, row, without=snapshot)
        if said.starts:
            return number, said
    return None
