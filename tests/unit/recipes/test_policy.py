"""The recipe for a policy: one class, one entry in ``POLICIES``, and everything else follows.

The options form, ``GET /api/v1/policies`` and the what-if form are drawn from ``choices()``; rounds, pages and REST are
tried in ``tests/integration/recipes/test_policy.py``.
"""

import sys
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterweb.config.env import BASE_DIR
from scheduler.choices import build_config, choices
from scheduler.core.model.errors import SpecInvalid
from scheduler.core.round.plan_round import plan_round
from scheduler.management.simulate_arguments import choices_text
from scheduler.mechanisms import MECHANISMS
from scheduler.placement import LOCALITIES
from scheduler.policies import POLICIES
from scheduler.simulator.incremental.replay_plan import replay_plan
from scheduler.simulator.incremental.single_queue_rounds import SingleQueueRounds
from scheduler.simulator.jobs import SimJob
from scheduler.simulator.replay.engine import simulate
from scheduler.simulator.replay.replay import Replay
from scheduler.simulator.state.columns import Columns
from scheduler.simulator.study.arms import Arm, parse_arms
from tests.support.oracle.cases import Case
from tests.support.oracle.order import each
from tests.support.oracle.own_test import in_own_test
from tests.support.recipes.smallest_first import SmallestFirst
from tests.support.simulator.strategies import JobRow, QueueRow, ServerRow, snapshot_of
from tests.support.suite.examples import tried

# The plain key of one job, which the oracle compares with ``plan_round`` on random clusters.
ORDER = each(lambda job, case: (job.num_gpus,), preemptive=True)


@pytest.fixture(autouse=True, scope="module")
def _registered() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(POLICIES, SmallestFirst.name, SmallestFirst)
        yield


def test_it_is_offered_with_its_options() -> None:
    """To the options form, the what-if form and the REST list, with the first line of its docstring."""
    [offered] = [choice for choice in choices()["policies"] if choice["name"] == "smallest-first"]

    assert offered["help"] == "Fewest GPUs first; among equals earliest submission first."
    assert [option["name"] for option in offered["parameters"]] == ["cap_gpus"]


def test_its_options_are_checked() -> None:
    """A whole number from 1 on; the refusal names the option."""
    assert build_config(policy="smallest-first", policy_options={"cap_gpus": 8}).policy == SmallestFirst(cap_gpus=8)
    with pytest.raises(SpecInvalid, match="cap_gpus"):
        build_config(policy="smallest-first", policy_options={"cap_gpus": 0})


def test_the_printed_reference_lists_it() -> None:
    """docs/simulator.md sends readers to ``manage.py simulate --choices`` instead of listing policies itself."""
    assert (
        "  smallest-first: Fewest GPUs first; among equals earliest submission first.\n    cap_gpus=" in choices_text()
    )


@pytest.mark.parametrize("locality", LOCALITIES)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_it_is_compared_in_every_combination(locality: str, mechanism: str) -> None:
    """``manage.py simulate --compare smallest-first:LOCALITY+MECHANISM``."""
    [arm] = parse_arms(f"smallest-first:{locality}+{mechanism}", Arm(policy="fifo", locality="any", mechanism="tune"))

    assert arm.config().policy == SmallestFirst()


jobs = st.lists(
    st.builds(
        SimJob,
        arrival_s=st.integers(0, 900).map(float),
        num_gpus=st.sampled_from([1, 1, 2, 3, 4, 8]),
        run_s=st.sampled_from([20.0, 45.5, 120.0, 1000.0]),
    ),
    min_size=1,
    max_size=20,
)


@tried(10)
@given(jobs=jobs, mechanism=st.sampled_from(["proportional", "tune"]))
def test_it_replays_on_the_fast_path(jobs: list[SimJob], mechanism: str) -> None:
    """``steady`` is all it says: rounds are made from what changed, and give the plans of ``plan_round``."""
    tables = snapshot_of([], [ServerRow(), ServerRow(num_gpus=4)], [QueueRow()])
    config = build_config(policy="smallest-first", mechanism=mechanism)

    planner, why = replay_plan(config, Columns(jobs), tables.servers, tables.queues)
    assert isinstance(planner, SingleQueueRounds), why
    fast, whole = (
        simulate(
            Replay(
                jobs=jobs,
                servers=tables.servers,
                queues=tables.queues,
                config=config,
                round_s=60.0,
                incremental=incremental,
            )
        )
        for incremental in (True, False)
    )
    assert fast.plan_hash == whole.plan_hash
    assert fast.records.end_s.tolist() == whole.records.end_s.tolist()


def test_its_own_test_holds_the_key_for_the_oracle(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oracle finds ``ORDER`` in the policy's test, and ``plan_round`` gives that order."""
    monkeypatch.setitem(sys.modules, "tests.unit.policies.test_smallest_first", sys.modules[__name__])
    case = Case(
        jobs=(JobRow(num_gpus=4), JobRow(num_gpus=1), JobRow(num_gpus=2)),
        servers=(ServerRow(),),
        racks=(0,),
    )
    plan = plan_round(case.snapshot(), build_config(policy="smallest-first"))

    assert plan.order == in_own_test("smallest-first", "ORDER").of(case) == [1, 2, 0]


@pytest.mark.parametrize(("policy", "name"), [("srsf", "ORDER"), ("maxmin", "SHARES")])
def test_policies_of_the_registry_do_it_so(policy: str, name: str) -> None:
    """The example of the recipe, and a policy that chooses how many GPUs each job gets; no other file names them."""
    assert in_own_test(policy, name) is not None
    assert policy not in (BASE_DIR / "tests/support/oracle/orders.py").read_text()
    assert f'"{policy}"' not in (BASE_DIR / "tests/support/oracle/shares.py").read_text()
