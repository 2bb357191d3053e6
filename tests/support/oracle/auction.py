"""The auction of Themis by trying every division, and the shares that follow from it. Nothing above one lease.

Source: Mahajan et al., "Themis", NSDI 2020, section 3.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from tests.support.oracle.cases import Case
from tests.support.oracle.shares import Elastic, jobs_of

FAIRNESS = Fraction(8, 10)
LEASE_S = 1_200.0
LATE_S = 60.0
NOTHING = Fraction(1e-6)

# What a bidder makes of each number of GPUs that it bids for.
Bid = dict[int, Fraction]


class TiedError(Exception):
    """Several divisions are equally good, so the outcome is a matter of taste."""


@dataclass(frozen=True, slots=True)
class Sale:
    """The best division, and what each bidder keeps of its part."""

    fair: list[int]
    kept: list[Fraction]


def best(bids: list[Bid], num_gpus: int) -> list[tuple[int, ...]]:
    """Return all divisions with the largest product of values."""
    worth: dict[tuple[int, ...], Fraction] = {}
    for division in product(*bids):
        if sum(division) <= num_gpus:
            worth[division] = math.prod(
                (bid[gpus] for bid, gpus in zip(bids, division, strict=True)), start=Fraction(1)
            )
    most = max(worth.values())
    return [division for division, value in worth.items() if value == most]


def kept_part(bids: list[Bid], fair: list[int], bidder: int, num_gpus: int) -> Fraction:
    """Return the others' product of values at the fair division over what it would be without the bidder."""
    others = [bid for at, bid in enumerate(bids) if at != bidder]
    theirs = [gpus for at, gpus in enumerate(fair) if at != bidder]
    alone = best(others, num_gpus)[0]
    return math.prod(
        (bid[gpus] / bid[instead] for bid, gpus, instead in zip(others, theirs, alone, strict=True)), start=Fraction(1)
    )


def _rho(job: Elastic, case: Case, gpus: int) -> Fraction:
    """Return finish-time fairness with so many GPUs: time in the shared cluster over time on an equal share."""
    shared_s = Fraction(case.now_s - job.row.arrival_s) + Fraction(job.time_s(gpus))
    own = min(
        max(Fraction(1), Fraction(case.num_gpus) / max(Fraction(1), Fraction(job.row.sharers))), Fraction(job.most)
    )
    below = math.floor(own)
    speed = job.speed(below) + (own - below) * (job.speed(below + 1) - job.speed(below))
    return shared_s / (Fraction(job.row.total_s) * job.speed(job.row.num_gpus) / speed)


def _peak(job: Elastic) -> int:
    """Return the most GPUs that all make it faster."""
    gpus = 1
    while gpus < job.most and job.speed(gpus + 1) > job.speed(gpus):
        gpus += 1
    return gpus


def _lease_goes_on(job: Elastic, case: Case) -> bool:
    since_s = case.now_s - job.row.held_at_s
    return since_s < LEASE_S or since_s % LEASE_S >= LATE_S


def _bid(job: Elastic, case: Case, holds: int, left: int) -> Bid:
    """Return the values of 0, 1, 2, 4 ... more GPUs, up to the most that help."""
    most = min(_peak(job) - holds, left)
    counts = sorted({0, most, *(2**power for power in range(10) if 2**power < most)})
    return {count: 1 / _rho(job, case, holds + count) if holds + count else NOTHING for count in counts}


def strawman(case: Case, num_gpus: int) -> list[int]:
    """Return the GPUs of each job when the worst-off one takes all it can use, then the next."""
    jobs = jobs_of(case)
    given = [job.held if job.held and _lease_goes_on(job, case) else 0 for job in jobs]
    for job in sorted(jobs, key=lambda job: (-_rho(job, case, max(1, given[job.at])), job.row.arrival_s, job.at)):
        given[job.at] += max(0, min(_peak(job) - given[job.at], num_gpus - sum(given)))
    return given


def themis(case: Case, num_gpus: int) -> list[int]:
    """Return the GPUs of each job; raises TiedError when several divisions are equally good."""
    jobs = jobs_of(case)
    given = [job.held if job.held and _lease_goes_on(job, case) else 0 for job in jobs]
    worst_first = sorted(jobs, key=lambda job: (-_rho(job, case, max(1, given[job.at])), job.row.arrival_s, job.at))
    hungry = [job for job in worst_first if given[job.at] < _peak(job)]
    offered = hungry[: max(1, math.ceil((1 - FAIRNESS) * len(jobs)))]
    left = num_gpus - sum(given)
    bids = [_bid(job, case, given[job.at], left) for job in offered]
    divisions = best(bids, left) if bids else [()]
    if len(divisions) > 1:
        raise TiedError
    for bidder, job in enumerate(offered):
        won = divisions[0][bidder]
        given[job.at] += math.floor(kept_part(bids, list(divisions[0]), bidder, left) * won)
    turn = [*(job for job in hungry if job not in offered), *offered]
    while True:
        for job in turn:
            if given[job.at] < _peak(job) and sum(given) < num_gpus:
                given[job.at] += 1
        if sum(given) >= num_gpus or all(given[job.at] >= _peak(job) for job in turn):
            return given
