"""The keys in a plan are those that made its order."""

from dataclasses import replace

import numpy as np
import pytest

from scheduler.choices import build_config
from scheduler.core.model.holds import After
from scheduler.core.round.plan_round import plan_round
from scheduler.policies import POLICIES
from tests.support.simulator.strategies import JobRow, ServerRow, snapshot_of

JOBS = [
    JobRow(num_gpus=4, min_gpus=1, max_gpus=8, arrival_s=1.0, remaining_s=9e3, seats=((0, 4),), rate=1.0),
    JobRow(num_gpus=2, min_gpus=1, max_gpus=8, arrival_s=2.0, remaining_s=7e3, priority=60.0),
    JobRow(num_gpus=8, min_gpus=2, max_gpus=8, arrival_s=3.0, remaining_s=8e3),
    JobRow(num_gpus=1, arrival_s=4.0, remaining_s=1e2),
]


@pytest.mark.parametrize("policy", POLICIES)
def test_sorting_by_the_keys_of_a_plan_gives_its_order(policy: str) -> None:
    """Under share policies, too, whose keys count the shares and not what jobs ask for."""
    snapshot = snapshot_of(JOBS, [ServerRow()])
    plan = plan_round(snapshot, build_config(policy=policy))
    jobs = snapshot.jobs

    assert plan.order == np.lexsort((jobs.job_id, jobs.arrival_s, jobs.first_start_s, plan.keys)).tolist()


def test_a_job_that_is_held_back_has_no_key() -> None:
    """The policy was not asked about it."""
    snapshot = snapshot_of(JOBS, [ServerRow()])
    held = replace(snapshot, after=(After(jobs=(2,), on=(99,)),))

    assert np.isnan(plan_round(held, build_config(policy="fifo")).keys).tolist() == [False, True, False, False]


def test_jobs_that_go_by_turns_have_no_keys_of_the_policy() -> None:
    """The policy breaks ties there; its keys would stand beside an order that they did not make."""
    config = build_config(policy="fifo", introspection=("slicing",))

    assert plan_round(snapshot_of(JOBS, [ServerRow()]), config).keys.tolist() == []
