"""Divide cores and memory by a linear program, rounded to whole jobs so that servers can give them."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import product
from typing import ClassVar

import numpy as np

from scheduler.core.model.cpu_memory_bounds import Needs
from scheduler.core.model.profile import Profile, sensitivity
from scheduler.core.model.tables import NO_ROW, JobTable, Placements, ServerTable
from scheduler.core.packing.draft import Draft
from scheduler.core.packing.fill import fill
from scheduler.mechanisms.places import placed
from scheduler.mechanisms.programs import Division, JobClass, Point, best_division, efficient
from scheduler.mechanisms.top_up import top_up

_UNKNOWN = Profile()
_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Opt:
    """The division of cores and memory with the largest sum of speeds, as near as whole jobs on servers come to it.

    A linear program divides the cores and memory of the cluster among the running jobs. Every job then aims at a point
    of that division, is packed like under Tune (so no job is slower than with the GPU-proportional share), and what
    whole jobs leave over goes to those that gain most.

    Source: Mohan et al., "Synergy", OSDI 2022, Opt. Differs: the published Opt is an upper bound whose fractions no
    server can give; that bound is ``speed_bound``. Jobs that the second program splits over servers are packed whole
    with what is left, on large clusters all jobs are. A running job stays on its servers, unless ``repack``.
    """

    name: ClassVar[str] = "opt"
    trims: ClassVar[bool] = True
    insists: ClassVar[bool] = False

    integral: bool = field(
        default=True,
        metadata={"help": "Solve for whole jobs, as the released program does; off: round a mixture, which is faster."},
    )
    time_limit_s: float = field(
        default=1.0,
        metadata={
            "help": "When to stop looking. Where it strikes, plans depend on the speed of the machine.",
            "minimum": 0.001,
        },
    )

    repack: bool = field(
        default=False,
        metadata={"help": "Place all jobs anew in every round; a job that changes servers is restarted."},
    )

    def grant(self, draft: Draft) -> Placements:
        """Return the seats with cores and memory; jobs that start now go where what they aim at fits."""
        classes = _classes(draft.jobs, draft.servers, draft.seats, needs=draft.needs)
        division = _division(classes, draft.servers, integral=self.integral, time_limit_s=self.time_limit_s)
        if division is None:  # time is up, or not every job can have a share: all aim at full speed, as under Tune
            return top_up(fill(draft, sort_by_demand=True), draft)
        aims = _aims(draft, classes, division)
        settled = replace(placed(draft, aims, time_limit_s=self.time_limit_s), needs=aims)
        return top_up(fill(settled, sort_by_demand=True), draft)


def speed_bound(
    jobs: JobTable, servers: ServerTable, rows: Iterable[int], *, integral: bool = False, time_limit_s: float = 60.0
) -> float | None:
    """Return the largest sum of speeds that the jobs of ``rows`` could have together; no mechanism does better.

    Args:
        jobs: The jobs.
        servers: The servers; they count as one machine.
        rows: Jobs that run.
        integral: Whether every job gets one point of its grid, as in the released program, or a mixture of some.
        time_limit_s: When to give up.

    Returns:
        None when it was not found in time, or when not every job can have the proportional share.
    """
    division = _division(_classes(jobs, servers, rows), servers, integral=integral, time_limit_s=time_limit_s)
    return division.speed if division is not None and division.is_best else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Class:
    """A class of the program with its jobs, in the order of the policy, and whether their speeds are known."""

    rows: list[int]
    program: JobClass
    known: bool


# Cores and bytes per GPU.
_Amounts = tuple[float, float]


def _division(classes: list[_Class], servers: ServerTable, *, integral: bool, time_limit_s: float) -> Division | None:
    if not classes:
        return Division(speed=0.0, is_best=True, jobs_at=())
    return best_division(
        [one.program for one in classes],
        num_cpus=float(servers.num_cpus.sum()),
        memory_bytes=float(servers.memory_bytes.sum()),
        integral=integral,
        time_limit_s=time_limit_s,
    )


def _classes(jobs: JobTable, servers: ServerTable, rows: Iterable[int], *, needs: Needs | None = None) -> list[_Class]:
    """Return the classes of the jobs; with ``needs`` only points that a packing of whole gangs can keep."""
    share = _share(servers)
    least = jobs.min_cpus / jobs.num_gpus, jobs.min_memory_bytes / jobs.num_gpus
    # Jobs that could use other amounts are another class even where their profiles are one.
    columns = (jobs.profile, jobs.num_gpus, *least, jobs.demand_cpus, jobs.demand_memory_bytes)
    kinds = [*zip(*(column.tolist() for column in columns), strict=True)]
    members: dict[tuple[int, int, float, float, float, float], list[int]] = {}
    for row in rows:
        members.setdefault(kinds[row], []).append(row)
    classes = []
    for (profile_row, num_gpus, least_cpus, least_memory, _, _), its_rows in members.items():
        profile = _UNKNOWN if profile_row == NO_ROW else jobs.profiles[profile_row]
        least_speed = _speed(profile, share)
        grid = [*product(profile.cpus_per_gpu, profile.memory_bytes_per_gpu), share]
        if needs is not None:
            most = _most(its_rows[0], num_gpus, servers, needs)
            grid = [at for at in [*grid, _less(share, most)] if at == _less(at, most)]
            # Held to its share it must not fall below the speed of its share.
            grid = [at for at in grid if _speed(profile, _less(at, share)) >= least_speed - _TOLERANCE]
        amounts = {(max(cpus, least_cpus), max(memory, least_memory)) for cpus, memory in grid}
        points = [Point(cpus=at[0], memory_bytes=at[1], speed=_speed(profile, at)) for at in sorted(amounts)]
        program = JobClass(num_jobs=len(its_rows), num_gpus=num_gpus, least_speed=least_speed, points=efficient(points))
        classes.append(_Class(rows=its_rows, program=program, known=profile_row != NO_ROW))
    return classes


def _speed(profile: Profile, at: _Amounts) -> float:
    return sensitivity(profile, cpus_per_gpu=at[0], memory_bytes_per_gpu=at[1])


def _less(one: _Amounts, other: _Amounts) -> _Amounts:
    return min(one[0], other[0]), min(one[1], other[1])


def _share(servers: ServerTable) -> _Amounts:
    """Return the largest GPU-proportional share of any server."""
    used = servers.num_gpus > 0
    gpus = servers.num_gpus[used]
    cpus, memory = servers.num_cpus[used] / gpus, servers.memory_bytes[used] / gpus
    return float(cpus.max(initial=0.0)), float(memory.max(initial=0.0))


def _most(row: int, num_gpus: int, servers: ServerTable, needs: Needs) -> _Amounts:
    """Return the most that a packing gives the gang: its demand, on one server; its share when it is wider."""
    most = float(needs.cpus_most[row]), float(needs.memory_most[row])
    if num_gpus > servers.num_gpus.max(initial=0):
        return _less(most, _share(servers))
    return _less(most, (float(servers.num_cpus.max()) / num_gpus, float(servers.memory_bytes.max()) / num_gpus))


def _aims(draft: Draft, classes: list[_Class], division: Division) -> Needs:
    """Return the needs with what each job aims at as its most; the first jobs of a class get its fastest points."""
    needs, share = draft.needs, _share(draft.servers)
    cpus, memory = needs.cpus_most.copy(), needs.memory_most.copy()
    for one, counts in zip(classes, division.jobs_at, strict=True):
        rows = one.rows
        for point, count in zip(one.program.points, counts, strict=True) if one.known else ():
            whole, rows = rows[: int(count + _TOLERANCE)], rows[int(count + _TOLERANCE) :]
            cpus[whole], memory[whole] = point.cpus, point.memory_bytes
        # A job that the fractions leave over, or that is unknown, aims at the share of its server: no bound means that.
        for most, its_share in ((cpus, share[0]), (memory, share[1])):
            most[rows] = np.where(most[rows] >= its_share, np.inf, most[rows])
    # A gang on several servers was counted as on one, which may have less for it than its share on the richest of them.
    spread = [row for row, seats in draft.seats.items() if len(seats) > 1]
    for most, useful, its_share in ((cpus, needs.cpus_most, share[0]), (memory, needs.memory_most, share[1])):
        most[spread] = np.maximum(most[spread], np.minimum(useful[spread], its_share))
    return replace(
        needs, cpus_most=np.maximum(cpus, needs.cpus_least), memory_most=np.maximum(memory, needs.memory_least)
    )
