"""Cores and memory after one round, against plain step-by-step answers, on random small clusters."""

import math
import os
from dataclasses import replace
from random import Random

import pytest

from scheduler.core.model.plan import Plan
from scheduler.core.round.plan_round import plan_round
from scheduler.mechanisms import MECHANISMS
from scheduler.mechanisms.tune import Tune as TuneMechanism
from scheduler.placement import LOCALITIES
from scheduler.policies import POLICIES
from tests.oracle.test_rounds import config_of, seats_of
from tests.support.oracle.amounts import GIVERS
from tests.support.oracle.cases import Case, random_case, smallest
from tests.support.oracle.fill import CornerError, Tune
from tests.support.oracle.orders import ORDERS
from tests.support.oracle.published_tune import StuckError, published_tune

CASES = int(os.environ.get("ORACLE_CASES", "200"))
# (job, server) -> cores, GiB; rounded, so that float dust does not count.
Amounts = dict[tuple[int, int], tuple[float, float]]
MIB = 2.0**20


def _given(plan: Plan) -> Amounts:
    grants = plan.grants
    rows = zip(
        grants.job.tolist(), grants.server.tolist(), grants.cpus.tolist(), grants.memory_bytes.tolist(), strict=True
    )
    return {(job, server): (round(cpus, 6), round(memory / MIB, 3)) for job, server, cpus, memory in rows}


def _policy_and_place(rng: Random) -> tuple[str, str]:
    return rng.choice([name for name in POLICIES if name in ORDERS]), rng.choice([*LOCALITIES])


@pytest.mark.parametrize("mechanism", [name for name in MECHANISMS if name in GIVERS and GIVERS[name].amounts])
def test_amounts_by_job_and_server(mechanism: str) -> None:
    """Mechanisms that look at one job and one server at a time give just what their rule says."""
    rng = Random(f"amounts-{mechanism}")
    for number in range(CASES):
        policy, locality = _policy_and_place(rng)
        config = config_of(policy, locality, mechanism)

        def differs(case: Case) -> object:
            plan = plan_round(case.snapshot(), config)  # noqa: B023  (called in this turn of the loop)
            rule = GIVERS[mechanism].amounts
            assert rule is not None
            wanted = {
                place: (round(cpus, 6), round(memory / MIB, 3))
                for place, (cpus, memory) in rule(case, seats_of(plan)).items()
            }
            return _given(plan) != wanted and (_given(plan), wanted)

        case = random_case(rng, wide=number % 2 == 1)
        if differs(case):
            least = smallest(case, differs)
            pytest.fail(f"{policy} {locality} {mechanism}\n{least.told()}\n{differs(least)}")


def _tuned(case: Case, plan: Plan, *, sort: bool) -> Amounts:
    """Return what Tune gives to the jobs of the plan; raises CornerError when it is stuck."""
    seats = seats_of(plan)
    stay = {job: at for job, at in seats.items() if job in plan.kept or len(at) > 1}
    start = [job for job in seats if job not in stay]
    given = Tune(case, stay=stay, start=start, order=plan.order).run(sort=sort)
    return {
        (one.job, one.server): (round(one.gpus * one.cpus, 6), round(one.gpus * one.memory / MIB, 3)) for one in given
    }


@pytest.mark.parametrize("sort", [True, False])
def test_tune(*, sort: bool) -> None:
    """Servers, cores and memory of every job are those of the published steps, where nobody is displaced."""
    rng = Random("tune")
    corners = 0
    for number in range(3 * CASES):
        _, locality = _policy_and_place(rng)
        config = replace(config_of("fifo", locality, "tune"), mechanism=TuneMechanism(sort_by_demand=sort))

        def differs(case: Case) -> object:
            plan = plan_round(case.snapshot(), config)  # noqa: B023  (called in this turn of the loop)
            wanted = _tuned(case, plan, sort=sort)
            return _given(plan) != wanted and (_given(plan), wanted)

        case = random_case(rng, wide=number % 2 == 1)
        try:
            if differs(case):
                least = smallest(case, differs)
                pytest.fail(f"{locality}\n{least.told()}\n{differs(least)}")
        except CornerError:
            corners += 1

    assert corners < CASES / 10  # else hardly anything was compared


@pytest.mark.parametrize("mechanism", [TuneMechanism(), TuneMechanism(repack=True)], ids=["stay", "repack"])
def test_tune_is_the_published_algorithm_where_all_start(mechanism: TuneMechanism) -> None:
    """Nobody runs yet and every gang sits on one server: servers, cores and memory of the paper's own steps."""
    rng = Random("published tune")
    compared = demoted = 0
    for _ in range(2 * CASES):
        config = replace(config_of(rng.choice(["fifo", "srtf"]), "consolidate", "tune"), mechanism=mechanism)

        def differs(case: Case) -> object:
            plan = plan_round(case.snapshot(), config)  # noqa: B023  (called in this turn of the loop)
            given = published_tune(case, sorted(seats_of(plan)))
            wanted = {(one.job, one.server): (round(one.cpus, 6), round(one.memory / MIB, 3)) for one in given}
            return _given(plan) != wanted and (_given(plan), wanted)

        case = random_case(rng, running=False)
        try:
            if differs(case):
                least = smallest(case, differs)
                pytest.fail(f"{least.told()}\n{differs(least)}")
        except StuckError:
            continue
        given = published_tune(case, sorted(seats_of(plan_round(case.snapshot(), config))))
        compared += 1
        demoted += any(one.cpus == one.share_cpus < case.jobs[one.job].demand_cpus < math.inf for one in given)

    assert compared > 1.8 * CASES
    assert demoted > CASES / 4  # else there was enough for everybody
