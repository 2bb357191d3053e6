"""The linear program of Synergy's upper bound: how many jobs of each class get which cores and memory.

Jobs that ask for the same are one class, so the size of the program does not depend on how many jobs there are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

# Rows of a solution, in jobs and GPU shares, may miss a bound by this much.
_TOLERANCE = 1e-5


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Cores and bytes per GPU, and the speed of a job with them."""

    cpus: float
    memory_bytes: float
    speed: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JobClass:
    """Jobs that ask for the same.

    Attributes:
        num_jobs: How many there are.
        num_gpus: GPUs of each.
        least_speed: Speed that they must have, the mean of the class (each job of an integral program).
        points: What each may get.
    """

    num_jobs: int
    num_gpus: int
    least_speed: float
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """How cores and memory are divided best.

    Attributes:
        speed: Sum of the speeds of all jobs.
        jobs_at: For each class, how many of its jobs are at each of its points; fractions unless integral.
        is_best: Whether no division is better; false when the time ran out before that was proven.
    """

    speed: float
    is_best: bool
    jobs_at: tuple[tuple[float, ...], ...]


def efficient(points: Sequence[Point]) -> tuple[Point, ...]:
    """Return the points that no other beats: with as little of both, none is as fast."""
    ranked = sorted(set(points), key=lambda point: (-point.speed, point.cpus, point.memory_bytes))
    kept: list[Point] = []
    for point in ranked:
        if not any(other.cpus <= point.cpus and other.memory_bytes <= point.memory_bytes for other in kept):
            kept.append(point)
    return tuple(kept)


def best_division(
    classes: Sequence[JobClass], *, num_cpus: float, memory_bytes: float, integral: bool, time_limit_s: float
) -> Division | None:
    """Return the division with the largest sum of speeds on one machine with all cores and memory.

    Args:
        classes: The jobs.
        num_cpus: Cores to divide.
        memory_bytes: Bytes to divide.
        integral: Whether every job gets one point, as in the released program; else mixtures, an upper bound of it.
        time_limit_s: When to give up.

    Returns:
        None when there is none, or none was found in time.

    Source: Mohan et al., "Synergy", OSDI 2022, appendix on Opt, first program. Differs: one variable for the jobs of a
    class at a point instead of one for each job, which has the same optimum.
    """
    import pulp  # here: it takes a third of a second to load, and only this mechanism needs it

    if integral:
        classes = [_fast_enough(jobs) for jobs in classes]
    if not all(jobs.points for jobs in classes):
        return None
    program = pulp.LpProblem("division", pulp.LpMaximize)
    kind = pulp.LpInteger if integral else pulp.LpContinuous
    at = [
        [program.add_variable(f"y{row}_{column}", 0, jobs.num_jobs, cat=kind) for column in range(len(jobs.points))]
        for row, jobs in enumerate(classes)
    ]
    terms = [
        (y, jobs, point) for ys, jobs in zip(at, classes, strict=True) for y, point in zip(ys, jobs.points, strict=True)
    ]
    program += pulp.LpAffineExpression([(y, point.speed) for y, _, point in terms])
    # In units of a GPU's share, so that all coefficients are near 1.
    gpus = sum(jobs.num_jobs * jobs.num_gpus for jobs in classes)
    cpus_unit, memory_unit = num_cpus / gpus or 1.0, memory_bytes / gpus or 1.0
    cpus = [(y, jobs.num_gpus * point.cpus / cpus_unit) for y, jobs, point in terms]
    memory = [(y, jobs.num_gpus * point.memory_bytes / memory_unit) for y, jobs, point in terms]
    program += pulp.LpAffineExpression(cpus) <= num_cpus / cpus_unit
    program += pulp.LpAffineExpression(memory) <= memory_bytes / memory_unit
    for ys, jobs in zip(at, classes, strict=True):
        program += pulp.LpAffineExpression([(y, 1.0) for y in ys]) == jobs.num_jobs
        if not integral:
            speeds = [(y, point.speed) for y, point in zip(ys, jobs.points, strict=True)]
            program += pulp.LpAffineExpression(speeds) >= jobs.num_jobs * jobs.least_speed
    # One thread, so that equal programs have equal solutions.
    program.solve(pulp.HiGHS(msg=False, threads=1, timeLimit=time_limit_s))
    if program.sol_status not in (pulp.LpSolutionOptimal, pulp.LpSolutionIntegerFeasible) or not program.valid(
        _TOLERANCE
    ):
        return None
    jobs_at = tuple(tuple(_clean(y.value(), integral=integral) for y in ys) for ys in at)
    speed = sum(
        count * point.speed
        for counts, jobs in zip(jobs_at, classes, strict=True)
        for count, point in zip(counts, jobs.points, strict=True)
    )
    return Division(speed=speed, jobs_at=jobs_at, is_best=program.sol_status == pulp.LpSolutionOptimal)


def _clean(value: float, *, integral: bool) -> float:
    return float(round(value)) if integral else max(0.0, value)


def _fast_enough(jobs: JobClass) -> JobClass:
    points = tuple(point for point in jobs.points if point.speed >= jobs.least_speed - _TOLERANCE)
    return replace(jobs, points=points)
