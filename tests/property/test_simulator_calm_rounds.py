"""Lone claims that are seated without a whole round get the seats of a whole round, to the hash."""

import os
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.choices import build_config
from scheduler.simulator.calm_rounds import CalmRounds
from scheduler.simulator.engine import simulate
from scheduler.simulator.jobs import Failure, SimJob
from tests.strategies import QueueRow, ServerRow, snapshot_of

quick = settings(deadline=None, max_examples=int(os.environ.get("PROPERTY_EXAMPLES", "12")), derandomize=True)

# The second queue may not borrow, the third has a maximum inside the first.
QUEUES = [
    QueueRow(quota_gpus=8),
    QueueRow(quota_gpus=4, may_borrow=False),
    QueueRow(parent=0, quota_gpus=2, max_gpus=6),
]
TABLES = snapshot_of([], [ServerRow(), ServerRow(num_gpus=4, num_cpus=12.0)], QUEUES)


@st.composite
def sparse(draw: st.DrawFn) -> list[SimJob]:
    """Jobs that come one after another, so that often nobody waits."""
    at_s, jobs = 0.0, []
    for _ in range(draw(st.integers(2, 20))):
        at_s += draw(st.sampled_from([0.0, 40.0, 200.0, 900.0]))
        failures = (Failure(after_s=50.0, cause="user"),) if draw(st.sampled_from([False, False, True])) else ()
        jobs.append(
            SimJob(
                arrival_s=at_s,
                run_s=draw(st.sampled_from([30.0, 300.0, 1_500.0])),
                num_gpus=draw(st.sampled_from([1, 1, 2, 3, 4, 8, 12, 16])),
                max_servers=draw(st.sampled_from([1, 2, 0])),
                queue=draw(st.integers(0, 2)),
                failures=failures,
            )
        )
    return jobs


@pytest.mark.parametrize("policy", ["fifo", "srtf", "las", "fair"])
@pytest.mark.parametrize("locality", ["consolidate", "any", "skew", "relax"])
@quick
@given(jobs=sparse(), round_s=st.sampled_from([None, 60.0]))
def test_replays_with_lone_claims_equal_replays_of_whole_rounds(
    policy: str, locality: str, jobs: list[SimJob], round_s: float | None
) -> None:
    config = build_config(policy=policy, locality=locality, mechanism="proportional")
    quick_one, whole = (
        simulate(jobs, TABLES.servers, TABLES.queues, config, round_s=round_s, skip=skip) for skip in (True, False)
    )
    assert quick_one.plan_hash == whole.plan_hash
    assert (quick_one.records.end_s == whole.records.end_s).all()


def test_a_lone_claim_needs_no_whole_round() -> None:
    jobs = [SimJob(arrival_s=100.0 * row, run_s=50.0, num_gpus=2, queue=row % 3) for row in range(6)]
    config = build_config(policy="fifo", mechanism="proportional", locality="relax")  # planned whole otherwise
    seated = []
    plan = CalmRounds.plan

    def noted(self: CalmRounds, world: object) -> object:
        changes = plan(self, world)  # type: ignore[arg-type]  # the replay hands its world on
        seated.append(changes is not None)
        return changes

    with patch.object(CalmRounds, "plan", noted):
        simulate(jobs, TABLES.servers, TABLES.queues, config)
    assert seated
    assert all(seated)
