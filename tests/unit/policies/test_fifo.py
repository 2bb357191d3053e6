"""First come, first served, with and without jobs that overtake."""

import pytest
from hypothesis import given

from scheduler.choices import build_config
from scheduler.core.model.plan import Plan, WaitReason
from scheduler.core.model.tables import Snapshot
from scheduler.core.operations.reasons import sentence
from scheduler.core.round.plan_round import plan_round
from tests.support.simulator.strategies import JobRow, QueueRow, ServerRow, snapshot_of, snapshots

FILLS = build_config(policy="fifo", mechanism="proportional")
STRICT = build_config(policy="fifo", policy_options={"backfill": False}, mechanism="proportional")


def starts(snapshot: Snapshot, plan: Plan) -> list[int]:
    """Return the jobs that begin to run."""
    return sorted(row for row in set(plan.grants.job.tolist()) if not snapshot.jobs.running[row])


def test_a_later_job_fills_what_an_earlier_one_cannot_use() -> None:
    """X takes 4 of 6 GPUs, Y waits for 8, Z takes the other 2: with backfill only."""
    rows = [JobRow(num_gpus=4), JobRow(num_gpus=8, arrival_s=1), JobRow(num_gpus=2, arrival_s=2)]
    snapshot = snapshot_of([*rows, JobRow(num_gpus=2, seats=((0, 2),))], [ServerRow()])

    assert starts(snapshot, plan_round(snapshot, FILLS)) == [0, 2]
    assert starts(snapshot, plan_round(snapshot, STRICT)) == [0]


def test_who_stands_behind_is_told_for_how_many_gpus_the_first_waits() -> None:
    """The reason names the job in front, not a lack of GPUs that there is not."""
    rows = [JobRow(num_gpus=8, arrival_s=1), JobRow(num_gpus=2, arrival_s=2), JobRow(num_gpus=2, seats=((0, 2),))]
    first, second = plan_round(snapshot_of(rows, [ServerRow()]), STRICT).waiting

    assert "ahead_gpus" in first.evidence
    assert (second.reason, second.evidence["first_needs_gpus"]) == (WaitReason.BEHIND_POLICY_ORDER, 8)
    assert "strictly in order" in sentence(second.reason, second.evidence)


def test_the_line_of_one_queue_does_not_hold_up_another() -> None:
    """Strict means strict inside a queue."""
    rows = [JobRow(num_gpus=8), JobRow(num_gpus=2, arrival_s=1, queue=1), JobRow(num_gpus=2, seats=((0, 2),))]
    snapshot = snapshot_of(rows, [ServerRow()], [QueueRow(), QueueRow()])

    assert starts(snapshot, plan_round(snapshot, STRICT)) == [1]


@pytest.mark.parametrize(
    ("impossible", "queues"), [(JobRow(num_gpus=16), [QueueRow()]), (JobRow(num_gpus=8), [QueueRow(max_gpus=4)])]
)
def test_a_job_that_could_never_run_holds_up_nobody(impossible: JobRow, queues: list[QueueRow]) -> None:
    """Wider than the servers, or than its queue may ever hold."""
    snapshot = snapshot_of([impossible, JobRow(num_gpus=2, arrival_s=1)], [ServerRow()], queues)

    assert starts(snapshot, plan_round(snapshot, STRICT)) == [1]


def test_quota_does_not_carry_a_later_job_past_a_wider_one() -> None:
    """A quota of 2 covers the second job and not the first; it waits all the same."""
    rows = [JobRow(num_gpus=8), JobRow(num_gpus=2, arrival_s=1), JobRow(num_gpus=1, seats=((0, 1),), queue=1)]
    snapshot = snapshot_of(rows, [ServerRow()], [QueueRow(quota_gpus=2), QueueRow(quota_gpus=1)])

    assert starts(snapshot, plan_round(snapshot, FILLS)) == [1]
    assert starts(snapshot, plan_round(snapshot, STRICT)) == []


@given(snapshots())
def test_in_line_nobody_overtakes(snapshot: Snapshot) -> None:
    """Among the jobs of a queue that could run at all, those that start come before all that go on waiting."""
    plan, jobs = plan_round(snapshot, STRICT), snapshot.jobs
    caps = _least_caps(snapshot)
    position = {row: place for place, row in enumerate(plan.order)}
    for waiting in plan.waiting:
        row, queue = waiting.job, jobs.queue[waiting.job]
        if waiting.reason != WaitReason.NEVER_FEASIBLE and not jobs.running[row] and jobs.num_gpus[row] <= caps[queue]:
            later = [job for job in starts(snapshot, plan) if jobs.queue[job] == queue]
            assert all(position[job] < position[row] for job in later)


def _least_caps(snapshot: Snapshot) -> list[int]:
    queues, caps = snapshot.queues, []
    for row in range(len(queues)):
        most, node = int(queues.max_gpus[row]), row
        while node >= 0:
            quota = _quota(snapshot, node)
            most = min(most, int(queues.max_gpus[node]), most if queues.may_borrow[node] else quota)
            node = int(queues.parent[node])
        caps.append(most)
    return caps


def _quota(snapshot: Snapshot, node: int) -> int:
    queues = snapshot.queues
    children = [row for row in range(len(queues)) if queues.parent[row] == node]
    return max(int(queues.quota_gpus[node]), sum(_quota(snapshot, child) for child in children))
