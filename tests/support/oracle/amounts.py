"""How many cores and bytes each mechanism gives, and what a job does not start without."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from tests.support.oracle.cases import Case
from tests.support.oracle.places import Seats
from tests.support.oracle.rounds import Need
from tests.support.simulator.strategies import JobRow, ServerRow

# Cores and bytes of a job on a server.
Amounts = dict[tuple[int, int], tuple[float, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Giver:
    """What a mechanism does.

    Attributes:
        need: Cores and bytes per GPU without which a job does not start on a server. amounts: Cores and bytes of each
        job on each of its servers, given the seats of all jobs; None where the mechanism
            is free to choose, then only its promises are checked.
        reseats: Whether it may seat jobs that start now on other servers than the locality chose.
    """

    need: Callable[[JobRow, ServerRow, Case], tuple[float, float]]
    amounts: Callable[[Case, dict[int, Seats]], Amounts] | None
    reseats: bool = False


def share(server: ServerRow) -> tuple[float, float]:
    """Return the GPU-proportional share of one GPU of the server: cores, bytes."""
    return server.num_cpus / server.num_gpus, server.memory_bytes / server.num_gpus


def demanded(job: JobRow) -> tuple[float, float]:
    """Return what the job wants per GPU for full speed, +inf where it is not known, never less than it insists on."""
    return (
        max(job.demand_cpus, job.min_cpus) / job.num_gpus,
        max(job.demand_memory_bytes, job.min_memory_bytes) / job.num_gpus,
    )


def _insisted(job: JobRow) -> tuple[float, float]:
    return job.min_cpus / job.num_gpus, job.min_memory_bytes / job.num_gpus


def _proportional(job: JobRow, server: ServerRow, case: Case) -> tuple[float, float]:
    cpus, memory = (max(own, least) for own, least in zip(share(server), _insisted(job), strict=True))
    return cpus, memory


def _usable_share(job: JobRow, server: ServerRow, case: Case) -> tuple[float, float]:
    """Return the share, or what the job can use of it, or what it insists on."""
    cpus, memory = (
        max(least, min(most, own))
        for own, most, least in zip(share(server), demanded(job), _insisted(job), strict=True)
    )
    return cpus, memory


def _all_or_nothing(job: JobRow, server: ServerRow, case: Case) -> tuple[float, float]:
    """Return the demand, of one server at most; the share where it is not known, or where the gang is too wide."""
    holding = [row for row in case.servers if row.num_gpus >= job.num_gpus]
    if not holding:
        return _usable_share(job, server, case)
    own = share(server)
    cpus = min(job.demand_cpus, max(row.num_cpus for row in holding)) / job.num_gpus
    memory = min(job.demand_memory_bytes, max(row.memory_bytes for row in holding)) / job.num_gpus
    return (
        own[0] if math.isinf(job.demand_cpus) else cpus,
        own[1] if math.isinf(job.demand_memory_bytes) else memory,
    )


def _plain(
    need: Callable[[JobRow, ServerRow, Case], tuple[float, float]],
) -> Callable[[Case, dict[int, Seats]], Amounts]:
    """Return amounts that look at one job and one server at a time."""

    def amounts(case: Case, seats: dict[int, Seats]) -> Amounts:
        given = {}
        for job, at in seats.items():
            for server, gpus in at:
                cpus, memory = need(case.jobs[job], case.servers[server], case)
                given[job, server] = (gpus * cpus, gpus * memory)
        return given

    return amounts


GIVERS: dict[str, Giver] = {
    "proportional": Giver(need=_proportional, amounts=_plain(_proportional)),
    "greedy": Giver(need=_all_or_nothing, amounts=_plain(_all_or_nothing)),
    "tune": Giver(need=_usable_share, amounts=None, reseats=True),
    "opt": Giver(need=_usable_share, amounts=None, reseats=True),
}


def needs_of(case: Case, giver: Giver) -> list[Need]:
    """Return what each job of the case does not start without."""
    needs = []
    for job in case.jobs:
        by_server = [giver.need(job, server, case) for server in case.servers]
        needs.append(
            Need(cpus=tuple(cpus for cpus, _ in by_server), memory_bytes=tuple(memory for _, memory in by_server))
        )
    return needs
