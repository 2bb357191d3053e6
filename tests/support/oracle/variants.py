"""In which order policies put jobs when their options are other than the defaults: plain keys as in ``orders``."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from scheduler.core.round.config import Policy
from scheduler.policies.drf import Drf
from scheduler.policies.fifo import Fifo
from scheduler.policies.ftf import Ftf
from scheduler.policies.gittins import Gittins
from scheduler.policies.las import Las
from scheduler.policies.priority import Priority
from scheduler.policies.srtf import Srtf
from scheduler.policies.tetris import Tetris
from tests.support.oracle.cases import Case
from tests.support.oracle.order import Key, Order, each
from tests.support.oracle.orders import ORDERS, delay, held_before, relative
from tests.support.oracle.places import Floor, Place, Seats, Seeker
from tests.support.simulator.strategies import JobRow

# Past services whose indexes rise and fall, GPU-seconds.
PAST_GPU_S = (100.0, 150.0, 1_500.0, 2_000.0, 2_100.0, 9_000.0, 40_000.0, 60_000.0, 500_000.0)
LIMITS_GPU_S = (500.0, 3_250.0, 60_000.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A policy with options, and what it must do.

    Attributes:
        policy: The policy.
        order: Its keys, and whether it stops jobs.
        in_line: Whether no job overtakes a waiting job that could run on an empty cluster.
    """

    policy: Policy
    order: Order
    in_line: bool = False


def _level(job: JobRow) -> int:
    return sum(job.attained_gpu_s >= limit for limit in LIMITS_GPU_S)


def _gittins(job: JobRow, *, total: bool = False, quantum_gpu_s: float = math.inf) -> Key:
    """Return the level and minus the index at the last past service reached.

    Args:
        job: The job.
        total: Whether the cost is all service given by the end of the quantum, instead of what is still to give.
        quantum_gpu_s: How far to look ahead at most; 0 for whatever gives the largest index.
    """
    level = _level(job)
    if level == len(LIMITS_GPU_S):
        return (level, 0)
    past = [Fraction(service) for service in PAST_GPU_S]
    reached = max([service for service in past if service <= job.attained_gpu_s], default=Fraction(0))
    longer = [service for service in past if service > reached]
    start = Fraction(0) if total else reached

    def index(quantum: Fraction) -> Fraction:
        ending = sum(service <= reached + quantum for service in longer)
        return ending / sum((min(service, reached + quantum) - start for service in longer), start=Fraction(0))

    quanta = [service - reached for service in longer]
    if quantum_gpu_s > 0:
        quanta = [Fraction(min(quantum_gpu_s, LIMITS_GPU_S[level]))] if longer else []
    return (level, -max(map(index, quanta), default=Fraction(0)))


def _at_full_speed(job: JobRow) -> Key:
    """Return the remaining time with all cores and memory that make the job faster."""
    matrix = job.profile.relative_speed if job.profile is not None else ()
    fastest = max((speed for row in matrix for speed in row), default=1.0)
    return (job.remaining_s / max(1.0, fastest),)


def _fits_best(case: Case) -> list[Key]:
    """Return minus the best dot product of a waiting job's demand and what is free on a server it fits on."""
    free = [
        [Fraction(server.num_gpus), Fraction(server.num_cpus), Fraction(server.memory_bytes)] for server in case.servers
    ]
    whole = [list(amounts) for amounts in free]
    for job in case.jobs:
        for server, gpus in job.seats:
            part = Fraction(gpus, case.servers[server].num_gpus)
            free[server] = [left - part * has for left, has in zip(free[server], whole[server], strict=True)]
    cluster = [sum(column, start=Fraction(0)) for column in zip(*whole, strict=True)]
    widest = max(server.num_gpus for server in case.servers)
    keys: list[Key] = []
    for job in case.jobs:
        pieces = math.ceil(job.num_gpus / widest)
        asked = [part * has / pieces for part, has in zip(relative(job, case), cluster, strict=True)]
        scores = [
            sum((want / has * left / has for want, left, has in zip(asked, here, all_of_it, strict=True)), Fraction(0))
            for here, all_of_it in zip(free, whole, strict=True)
            if all(want <= left * (1 + Fraction(1, 10**9)) for want, left in zip(asked, here, strict=True))
        ]
        best = -round(max(scores), 12) if scores else math.inf
        keys.append((-math.inf if job.seats else best,))
    return keys


def _among_the_fair(case: Case, fairness: Fraction) -> list[Key]:
    """Return the turn of each job when the one with least work is taken of those furthest below their fair share."""
    fair = held_before(case)
    work = ORDERS["tetris"].keys(case)

    def place(at: int) -> tuple[Fraction, float, float, int]:
        job = case.jobs[at]
        return fair[at], job.first_start_s, job.arrival_s, at

    in_turn = sorted(range(len(case.jobs)), key=place)
    looked_at = max(1, math.ceil((1 - fairness) * len(in_turn)))
    keys: list[Key] = [()] * len(case.jobs)
    for turn in range(len(case.jobs)):
        taken = min(in_turn[:looked_at], key=lambda at: (work[at], in_turn.index(at)))
        in_turn.remove(taken)
        keys[taken] = (turn,)
    return keys


VARIANTS: dict[str, Variant] = {
    "fifo, in line": Variant(policy=Fifo(backfill=False), order=ORDERS["fifo"], in_line=True),
    "priority, in line": Variant(policy=Priority(backfill=False), order=ORDERS["priority"], in_line=True),
    "priority, preemptive": Variant(
        policy=Priority(preemptive=True), order=Order(keys=ORDERS["priority"].keys, preemptive=True)
    ),
    "srtf, at full speed": Variant(
        policy=Srtf(with_speed_up=True), order=each(lambda job, case: _at_full_speed(job), preemptive=True)
    ),
    "las, four levels": Variant(
        policy=Las(queue_limits_gpu_s=LIMITS_GPU_S), order=each(lambda job, case: (_level(job),), preemptive=True)
    ),
    "gittins, four levels": Variant(
        policy=Gittins(queue_limits_gpu_s=LIMITS_GPU_S, history_gpu_s=PAST_GPU_S),
        order=each(lambda job, case: _gittins(job), preemptive=True),
    ),
    "gittins, total service": Variant(
        policy=Gittins(queue_limits_gpu_s=LIMITS_GPU_S, history_gpu_s=PAST_GPU_S, denominator="total"),
        order=each(lambda job, case: _gittins(job, total=True), preemptive=True),
    ),
    "gittins, best quantum": Variant(
        policy=Gittins(queue_limits_gpu_s=LIMITS_GPU_S, history_gpu_s=PAST_GPU_S, quantum_gpu_s=0.0),
        order=each(lambda job, case: _gittins(job, quantum_gpu_s=0.0), preemptive=True),
    ),
    "gittins, fixed quantum": Variant(
        policy=Gittins(queue_limits_gpu_s=LIMITS_GPU_S, history_gpu_s=PAST_GPU_S, quantum_gpu_s=1_000.0),
        order=each(lambda job, case: _gittins(job, quantum_gpu_s=1_000.0), preemptive=True),
    ),
    "ftf, no lease": Variant(policy=Ftf(lease_s=0.0), order=each(delay, preemptive=True)),
    "drf, by job": Variant(
        policy=Drf(by="job"), order=each(lambda job, case: (max(relative(job, case)),), preemptive=True)
    ),
    "tetris, by fit": Variant(
        policy=Tetris(score="alignment", epsilon=0.0), order=Order(keys=_fits_best, preemptive=False)
    ),
    "tetris, half fair": Variant(
        policy=Tetris(fairness=0.5),
        order=Order(keys=lambda case: _among_the_fair(case, Fraction(1, 2)), preemptive=True),
    ),
}


def in_line(place: Place) -> Callable[[Case, Floor, Seeker], Seats]:
    """Return the locality for one walk in which a job without seats that would fit empty servers stops the line."""
    stopped = False

    def strictly(case: Case, floor: Floor, gang: Seeker) -> Seats:
        nonlocal stopped
        if stopped:
            return ()
        seats = place(case, floor, gang)
        stopped = not seats and gang.least_servers == 1
        return seats

    return strictly
