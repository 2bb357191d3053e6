"""What one user may hold in a queue: who waits for it, and that nothing else changes."""

from dataclasses import replace

import numpy as np
import pytest

from scheduler.choices import build_config
from scheduler.core.model.plan import Plan, WaitReason
from scheduler.core.model.tables import Snapshot
from scheduler.core.operations.needed_change import needed_change
from scheduler.core.operations.reasons import sentence
from scheduler.core.round.plan_round import plan_round
from tests.support.simulator.strategies import JobRow, QueueRow, ServerRow, snapshot_of

CONFIG = build_config(policy="fifo", locality="consolidate", mechanism="proportional")


def limited(jobs: list[JobRow], *, limit: int, gpus: int = 8) -> Snapshot:
    """Return one queue in which each user may hold ``limit`` GPUs, on one server."""
    snapshot = snapshot_of(jobs, [ServerRow(num_gpus=gpus)], [QueueRow(quota_gpus=gpus)])
    return replace(snapshot, queues=replace(snapshot.queues, user_max_gpus=np.array([limit])))


def granted(plan: Plan) -> set[int]:
    """Return the rows of the jobs that run."""
    return set(plan.grants.job.tolist())


def test_a_user_beyond_the_limit_waits_for_it_while_others_start() -> None:
    """Free GPUs go to the next user, and the reason says how many the first may hold."""
    jobs = [JobRow(owner=1, num_gpus=2, arrival_s=float(at)) for at in range(3)] + [JobRow(owner=2, arrival_s=9.0)]

    plan = plan_round(limited(jobs, limit=4), CONFIG)

    assert granted(plan) == {0, 1, 3}
    (waiting,) = plan.waiting
    assert (waiting.job, waiting.reason) == (2, WaitReason.USER_LIMIT)
    assert waiting.evidence == {"needed_gpus": 2, "queue_id": 1, "user_held_gpus": 4, "user_max_gpus": 4}
    assert sentence(waiting.reason, {**waiting.evidence, "queue": "vision"}) == (
        "One user may hold 4 GPUs in vision. Its owner's jobs hold, or come first for, 4; it needs 2 GPUs."
    )


def test_a_job_wider_than_the_limit_is_told_that_it_never_starts_so() -> None:
    """Nothing runs: no end of a job helps. One that could begin with fewer GPUs is not told that."""
    jobs = [JobRow(owner=1, num_gpus=4), JobRow(owner=2, num_gpus=4, min_gpus=1, max_gpus=4)]
    wide, elastic = plan_round(limited(jobs, limit=1), CONFIG).waiting

    assert {wide.reason, elastic.reason} == {WaitReason.USER_LIMIT}
    assert needed_change(wide.reason, wide.evidence).startswith("one user may hold 4 GPUs")
    assert not needed_change(elastic.reason, elastic.evidence)


def test_a_wide_job_is_stepped_over_and_a_narrow_one_takes_the_rest() -> None:
    """Three of four are held: a pair does not fit under the limit, a single GPU does."""
    jobs = [
        JobRow(owner=1, num_gpus=3, seats=((0, 3),)),
        JobRow(owner=1, num_gpus=2, arrival_s=1.0),
        JobRow(owner=1, num_gpus=1, arrival_s=2.0),
    ]

    plan = plan_round(limited(jobs, limit=4), CONFIG)

    assert granted(plan) == {0, 2}
    assert [(entry.job, entry.reason) for entry in plan.waiting] == [(1, WaitReason.USER_LIMIT)]


def test_nothing_is_stopped_for_a_limit_that_was_lowered() -> None:
    """Who holds more than the limit goes on; only what waits feels it."""
    jobs = [JobRow(owner=1, num_gpus=6, seats=((0, 6),)), JobRow(owner=1, arrival_s=1.0)]

    plan = plan_round(limited(jobs, limit=2), CONFIG)

    assert plan.kept == {0}
    assert [entry.reason for entry in plan.waiting] == [WaitReason.USER_LIMIT]


@pytest.mark.parametrize("limit", [0, 100])
def test_a_limit_that_nobody_reaches_changes_no_plan(limit: int) -> None:
    """No limit, and one beyond everybody, decide alike to the last bit."""
    jobs = [JobRow(owner=row % 2, num_gpus=1 + row % 3, arrival_s=float(row)) for row in range(8)]

    found, expected = plan_round(limited(jobs, limit=limit), CONFIG), plan_round(limited(jobs, limit=0), CONFIG)

    assert found.plan_hash == expected.plan_hash
    assert [*found.waiting] == [*expected.waiting]


def test_the_same_user_counts_anew_in_another_queue() -> None:
    """A limit is of a user in a queue, not of a user."""
    jobs = [JobRow(owner=1, queue=row, num_gpus=2) for row in (0, 1)]
    snapshot = snapshot_of(jobs, [ServerRow()], [QueueRow(quota_gpus=4), QueueRow(quota_gpus=4)])
    snapshot = replace(snapshot, queues=replace(snapshot.queues, user_max_gpus=np.array([2, 2])))

    assert granted(plan_round(snapshot, CONFIG)) == {0, 1}
