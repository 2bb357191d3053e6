"""Options other than the defaults: order and seats after one round, and shares, against plain answers."""

import os
from random import Random

import pytest

from scheduler.core.round.config import SchedulerConfig
from scheduler.core.round.plan_round import plan_round
from scheduler.mechanisms import MECHANISMS
from scheduler.placement import LOCALITIES
from scheduler.policies.themis import Themis
from tests.oracle.test_rounds import seats_of
from tests.oracle.test_shares import elastic_case
from tests.support.oracle.amounts import GIVERS, needs_of
from tests.support.oracle.auction import strawman
from tests.support.oracle.cases import Case, random_case, smallest
from tests.support.oracle.places import PLACES
from tests.support.oracle.rounds import brute_round
from tests.support.oracle.variants import VARIANTS, in_line

CASES = int(os.environ.get("ORACLE_CASES", "150"))


@pytest.mark.parametrize("name", VARIANTS)
def test_order_and_seats(name: str) -> None:
    """Every variant puts jobs in the order of its plain key, and the same jobs run on the same servers."""
    rng, variant = Random(f"variant-{name}"), VARIANTS[name]
    config = SchedulerConfig(
        policy=variant.policy, locality=LOCALITIES["consolidate"](), mechanism=MECHANISMS["proportional"]()
    )

    def differs(case: Case) -> object:
        plan, order = plan_round(case.snapshot(), config), variant.order.of(case)
        place = in_line(PLACES["consolidate"]) if variant.in_line else PLACES["consolidate"]
        needs = needs_of(case, GIVERS["proportional"])
        walked = brute_round(case, order, preemptive=variant.order.preemptive, place=place, needs=needs)
        core = (list(plan.order), seats_of(plan))
        return core != (order, walked) and (*core, order, walked)

    for number in range(CASES):
        case = random_case(rng, protected=number % 2 == 1)
        if differs(case):
            least = smallest(case, differs)
            pytest.fail(f"{name}\n{least.told()}\ncore, oracle {differs(least)}")


def test_the_strawman() -> None:
    """Without an auction the worst-off job takes all it can use, then the next."""
    rng, policy = Random("strawman"), Themis(auction=False)

    def differs(case: Case) -> object:
        core, plain = policy.shares(case.snapshot(), case.num_gpus).tolist(), strawman(case, case.num_gpus)
        return core != plain and (core, plain)

    for _ in range(CASES):
        case = elastic_case(rng)
        if differs(case):
            least = smallest(case, differs)
            pytest.fail(f"{least.told()}\ncore, oracle {differs(least)}")
