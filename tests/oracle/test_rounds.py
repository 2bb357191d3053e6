"""Who runs and where after one round, against the plain walk, on random small clusters of one queue."""

import os
from collections.abc import Mapping
from dataclasses import replace
from random import Random

import pytest

from scheduler.core.model.plan import Plan
from scheduler.core.round.config import SchedulerConfig, SharePolicy
from scheduler.core.round.plan_round import plan_round
from scheduler.mechanisms import MECHANISMS
from scheduler.placement import LOCALITIES
from scheduler.policies import POLICIES
from tests.support.oracle.amounts import GIVERS, needs_of
from tests.support.oracle.cases import Case, random_case, smallest
from tests.support.oracle.orders import ORDERS
from tests.support.oracle.places import PLACES, Seats
from tests.support.oracle.rounds import brute_round

CASES = int(os.environ.get("ORACLE_CASES", "150"))
# Localities that tell jobs of one size apart.
BY_KIND = ("relax", "skew")


def config_of(policy: str, locality: str, mechanism: str) -> SchedulerConfig:
    """Return the configuration with every parameter at its default."""
    return SchedulerConfig(
        policy=POLICIES[policy](), locality=LOCALITIES[locality](), mechanism=MECHANISMS[mechanism]()
    )


def seats_of(plan: Plan) -> dict[int, Seats]:
    """Return the seats of every job that the plan lets run."""
    seats: dict[int, Seats] = {}
    grants = plan.grants
    for job, server, gpus in zip(grants.job.tolist(), grants.server.tolist(), grants.num_gpus.tolist(), strict=True):
        seats[job] = (*seats.get(job, ()), (server, gpus))
    return seats


def test_nothing_registered_is_without_an_oracle() -> None:
    """A new policy has its ``ORDER`` in its own test; a locality or mechanism is added to ``PLACES`` or ``GIVERS``."""
    assert not {name for name, kind in POLICIES.items() if not isinstance(kind(), SharePolicy)} - set(ORDERS)
    assert not set(LOCALITIES) - set(PLACES)
    assert not set(MECHANISMS) - set(GIVERS)


@pytest.mark.parametrize("policy", [name for name in POLICIES if name in ORDERS])
def test_order(policy: str) -> None:
    """Every list policy puts jobs in the order of its plain key."""
    rng = Random(f"order-{policy}")
    config = config_of(policy, "consolidate", "proportional")

    def differs(case: Case) -> object:
        return plan_round(case.snapshot(), config).order != ORDERS[policy].of(case)

    for _ in range(CASES):
        case = random_case(rng)
        if differs(case):
            pytest.fail(smallest(case, differs).told())


def _answers(case: Case, policy: str, locality: str, mechanism: str) -> tuple[Mapping[int, Seats], Mapping[int, Seats]]:
    """Return the seats that the core gives, and those of the plain walk."""
    plan = plan_round(case.snapshot(), config_of(policy, locality, mechanism))
    order, giver = ORDERS[policy], GIVERS[mechanism]
    walked = brute_round(
        case, order.of(case), preemptive=order.preemptive, place=PLACES[locality], needs=needs_of(case, giver)
    )
    seated = seats_of(plan)
    if giver.reseats:  # it may seat again who starts now, so only who runs is compared, and where those stay who ran
        stay = {job for job, row in enumerate(case.jobs) if row.seats and walked.get(job) == row.seats}
        stay = set() if locality in BY_KIND else stay
        return _masked(seated, stay), _masked(walked, stay)
    if locality in BY_KIND or mechanism == "greedy":
        # Jobs of one size trade places in the plain walk although one of them waited longer or wants other cores.
        return _sizes(case, seated), _sizes(case, walked)
    return seated, walked


def _masked(seats: Mapping[int, Seats], shown: set[int]) -> dict[int, Seats]:
    return {job: at if job in shown else () for job, at in seats.items()}


def _sizes(case: Case, seats: Mapping[int, Seats]) -> dict[int, Seats]:
    """Return who runs, and under negative numbers the sizes of the gangs on each server."""
    sizes = {
        -1 - server: tuple(
            sorted((case.jobs[job].num_gpus, gpus) for job, at in seats.items() for on, gpus in at if on == server)
        )
        for server in range(len(case.servers))
    }
    return {**sizes, **_masked(seats, set())}


@pytest.mark.parametrize("mechanism", [name for name in MECHANISMS if name in GIVERS])
@pytest.mark.parametrize("policy", [name for name in POLICIES if name in ORDERS])
def test_who_runs_where(policy: str, mechanism: str) -> None:
    """Gangs of one server: the same jobs run on the same servers as in the plain walk."""
    rng = Random(f"runs-{policy}-{mechanism}")
    for number in range(CASES):
        locality = rng.choice([name for name in LOCALITIES if name in PLACES])
        _agree(random_case(rng, protected=number % 2 == 1), policy, locality, mechanism)


@pytest.mark.parametrize("mechanism", [name for name in MECHANISMS if name in GIVERS])
@pytest.mark.parametrize("locality", [name for name in LOCALITIES if name in PLACES])
def test_who_starts_where(locality: str, mechanism: str) -> None:
    """Nobody runs yet, gangs may be spread over servers: the same jobs start on the same servers."""
    rng = Random(f"starts-{locality}-{mechanism}")
    for _ in range(CASES):
        case = random_case(rng, running=False, wide=True)
        if locality in ("any", "skew"):  # which servers they take when only so many are allowed is left open
            case = replace(case, jobs=tuple(replace(job, max_servers=job.max_servers % 2) for job in case.jobs))
        _agree(case, "fifo", locality, mechanism)


def _agree(case: Case, policy: str, locality: str, mechanism: str) -> None:
    def differs(case: Case) -> object:
        core, walked = _answers(case, policy, locality, mechanism)
        return core != walked

    if differs(case):
        pytest.fail(_told(smallest(case, differs), policy, locality, mechanism))


def _told(case: Case, policy: str, locality: str, mechanism: str) -> str:
    core, walked = _answers(case, policy, locality, mechanism)
    return f"{policy}/{locality}/{mechanism}\n{case.told()}\ncore   {core}\noracle {walked}"
