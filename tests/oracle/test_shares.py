"""GPU counts of share policies, against plain loops, on random small clusters of elastic jobs."""

import math
import os
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from random import Random

import numpy as np
import pytest

from scheduler.core.model.profile import Profile
from scheduler.core.round.config import SharePolicy
from scheduler.core.round.plan_round import plan_round
from scheduler.policies import POLICIES
from scheduler.policies.math.auction import Bid, award
from tests.oracle.test_rounds import config_of
from tests.support.oracle.auction import NOTHING, TiedError, best, kept_part, themis
from tests.support.oracle.cases import Case, random_case, smallest
from tests.support.oracle.own_test import in_own_test
from tests.support.oracle.shares import SHARES as PLAIN
from tests.support.simulator.strategies import ServerRow

CASES = int(os.environ.get("ORACLE_CASES", "200"))
SHARES = {**PLAIN, "themis": themis}
for _name in POLICIES:
    _shares = None if _name in SHARES else in_own_test(_name, "SHARES")
    if _shares:
        SHARES[_name] = _shares
NAMES = [name for name in POLICIES if name in SHARES]


def _curve(rng: Random) -> Profile:
    """Return a curve that gets flatter, and sometimes falls; numbers that do not tie by chance."""
    points, speed, slope = [(1.0, 1.0)], 1.0, 1.0
    for gpus, step in ((2.0, 1), (4.0, 2), (8.0, 4)):
        slope *= rng.uniform(0.3, 1.0) if rng.random() < 0.9 else -0.1
        speed += step * slope
        points.append((gpus, speed))
    return Profile(scaling=tuple(points))


def elastic_case(rng: Random) -> Case:
    """Return up to twelve jobs that can all run on one GPU, on one server of up to 16 GPUs."""
    case = random_case(rng, most_servers=1)
    size = rng.choice([1, 2, 4, 6, 8, 12, 16])
    profiles = [_curve(rng) for _ in range(3)]
    free, jobs = size, []
    for job in case.jobs:
        most = rng.choice([1, 2, 3, 4, 8])
        gpus = rng.randint(1, most)
        seats = ((0, gpus),) if rng.random() < 0.5 and gpus <= free else ()
        free -= gpus if seats else 0
        executed_s = rng.choice([0.0, 90.0, 3_000.0, 7_200.0, 7_230.0, 14_000.0, 14_405.0, 20_000.0])
        jobs.append(
            replace(
                job,
                num_gpus=gpus,
                min_gpus=1,
                max_gpus=most,
                profile=rng.choice(profiles),
                seats=seats,
                held_at_s=rng.choice([7_000.0, 7_600.0, 8_770.0, 8_800.0, 9_000.0]),
                first_start_s=7_000.0 if seats else job.first_start_s,
                executed_s=executed_s,
                attained_gpu_s=executed_s * rng.choice([1.0, gpus]),
                total_s=rng.uniform(100.0, 100_000.0),
                remaining_s=rng.choice([60.0, 700.0, 701.0, 4_000.0, 90_000.0]),
            )
        )
    server = ServerRow(num_gpus=size, num_cpus=3.0 * size)
    return replace(case, jobs=tuple(jobs), servers=(server,), racks=(0,))


def test_no_share_policy_is_without_an_oracle() -> None:
    """A new share policy has its ``SHARES`` in its own test."""
    assert not {name for name, kind in POLICIES.items() if isinstance(kind(), SharePolicy)} - set(SHARES)


@pytest.mark.parametrize("name", NAMES)
def test_shares(name: str) -> None:
    """Every job gets just as many GPUs as in the plain loop."""
    rng = Random(f"shares-{name}")
    policy = POLICIES[name]()
    assert isinstance(policy, SharePolicy)

    def differs(case: Case) -> object:
        core = policy.shares(case.snapshot(), case.num_gpus).tolist()
        plain = SHARES[name](case, case.num_gpus)
        return core != plain and (core, plain)

    tied = 0
    for _ in range(CASES):
        case = elastic_case(rng)
        try:
            different = differs(case)
        except TiedError:
            tied += 1
            continue
        if different:
            least = smallest(case, differs)
            curves = "\n".join(f"{at}: {job.profile and job.profile.scaling}" for at, job in enumerate(least.jobs))
            pytest.fail(f"{name}\n{least.told()}\n{curves}\ncore, oracle {differs(least)}")

    assert tied < CASES / 5  # else hardly anything was compared


@pytest.mark.parametrize("name", NAMES)
def test_on_one_server_every_share_is_seated(name: str) -> None:
    """Where a share never meets a border between servers, the round gives just what the policy says."""
    rng = Random(f"seated-{name}")
    for _ in range(CASES // 4):
        case = elastic_case(rng)
        case = replace(case, jobs=tuple(replace(job, preemptible=True) for job in case.jobs))
        plan = plan_round(case.snapshot(), config_of(name, "consolidate", "proportional"))

        gpus = np.bincount(plan.grants.job, weights=plan.grants.num_gpus, minlength=len(case.jobs))
        with suppress(TiedError):
            assert gpus.astype(int).tolist() == SHARES[name](case, case.num_gpus), case.told()


def test_the_auction() -> None:
    """The division has the largest product of values, and every winner pays by what it costs the others."""
    rng = Random("auction")
    for _ in range(CASES):
        num_gpus = rng.randint(1, 12)
        bids = [_bid(rng) for _ in range(rng.randint(1, 5))]
        core = award([Bid(num_gpus=tuple(bid), value=tuple(map(float, bid.values()))) for bid in bids], num_gpus)

        fair = core.fair_gpus.tolist()
        worth = math.prod((bid[gpus] for bid, gpus in zip(bids, fair, strict=True)), start=Fraction(1))
        most = math.prod(
            (bid[gpus] for bid, gpus in zip(bids, best(bids, num_gpus)[0], strict=True)), start=Fraction(1)
        )
        kept = [kept_part(bids, fair, bidder, num_gpus) for bidder in range(len(bids))]
        assert sum(fair) <= num_gpus
        assert float(worth) == pytest.approx(float(most), rel=1e-9)
        assert core.kept_part == pytest.approx([float(part) for part in kept], rel=1e-9)
        assert core.num_gpus.tolist() == [
            math.floor(part * gpus + Fraction(1, 10**9)) for part, gpus in zip(kept, fair, strict=True)
        ]


def _bid(rng: Random) -> dict[int, Fraction]:
    """Return values that rise with the number of GPUs, not always by much."""
    counts = [0, 1, 2, 4, 8][: rng.randint(2, 5)]
    values = sorted(rng.uniform(0.05, 1.0) for _ in counts[1:])
    return {0: NOTHING, **{count: Fraction(value) for count, value in zip(counts[1:], values, strict=True)}}
