"""The order of each list policy: those of ``ORDERS`` below, and ``ORDER`` in the test of any other policy."""

import math
from fractions import Fraction

from scheduler.policies import POLICIES
from tests.support.oracle.cases import Case
from tests.support.oracle.order import Key, Order, each
from tests.support.oracle.own_test import in_own_test
from tests.support.simulator.strategies import JobRow

LAS_LIMIT_GPU_S = 3_250.0
LEASE_S, ROUND_S = 1_200.0, 60.0


def _las_level(job: JobRow) -> int:
    return 0 if job.attained_gpu_s < LAS_LIMIT_GPU_S else 1


def _gittins(job: JobRow, case: Case) -> Key:
    """Return the level, and inside the first one the index at the last past service that the job has reached.

    Chance to end in the next quantum over its expected cost; the quantum of a level is its limit.
    """
    if _las_level(job):
        return (1, 0)
    past = [Fraction(service) for service in POLICIES["gittins"]().history_gpu_s]  # type: ignore[attr-defined]  # Gittins
    reached = max([service for service in past if service <= job.attained_gpu_s], default=Fraction(0))
    longer = [service for service in past if service > reached]
    if not longer:
        return (0, 0)
    quantum = Fraction(LAS_LIMIT_GPU_S)
    ending = sum(service <= reached + quantum for service in longer)
    return (0, -ending / sum(min(service - reached, quantum) for service in longer))


def _ftf(job: JobRow, case: Case) -> Key:
    """Return minus rho; running jobs come first until their lease has ended since the last round."""
    since_s = case.now_s - job.held_at_s
    if job.seats and (since_s < LEASE_S or since_s % LEASE_S >= ROUND_S):
        return (-math.inf,)
    return delay(job, case)


def delay(job: JobRow, case: Case) -> Key:
    """Return minus rho: time in the shared cluster, if it ran from now on, over time on an equal share."""
    if math.isinf(job.remaining_s) or math.isinf(job.total_s):
        return (math.inf,)
    share_gpus = Fraction(case.num_gpus) / max(Fraction(1), Fraction(job.sharers))
    alone_s = Fraction(job.total_s) * job.num_gpus / min(Fraction(job.num_gpus), share_gpus)
    return (-(Fraction(case.now_s) - Fraction(job.arrival_s) + Fraction(job.remaining_s)) / alone_s,)


def _fair(case: Case) -> list[Key]:
    """Return the turn of each job when the queue with the fewest GPUs for its weight always has the next turn.

    Queues are flat. In a queue the running jobs come first, then those that started first, arrived first.
    """
    jobs, held, keys = case.jobs, dict.fromkeys(range(len(case.queues)), Fraction(0)), {}
    busy = sum(Fraction(queue.weight) for at, queue in enumerate(case.queues) if any(job.queue == at for job in jobs))
    in_line = sorted(
        range(len(jobs)), key=lambda at: (not jobs[at].seats, jobs[at].first_start_s, jobs[at].arrival_s, at)
    )
    for at in in_line:
        queue = jobs[at].queue
        keys[at] = (held[queue],)
        held[queue] += jobs[at].num_gpus * busy / Fraction(case.queues[queue].weight)
    return [keys[at] for at in range(len(jobs))]


def relative(job: JobRow, case: Case) -> list[Fraction]:
    """Return the parts of the GPUs, cores and bytes of the cluster that a job asks for, its share where unknown."""
    part = Fraction(job.num_gpus, case.num_gpus)
    cpus = sum(Fraction(server.num_cpus) for server in case.servers)
    memory = sum(Fraction(server.memory_bytes) for server in case.servers)
    return [
        part,
        part if math.isinf(job.demand_cpus) else Fraction(job.demand_cpus) / cpus,
        part if math.isinf(job.demand_memory_bytes) else Fraction(job.demand_memory_bytes) / memory,
    ]


def held_before(case: Case) -> list[Fraction]:
    """Return the dominant share of each job's user just before the job, the user's jobs taken one by one.

    Running ones come first, then those that started first, arrived first.
    """
    jobs, shares = case.jobs, {}
    held = {job.owner: [Fraction(0)] * 3 for job in jobs}
    in_line = sorted(
        range(len(jobs)), key=lambda at: (not jobs[at].seats, jobs[at].first_start_s, jobs[at].arrival_s, at)
    )
    for at in in_line:
        job = jobs[at]
        shares[at] = max(held[job.owner])
        more = [part / Fraction(job.weight) for part in relative(job, case)]
        held[job.owner] = [have + part for have, part in zip(held[job.owner], more, strict=True)]
    return [shares[at] for at in range(len(jobs))]


def _drf(case: Case) -> list[Key]:
    """Return the turn of each job when the user with the smallest dominant share always has the next turn."""
    return [(share,) for share in held_before(case)]


def _tetris(job: JobRow, case: Case) -> Key:
    """Return the remaining work: time times the parts of all resources."""
    return (Fraction(job.remaining_s) * sum(relative(job, case)),)


ORDERS: dict[str, Order] = {
    "fifo": each(lambda job, case: (job.arrival_s,), preemptive=False),
    "priority": each(lambda job, case: (-job.priority,), preemptive=False),
    "srtf": each(lambda job, case: (job.remaining_s,), preemptive=True),
    "las": each(lambda job, case: (_las_level(job),), preemptive=True),
    "gittins": each(_gittins, preemptive=True),
    "ftf": each(_ftf, preemptive=True),
    "drf": Order(keys=_drf, preemptive=False),
    "tetris": each(_tetris, preemptive=True),
    "fair": Order(keys=_fair, preemptive=False),
}


for _name in POLICIES:
    _order = None if _name in ORDERS else in_own_test(_name, "ORDER")
    if _order:
        ORDERS[_name] = _order
