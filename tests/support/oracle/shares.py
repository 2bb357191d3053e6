"""How many GPUs each share policy gives to elastic jobs that can run on one GPU: plain loops over fractions."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from scheduler.core.model.profile import Profile
from tests.support.oracle.cases import Case
from tests.support.simulator.strategies import JobRow

# GPUs of each job of a case, given those of the cluster.
Shares = Callable[[Case, int], list[int]]
SLICE_S = 7_200.0
LATE_S = 60.0


@dataclass(frozen=True, slots=True)
class Elastic:
    """A job, its place in the table and what it has now."""

    at: int
    row: JobRow
    held: int

    @property
    def most(self) -> int:
        """Return the most GPUs it can use."""
        return self.row.max_gpus if self.row.max_gpus is not None else self.row.num_gpus

    def speed(self, gpus: int) -> Fraction:
        """Return the throughput beside that of one GPU: linear between measured points, never falling again."""
        return max(_measured(self.row.profile or Profile(), count) for count in range(gpus + 1))

    def time_s(self, gpus: int) -> Fraction | float:
        """Return the remaining time on so many GPUs."""
        if math.isinf(self.row.remaining_s):
            return math.inf
        return Fraction(self.row.remaining_s) * self.speed(self.row.num_gpus) / self.speed(gpus)


def _measured(profile: Profile, gpus: int) -> Fraction:
    points = [(Fraction(0), Fraction(0)), *((Fraction(x), Fraction(y)) for x, y in profile.scaling)]
    if len(points) == 1 or gpus == 0:
        return Fraction(gpus)
    for (low, slow), (high, fast) in pairwise(points):
        if low < gpus <= high:
            return slow + (fast - slow) * (gpus - low) / (high - low)
    return points[-1][1]


def jobs_of(case: Case) -> list[Elastic]:
    """Return the jobs of a case."""
    return [Elastic(at, row, sum(gpus for _, gpus in row.seats)) for at, row in enumerate(case.jobs)]


def _by_arrival(job: Elastic) -> tuple[float, int]:
    return job.row.arrival_s, job.at


def by_start(job: Elastic) -> tuple[float, float, int]:
    """Return what sorts jobs by their first start."""
    return job.row.first_start_s, job.row.arrival_s, job.at


def optimus(case: Case, num_gpus: int) -> list[int]:
    """Give every GPU to the job whose remaining time it shortens most; the first GPU of a job shortens it from ever."""
    jobs, given = sorted(jobs_of(case), key=_by_arrival), [0] * len(case.jobs)
    for _ in range(num_gpus):
        best: Elastic | None = None
        best_gain: Fraction | float = 0
        for job in jobs:
            has = given[job.at]
            if has == job.most:
                continue
            gain = math.inf if has == 0 else job.time_s(has) - job.time_s(has + 1)
            if gain > best_gain:
                best, best_gain = job, gain
        if best is None:
            break
        given[best.at] += 1
    return given


def _undisturbed(jobs: list[Elastic], num_gpus: int) -> bool:
    """Return whether all run, none has a GPU that does not help, and none that helps is idle."""
    idle = num_gpus - sum(job.held for job in jobs)
    if idle < 0 or not all(1 <= job.held <= job.most for job in jobs):
        return False
    if any(job.held > 1 and job.speed(job.held) <= job.speed(job.held - 1) for job in jobs):
        return False
    return not idle or not any(job.held < job.most and job.speed(job.held + 1) > job.speed(job.held) for job in jobs)


def afs_l(case: Case, num_gpus: int) -> list[int]:
    """One GPU each, then the pairwise rule, the shorter job at the current shares being the one that ends first.

    Only when something has happened: shares stay until a job arrives or ends.
    """
    jobs, given = jobs_of(case), [0] * len(case.jobs)
    if _undisturbed(jobs, num_gpus):
        return [job.held for job in jobs]
    if len(jobs) >= num_gpus:
        for job in sorted(jobs, key=lambda job: (job.time_s(1), *_by_arrival(job)))[:num_gpus]:
            given[job.at] = 1
        return given
    for job in jobs:
        given[job.at] = 1

    def beats(later: Elastic, champion: Elastic) -> bool:
        its, own = later.time_s(given[later.at]), champion.time_s(given[champion.at])
        short, long = (later, champion) if its < own else (champion, later)
        return (_gain(long, given) > _rise(short, given)) == (later is long)

    _spread(sorted(jobs, key=_by_arrival), given, num_gpus - len(jobs), beats)
    return given


def afs_p(case: Case, num_gpus: int) -> list[int]:
    """Slices in turn; spare GPUs by the pairwise rule if it holds whichever is shorter, else by attained service.

    Only when something has happened: shares stay until a job arrives or ends, or a slice does.
    """
    jobs, given = jobs_of(case), [0] * len(case.jobs)
    if _undisturbed(jobs, num_gpus) and not any(_slice_ends(job) for job in jobs):
        return [job.held for job in jobs]
    if len(jobs) >= num_gpus:
        for job in jobs:
            if job.held and not _slice_ends(job):
                given[job.at] = job.held
    free = num_gpus - sum(given)
    competitors = sorted((job for job in jobs if not given[job.at]), key=lambda job: (_slices(job), *by_start(job)))
    in_turn = competitors[:free]
    for job in in_turn:
        given[job.at] = 1

    def beats(later: Elastic, champion: Elastic) -> bool:
        if _rise(champion, given) <= _gain(later, given):
            return True
        if _rise(later, given) <= _gain(champion, given):
            return False
        return later.row.attained_gpu_s < champion.row.attained_gpu_s

    _spread(sorted(in_turn, key=_by_arrival), given, free - len(in_turn), beats)
    return given


def _slices(job: Elastic) -> int:
    return int(job.row.executed_s // SLICE_S)


def _slice_ends(job: Elastic) -> bool:
    """Return whether a time slice ended just now."""
    return _slices(job) > 0 and job.row.executed_s - _slices(job) * SLICE_S < LATE_S


def _gain(job: Elastic, given: list[int]) -> Fraction:
    """Return (p' - p) / p', with p the speed now and p' with one more GPU."""
    now, then = job.speed(given[job.at]), job.speed(given[job.at] + 1)
    return (then - now) / then


def _rise(job: Elastic, given: list[int]) -> Fraction:
    """Return (p' - p) / p."""
    now, then = job.speed(given[job.at]), job.speed(given[job.at] + 1)
    return (then - now) / now


def _spread(pool: list[Elastic], given: list[int], spare: int, beats: Callable[[Elastic, Elastic], bool]) -> None:
    """Give spare GPUs one by one to the last champion of a knock-out; no job gets one that makes it no faster."""
    pool = [job for job in pool if given[job.at] < job.most]
    while spare and pool:
        champion = pool[0]
        for later in pool[1:]:
            if beats(later, champion):
                champion = later
        if _gain(champion, given) <= 0:
            pool.remove(champion)
            continue
        given[champion.at] += 1
        spare -= 1
        if given[champion.at] == champion.most:
            pool.remove(champion)


SHARES: dict[str, Shares] = {
    "optimus": optimus,
    "afs-l": afs_l,
    "afs-p": afs_p,
}
