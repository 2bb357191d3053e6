"""Rounds under share policies, with what they lend, against the plain hall, on random small clusters of one queue."""

import math
import os
from dataclasses import replace
from random import Random

import pytest

from scheduler.core.model.profile import Profile
from scheduler.core.round.config import SharePolicy
from scheduler.core.round.plan_round import plan_round
from scheduler.policies import POLICIES
from tests.oracle.test_rounds import config_of, seats_of
from tests.support.oracle.cases import Case, smallest
from tests.support.oracle.loans import shared_round
from tests.support.oracle.places import PLACES, Seats
from tests.support.simulator.strategies import JobRow, ServerRow

CASES = int(os.environ.get("ORACLE_CASES", "60"))
ROUND_S = 60.0
SHARING = [name for name, kind in POLICIES.items() if isinstance(kind(), SharePolicy)]


def _case(rng: Random) -> Case:
    """Return jobs that sit here and there on servers of one size, and more gangs than fit; some are elastic."""
    size = rng.choice([2, 4, 8])
    servers = (ServerRow(num_gpus=size, num_cpus=3.0 * size),) * rng.randint(2, 4)
    free = [size] * len(servers)
    jobs = [_job(rng, free, size) for _ in range(rng.randint(4, 16))]
    gang = replace(_job(rng, [0], size), num_gpus=size, min_gpus=size, max_gpus=size, arrival_s=0.0, remaining_s=60.0)
    return Case(jobs=(gang, *jobs), servers=servers, racks=(0,) * len(servers))


def _job(rng: Random, free: list[int], size: int) -> JobRow:
    gpus = min(size, rng.choice([1, 1, 2, 3, 4, 6, 8]))
    roomy = [server for server, left in enumerate(free) if left >= gpus]
    seats = ((rng.choice(roomy), gpus),) if roomy and rng.random() < 0.5 else ()
    for server, count in seats:
        free[server] -= count
    is_elastic = rng.random() < 0.3
    executed_s = rng.choice([100.0, 5_000.0, 14_450.0]) if seats or rng.random() < 0.3 else 0.0
    remaining_s = rng.choice([60.0, 600.0, 1_500.0, 6_000.0, 90_000.0])
    return JobRow(
        num_gpus=gpus,
        min_gpus=rng.choice([1, gpus]) if is_elastic else gpus,
        max_gpus=gpus * rng.choice([1, 2]) if is_elastic else gpus,
        max_servers=rng.choice([0, 1, 1]),
        arrival_s=float(rng.randint(0, 6)) * 1_000,
        attained_gpu_s=executed_s * gpus,
        executed_s=executed_s,
        first_start_s=float(rng.randint(3, 8)) * 1_000 if executed_s else math.inf,
        waited_s=0.0 if seats else 10.0,
        remaining_s=remaining_s,
        total_s=remaining_s + executed_s,
        sharers=rng.choice([1.0, 3.0, 4.5]),
        profile=rng.choice([None, Profile(scaling=((1.0, 1.0), (2.0, 1.9), (4.0, 3.5), (8.0, 6.0)))]),
        held_at_s=rng.choice([8_800.0, 9_990.0]),
        lent=bool(seats) and rng.random() < 0.3,
        seats=seats,
    )


def _later(case: Case, seats: dict[int, Seats], lent: set[int], gone: set[int]) -> Case:
    """Return the case a round later, some jobs having ended; nobody has got anything done."""
    jobs = []
    for at, row in enumerate(case.jobs):
        if at in gone:
            continue
        now = seats.get(at, ())
        held_at_s = row.held_at_s if now == row.seats else case.now_s
        start_s = min(row.first_start_s, case.now_s) if now else row.first_start_s
        jobs.append(replace(row, seats=now, lent=at in lent, held_at_s=held_at_s, first_start_s=start_s))
    return replace(case, jobs=tuple(jobs), now_s=case.now_s + ROUND_S)


@pytest.mark.parametrize("locality", ["any", "consolidate", "affinity"])
@pytest.mark.parametrize("name", SHARING)
def test_who_sits_where_and_who_borrows(name: str, locality: str) -> None:
    """Three rounds one after another, with jobs ending in between: the same seats and the same borrowers."""
    rng = Random(f"loans-{name}-{locality}")
    policy, config = POLICIES[name](), config_of(name, locality, "proportional")
    assert isinstance(policy, SharePolicy)

    def differs(case: Case) -> object:
        plan = plan_round(case.snapshot(), config)
        core, plain = (seats_of(plan), set(plan.lent)), shared_round(case, policy, PLACES[locality])
        return core != plain and (core, plain)

    borrowed = 0
    for _ in range(CASES):
        case = _case(rng)
        for _ in range(3):
            if differs(case):
                least = smallest(case, differs)
                pytest.fail(f"{least.told()}\n{differs(least)}")
            seats, lent = shared_round(case, policy, PLACES[locality])
            borrowed += len(lent)
            case = _later(case, seats, lent, {at for at in range(len(case.jobs)) if rng.random() < 0.15})

    assert borrowed > CASES / 10
