"""Quota, weight, borrowing and reclaim."""

from collections.abc import Sequence

import numpy as np
import pytest

from scheduler.choices import build_config
from scheduler.core.model.plan import Plan, PreemptRule, WaitReason
from scheduler.core.model.queue_tree import fair_shares, queue_tree, water_fill
from scheduler.core.model.tables import Snapshot
from scheduler.core.round.plan_round import plan_round
from tests.support.simulator.strategies import JobRow, QueueRow, ServerRow, snapshot_of

PHILLY = [QueueRow(quota_gpus=40, weight=40), QueueRow(quota_gpus=40, weight=40), QueueRow(quota_gpus=20, weight=20)]
FIFO = build_config(policy="fifo", mechanism="proportional")
SRTF = build_config(policy="srtf", mechanism="proportional")


def _servers(num_gpus: int) -> list[ServerRow]:
    return [ServerRow(num_gpus=1, num_cpus=3, memory_bytes=62.5e9)] * num_gpus


def _held(snapshot: Snapshot, plan: Plan) -> list[int]:
    queue = snapshot.jobs.queue[plan.grants.job]
    held = np.bincount(queue, weights=plan.grants.num_gpus, minlength=len(snapshot.queues))
    return [int(gpus) for gpus in held]


def _shares(queues: Sequence[QueueRow], demand: list[int], capacity: int) -> list[float]:
    snapshot = snapshot_of([], [], list(queues))
    shares = fair_shares(queue_tree(snapshot.queues), np.array(demand, dtype=np.int64), capacity)
    return [round(float(share), 6) for share in shares]


@pytest.mark.parametrize(
    ("demands", "shares"),
    [((70, 10, 30), [60, 10, 30]), ((70, 60, 30), [40, 40, 20])],
    ids=["idle quota is lent", "nothing to lend"],
)
def test_idle_quota_is_filled_like_water(demands: tuple[int, ...], shares: list[float]) -> None:
    """Philly: 100 GPUs, quotas 40, 40 and 20."""
    assert _shares(PHILLY, list(demands), 100) == shares


@pytest.mark.parametrize(("demands", "held"), [((70, 10, 30), [60, 10, 30]), ((70, 60, 30), [40, 40, 20])])
@pytest.mark.parametrize("config", [FIFO, SRTF], ids=["fifo", "srtf"])
def test_a_round_gives_each_queue_its_share(config: object, demands: tuple[int, ...], held: list[int]) -> None:
    """The same through a whole round: whatever the order of arrival, queues end at their shares."""
    jobs = [JobRow(queue=queue, remaining_s=100) for queue, count in enumerate(demands) for _ in range(count)]
    snapshot = snapshot_of(jobs, _servers(100), PHILLY)

    assert _held(snapshot, plan_round(snapshot, config)) == held  # type: ignore[arg-type]  # parametrized


def test_weights_share_what_is_left() -> None:
    """Water filling gives in proportion to the weights, and no queue more than it asks for."""
    assert water_fill(12, [100, 100, 2], [1, 3, 1]) == pytest.approx([2.5, 7.5, 2])


def test_a_share_goes_down_the_tree() -> None:
    """The quota that one child leaves idle goes to its sibling before it goes to another queue."""
    queues = [QueueRow(quota_gpus=8), QueueRow(parent=0, quota_gpus=4), QueueRow(parent=0, quota_gpus=4), QueueRow()]

    assert _shares(queues, [0, 10, 1, 10], 10) == [9, 8, 1, 1]


def test_more_promised_than_there_is_shrinks_in_proportion() -> None:
    """When servers were lost and quotas no longer fit, each queue gets its part of what is left."""
    assert _shares([QueueRow(quota_gpus=8), QueueRow(quota_gpus=4)], [8, 4], 6) == [4, 2]


def test_a_queue_without_quota_uses_idle_gpus() -> None:
    """No quota anywhere: all queues borrow, none starves."""
    snapshot = snapshot_of([JobRow(queue=1, num_gpus=8), JobRow(queue=0)], [ServerRow()] * 2, [QueueRow(), QueueRow()])

    plan = plan_round(snapshot, FIFO)

    assert not plan.waiting


def test_a_gang_wider_than_its_fair_share_still_runs() -> None:
    """The gang that crosses the fair share counts as inside it, or two queues of wide jobs would both wait for ever."""
    jobs = [JobRow(queue=0, num_gpus=8), JobRow(queue=1, num_gpus=8)]

    plan = plan_round(snapshot_of(jobs, [ServerRow()], [QueueRow(), QueueRow()]), FIFO)

    assert plan.grants.job.tolist() == [0]


def test_the_owner_of_a_quota_takes_its_gpus_back() -> None:
    """A job within its queue's quota stops a borrower; the evidence names the quota and the job."""
    queues = [QueueRow(quota_gpus=4), QueueRow()]
    borrowers = [JobRow(queue=1, seats=((0, 2),), num_gpus=2, held_at_s=at) for at in (1.0, 2.0, 3.0, 4.0)]
    snapshot = snapshot_of([*borrowers, JobRow(num_gpus=2, arrival_s=9)], [ServerRow()], queues)

    plan = plan_round(snapshot, FIFO)

    (preemption,) = plan.preemptions
    assert (preemption.job, preemption.by_job, preemption.rule) == (3, 4, PreemptRule.QUOTA_RECLAIM)
    assert preemption.evidence["queue_held_gpus"] == 8
    assert plan.waiting[0].reason == WaitReason.QUEUE_QUOTA


def test_victims_come_from_the_queue_furthest_over_its_share_and_lose_least() -> None:
    """Most over-share queue first; in it the job with the least unsaved work; one that is not preemptible last."""
    queues = [QueueRow(quota_gpus=2), QueueRow(), QueueRow()]
    running = [
        JobRow(queue=1, seats=((0, 1),), held_at_s=9, unsaved_s=0),
        JobRow(queue=2, seats=((1, 1),), held_at_s=1, unsaved_s=50),
        JobRow(queue=2, seats=((2, 1),), held_at_s=1, unsaved_s=10),
        JobRow(queue=2, seats=((3, 1),), held_at_s=1, unsaved_s=0, preemptible=False),
    ]
    snapshot = snapshot_of([*running, JobRow(arrival_s=5)], _servers(4), queues)

    plan = plan_round(snapshot, FIFO)

    assert [preemption.job for preemption in plan.preemptions] == [2]


def test_a_queue_at_its_quota_takes_from_itself_only() -> None:
    """A first job of a full queue takes the place of a weaker one of that queue, not of a borrower elsewhere."""
    queues = [QueueRow(quota_gpus=2), QueueRow()]
    jobs = [
        JobRow(queue=0, seats=((0, 1),), remaining_s=50),
        JobRow(queue=0, seats=((1, 1),), remaining_s=95),
        JobRow(queue=1, seats=((2, 1),), remaining_s=90),
        JobRow(queue=0, remaining_s=10),
    ]

    plan = plan_round(snapshot_of(jobs, _servers(3), queues), SRTF)

    assert [(preemption.job, preemption.rule) for preemption in plan.preemptions] == [(1, PreemptRule.POLICY_ORDER)]


def test_a_queue_does_not_stop_its_own_protected_jobs() -> None:
    """Taking quota back stops borrowers of other queues; inside a queue a job that is not preemptible stays."""
    queues = [QueueRow(), QueueRow(parent=0, quota_gpus=3), QueueRow(parent=1)]
    jobs = [JobRow(queue=1, num_gpus=3, remaining_s=1), JobRow(queue=1, seats=((0, 1),), preemptible=False)]

    assert not plan_round(snapshot_of(jobs, [ServerRow(num_gpus=3)], queues), SRTF).preemptions


def test_borrowers_compete_in_the_order_of_the_policy() -> None:
    """A job that lost its place in the quota goes on as a borrower when it is stronger than another."""
    queues = [QueueRow(quota_gpus=2), QueueRow()]
    jobs = [
        JobRow(queue=0, seats=((0, 1),), remaining_s=50),
        JobRow(queue=0, seats=((1, 1),), remaining_s=70),
        JobRow(queue=1, seats=((2, 1),), remaining_s=90),
        JobRow(queue=0, remaining_s=10),
    ]

    plan = plan_round(snapshot_of(jobs, _servers(3), queues), SRTF)

    assert [(p.job, p.by_job, p.rule) for p in plan.preemptions] == [(2, 3, PreemptRule.POLICY_ORDER)]
    assert plan.kept == {0, 1}


def test_reclaim_waits_as_long_as_it_is_told() -> None:
    """A job within its quota leaves borrowers alone until it has waited reclaim_after_s."""
    config = build_config(policy="fifo", mechanism="proportional", reclaim_after_s=60)

    def plan(waited_s: float) -> Plan:
        jobs = [JobRow(queue=1, seats=((0, 8),), num_gpus=8), JobRow(num_gpus=2, waited_s=waited_s)]
        return plan_round(snapshot_of(jobs, [ServerRow()], [QueueRow(quota_gpus=4), QueueRow()]), config)

    assert not plan(59).preemptions
    assert len(plan(60).preemptions) == 1


@pytest.mark.parametrize(
    ("queue", "reason"),
    [
        (QueueRow(quota_gpus=4, max_gpus=4), WaitReason.QUEUE_MAX),
        (QueueRow(quota_gpus=4, may_borrow=False), WaitReason.QUEUE_QUOTA),
    ],
)
def test_a_full_queue_waits_beside_free_gpus(queue: QueueRow, reason: WaitReason) -> None:
    """The most a queue may hold binds even when GPUs are free, and the reason says so with its numbers."""
    snapshot = snapshot_of([JobRow(num_gpus=4), JobRow(num_gpus=1, arrival_s=1)], [ServerRow()], [queue])

    (waiting,) = plan_round(snapshot, FIFO).waiting

    assert waiting.reason == reason
    assert waiting.evidence["queue_held_gpus"] == 4
    assert waiting.evidence["queue_id"] == 1


def test_a_full_queue_replaces_its_weaker_job() -> None:
    """In a queue that may hold no more, a stronger job takes the GPUs of a weaker one although others are free."""
    jobs = [JobRow(seats=((0, 2),), num_gpus=2, remaining_s=90), JobRow(num_gpus=2, remaining_s=10)]
    snapshot = snapshot_of(jobs, [ServerRow()], [QueueRow(quota_gpus=2, may_borrow=False)])

    plan = plan_round(snapshot, SRTF)

    assert [(preemption.job, preemption.by_job) for preemption in plan.preemptions] == [(0, 1)]
    assert plan.grants.job.tolist() == [1]


def test_a_parent_without_own_quota_covers_its_children() -> None:
    """A root whose own quota is 0 does not turn the quotas of its children into nothing."""
    queues = [QueueRow(), QueueRow(parent=0, quota_gpus=4), QueueRow()]
    jobs = [JobRow(queue=2, seats=((0, 8),), num_gpus=8), JobRow(queue=1, num_gpus=4)]

    plan = plan_round(snapshot_of(jobs, [ServerRow()], queues), FIFO)

    assert plan.grants.job.tolist() == [1]
