"""Parts of queues beside jobs that keep their GPUs: limits, guarantees, and who gives GPUs back to an owner."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from scheduler.core.model.plan import PreemptRule
from scheduler.core.model.queue_tree import queue_tree
from scheduler.core.model.tables import NO_ROW, Snapshot
from scheduler.core.round.config import SchedulerConfig, SharePolicy
from scheduler.core.round.plan_round import plan_round
from scheduler.core.round.shares.queue_shares import whole_gpus
from scheduler.mechanisms.proportional import Proportional
from scheduler.placement.any import AnyGpus
from scheduler.policies import POLICIES
from scheduler.policies.maxmin import Maxmin
from tests.support.simulator.strategies import NOW_S, JobRow, QueueRow, ServerRow, snapshot_of

CONFIG = SchedulerConfig(policy=Maxmin(), locality=AnyGpus(), mechanism=Proportional())
SHARING = [name for name, policy in POLICIES.items() if isinstance(policy(), SharePolicy)]
OWNER, BORROWER = QueueRow(quota_gpus=6), QueueRow()


def _rigid(gpus: int, *, queue: int = 0, held: bool = False, **columns: Any) -> JobRow:
    """Return a rigid job of so many GPUs; one that holds them may not be preempted. Any: columns of several types."""
    job = JobRow(num_gpus=gpus, queue=queue, max_servers=0, preemptible=not held, waited_s=0.0 if held else 100.0)
    return replace(job, seats=((0, gpus),) if held else (), first_start_s=0.0 if held else float("inf"), **columns)


def _elastic(most: int, *, queue: int = 0, held: int = 0, preemptible: bool = True, **columns: Any) -> JobRow:
    job = JobRow(num_gpus=1, min_gpus=1, max_gpus=most, queue=queue, max_servers=0, preemptible=preemptible)
    job = replace(job, seats=((0, held),) if held else (), waited_s=0.0 if held else 100.0, remaining_s=1_000.0)
    return replace(job, **columns)


def _gpus(snapshot: Snapshot, config: SchedulerConfig = CONFIG) -> list[int]:
    """Return the GPUs that each job gets."""
    grants = plan_round(snapshot, config).grants
    gpus: list[int] = (
        np.bincount(grants.job, weights=grants.num_gpus, minlength=len(snapshot.jobs)).astype(int).tolist()
    )
    return gpus


def _cluster(jobs: list[JobRow], queues: Sequence[QueueRow], gpus: int) -> Snapshot:
    return snapshot_of(jobs, [ServerRow(num_gpus=gpus, num_cpus=3.0 * gpus)], list(queues))


def test_parts_of_queues_are_whole_and_complete() -> None:
    """Three equal queues of 8 GPUs get 3, 3 and 2: largest remainders first, nothing lost, no cap broken."""
    queues = [QueueRow(), QueueRow(), QueueRow(max_gpus=2)]
    tree = queue_tree(snapshot_of([], [ServerRow()], [QueueRow()] * 3).queues)
    capped = queue_tree(snapshot_of([], [ServerRow()], queues).queues)

    assert whole_gpus(tree, np.array([8, 8, 8]), 8).tolist() == [3, 3, 2]
    assert whole_gpus(capped, np.array([8, 8, 8]), 8).tolist() == [3, 3, 2]
    assert whole_gpus(tree, np.array([1, 8, 8]), 8).tolist() == [1, 4, 3]


@pytest.mark.parametrize("policy", SHARING)
def test_a_queue_stays_in_its_limit_beside_a_job_that_keeps_its_gpus(policy: str) -> None:
    """Of the 8 GPUs that two sibling queues may hold one keeps 6, so the other grows to 2 and not to its part of 4."""
    queues = [QueueRow(max_gpus=8), QueueRow(parent=0), QueueRow(parent=0)]
    keeps = _elastic(8, queue=1, held=6, preemptible=False)
    snapshot = _cluster([keeps, _elastic(8, queue=2, held=1)], queues, 16)

    assert _gpus(snapshot, replace(CONFIG, policy=POLICIES[policy]())) == [6, 2]


def test_a_queue_over_its_limit_gives_its_siblings_nothing() -> None:
    """A queue that holds more than it may, since its limit was lowered, keeps that and does not grow."""
    queues = [QueueRow(max_gpus=4), QueueRow(parent=0), QueueRow(parent=0)]
    snapshot = _cluster([_rigid(6, queue=1, held=True), _elastic(8, queue=2)], queues, 16)

    assert _gpus(snapshot) == [6, 0]


def test_what_is_kept_over_a_part_comes_off_the_borrower() -> None:
    """A borrower keeps 4 of 12 GPUs; the owner still gets its 6, another borrower the 2 that are left."""
    jobs = [_rigid(4, queue=1, held=True), _elastic(6, queue=0), _elastic(8, queue=2)]

    assert _gpus(_cluster(jobs, [OWNER, BORROWER, BORROWER], 12)) == [4, 6, 2]


def test_a_protected_borrower_leaves_for_the_owner() -> None:
    """A job that is not preemptible keeps idle quota only until the owner wants it, and as many of it as are needed."""
    jobs = [_rigid(2, queue=1, held=True), _rigid(2, queue=1, held=True), _rigid(2, queue=1, held=True), _rigid(4)]
    snapshot = _cluster(jobs, [OWNER, BORROWER], 8)
    plan = plan_round(snapshot, CONFIG)

    assert sorted(_gpus(snapshot)) == [0, 2, 2, 4]
    (stop,) = plan.preemptions
    assert (stop.rule, stop.by_job) == (PreemptRule.QUOTA_RECLAIM, NO_ROW)
    assert (stop.evidence["queue_held_gpus"], stop.evidence["queue_share_gpus"]) == (4, 4)


@pytest.mark.parametrize("config", [replace(CONFIG, preempt=False), replace(CONFIG, min_run_s=NOW_S)])
def test_jobs_that_are_young_or_may_not_be_stopped_leave_for_an_owner_too(config: SchedulerConfig) -> None:
    """Neither ``min_run_s`` nor a cluster without preemption keeps an owner from its quota."""
    running = replace(_rigid(6, queue=1, held=True), preemptible=True, held_at_s=NOW_S - 10.0)

    assert _gpus(_cluster([running, _rigid(6)], [OWNER, BORROWER], 8), config) == [0, 6]
    assert _gpus(_cluster([running, _rigid(6, queue=1)], [OWNER, BORROWER], 8), config) == [6, 0]


def test_who_may_be_preempted_leaves_before_who_may_not() -> None:
    """A young preemptible job of a queue that borrows little goes before one that is not of one that borrows much."""
    config = replace(CONFIG, min_run_s=NOW_S)
    young = replace(_rigid(2, queue=2, held=True), preemptible=True, held_at_s=NOW_S - 10.0)
    jobs = [_rigid(4, queue=1, held=True), young, _rigid(4)]

    assert _gpus(_cluster(jobs, [OWNER, BORROWER, BORROWER], 8), config) == [4, 0, 4]


def test_the_queue_that_is_furthest_over_gives_first() -> None:
    """Of a queue that borrows 4 GPUs and one that borrows 2, the first gives up a job of 2."""
    jobs = [_rigid(2, queue=queue, held=True) for queue in (2, 1, 1)] + [_rigid(2)]
    gpus = _gpus(_cluster(jobs, [OWNER, BORROWER, BORROWER], 6))

    assert (gpus[0], sorted(gpus[1:3]), gpus[3]) == (2, [0, 2], 2)


def test_inside_a_queue_the_least_work_is_lost_then_the_newest_leaves() -> None:
    """The job with the newest checkpoint goes; where that is equal the one that was placed last."""
    lost = [_rigid(2, queue=1, held=True, unsaved_s=s) for s in (30.0, 10.0, 20.0)]
    placed = [_rigid(2, queue=1, held=True, held_at_s=s) for s in (30.0, 10.0, 20.0)]

    assert _gpus(_cluster([*lost, _rigid(2)], [OWNER, BORROWER], 6)) == [2, 0, 2, 2]
    assert _gpus(_cluster([*placed, _rigid(2)], [OWNER, BORROWER], 6)) == [0, 2, 2, 2]


def test_owners_wait_as_long_as_the_configuration_says() -> None:
    """A job that waited 100 s takes nothing back where ``reclaim_after_s`` is 200 s."""
    snapshot = _cluster([_rigid(6, queue=1, held=True), _rigid(6)], [OWNER, BORROWER], 6)

    assert _gpus(snapshot, replace(CONFIG, reclaim_after_s=100.0)) == [0, 6]
    assert _gpus(snapshot, replace(CONFIG, reclaim_after_s=200.0)) == [6, 0]


def test_nothing_is_taken_back_for_a_gang_that_no_quota_covers() -> None:
    """A gang of 7 does not fit in a quota of 6: the borrower that would have to leave stays."""
    snapshot = _cluster([_rigid(6, queue=1, held=True), _rigid(7)], [OWNER, BORROWER], 8)

    assert _gpus(snapshot) == [6, 0]


def test_nothing_is_taken_back_for_gpus_that_nobody_can_use() -> None:
    """An elastic job on one server of 2 GPUs cannot use a quota of 6, whatever it says: one borrower of two stays."""
    owner = replace(_elastic(64), max_servers=1)
    borrowers = [replace(_rigid(2, queue=1, held=True), seats=((server, 2),)) for server in (0, 1, 2)]
    snapshot = snapshot_of([*borrowers, owner], [ServerRow(num_gpus=2)] * 3, [OWNER, BORROWER])

    assert sorted(_gpus(snapshot)) == [0, 2, 2, 2]


def test_inside_its_own_quota_a_protected_job_stays() -> None:
    """Jobs of one queue do not take from each other: who keeps 6 GPUs of a quota of 6 keeps them."""
    snapshot = _cluster([_rigid(6, held=True), _rigid(6)], [OWNER, BORROWER], 6)

    assert _gpus(snapshot) == [6, 0]


def test_the_quota_of_an_inner_queue_covers_its_children() -> None:
    """A queue without a quota of its own takes back what the queue above it has lent, but not from its siblings."""
    nested = [OWNER, QueueRow(parent=0), QueueRow(parent=0), BORROWER]
    lent = _cluster([_rigid(6, queue=3, held=True), _rigid(6, queue=1)], nested, 8)
    within = _cluster([_rigid(6, queue=2, held=True), _rigid(6, queue=1)], nested, 8)

    assert _gpus(lent) == [0, 6]
    assert _gpus(within) == [6, 0]


def test_a_limit_of_an_inner_queue_makes_room_for_the_owner_inside() -> None:
    """GPUs are idle, but the queue above may hold no more: a sibling that borrows gives the owner its quota."""
    nested = [QueueRow(max_gpus=6), QueueRow(parent=0, quota_gpus=6), QueueRow(parent=0)]
    snapshot = _cluster([_rigid(6, queue=2, held=True), _rigid(6, queue=1)], nested, 16)

    assert _gpus(snapshot) == [0, 6]


def test_who_is_over_a_limit_that_keeps_nobody_from_its_quota_stays() -> None:
    """A queue that keeps more than it may gives nothing back as long as no owner inside it is short."""
    nested = [QueueRow(max_gpus=4), QueueRow(parent=0, quota_gpus=4), QueueRow(parent=0)]
    snapshot = _cluster([_rigid(6, queue=2, held=True), _elastic(8, queue=1, waited_s=0.0)], nested, 16)

    assert _gpus(snapshot, replace(CONFIG, reclaim_after_s=50.0)) == [6, 0]


@pytest.mark.parametrize("policy", SHARING)
def test_gangs_wider_than_the_parts_of_their_queues_take_turns(policy: str) -> None:
    """Two queues share 4 GPUs, each has a gang of 4: the first to arrive runs, goes on, and then the other does."""
    config = replace(CONFIG, policy=POLICIES[policy]())
    later, first = _rigid(4, queue=0, arrival_s=5.0), _rigid(4, queue=1, arrival_s=1.0)
    runs = replace(_rigid(4, queue=0, held=True, arrival_s=5.0), preemptible=True)

    assert _gpus(_cluster([later, first], [BORROWER] * 2, 4), config) == [0, 4]
    assert _gpus(_cluster([runs, first], [BORROWER] * 2, 4), config) == [4, 0]


def test_a_gang_inside_the_quota_above_goes_before_a_borrower() -> None:
    """Two siblings share a quota of 4 and one has a gang of 4; it does not fit its part of 2, but it fits the quota."""
    nested = [QueueRow(quota_gpus=4), QueueRow(parent=0), QueueRow(parent=0), BORROWER]
    snapshot = _cluster([_rigid(4, queue=1), _rigid(4, queue=2), _elastic(4, queue=3)], nested, 4)

    assert _gpus(snapshot) == [4, 0, 0]
