"""A round under a policy that chooses shares: who is resized, stopped, kept, and how queues share."""

from dataclasses import replace

from scheduler.core.model.plan import Plan, PreemptRule, WaitReason
from scheduler.core.model.tables import Snapshot
from scheduler.core.round.config import SchedulerConfig
from scheduler.core.round.plan_round import plan_round
from scheduler.mechanisms.proportional import Proportional
from scheduler.placement.consolidate import Consolidate
from scheduler.policies.maxmin import Maxmin
from tests.support.simulator.strategies import JobRow, QueueRow, ServerRow, snapshot_of

CONFIG = SchedulerConfig(policy=Maxmin(), locality=Consolidate(), mechanism=Proportional())


def _elastic(most: int, *seats: tuple[int, int], queue: int = 0, arrival_s: float = 0.0) -> JobRow:
    return JobRow(
        num_gpus=1,
        min_gpus=1,
        max_gpus=most,
        max_servers=0,
        queue=queue,
        arrival_s=arrival_s,
        first_start_s=arrival_s if seats else float("inf"),
        seats=seats,
    )


def _seats(snapshot: Snapshot, plan: Plan) -> dict[int, list[tuple[int, int]]]:
    grants = plan.grants
    rows = zip(grants.job.tolist(), grants.server.tolist(), grants.num_gpus.tolist(), strict=True)
    found: dict[int, list[tuple[int, int]]] = {}
    for job, server, gpus in rows:
        found.setdefault(job, []).append((server, gpus))
    return found


def test_a_shrinking_job_leaves_the_server_where_it_has_fewest() -> None:
    """A job on 3 and 1 GPUs of two servers of 4 makes room for a second one and keeps GPUs of the first."""
    snapshot = snapshot_of([_elastic(8, (0, 3), (1, 1)), _elastic(4)], [ServerRow(num_gpus=3), ServerRow(num_gpus=1)])
    plan = plan_round(snapshot, CONFIG)

    assert _seats(snapshot, plan) == {0: [(0, 2)], 1: [(0, 1), (1, 1)]}
    assert (plan.resized, plan.kept, len(plan.preemptions)) == (frozenset({0}), frozenset(), 0)


def test_a_growing_job_stays_on_its_server_where_it_can() -> None:
    """With room beside it a job grows in place; without, it moves to where all of it fits."""
    beside = snapshot_of([_elastic(4, (1, 2))], [ServerRow(num_gpus=8), ServerRow(num_gpus=8)])
    assert _seats(beside, plan_round(beside, CONFIG)) == {0: [(1, 4)]}
    rigid = JobRow(num_gpus=6, seats=((1, 6),))
    crowded = snapshot_of([_elastic(4, (1, 2)), rigid], [ServerRow(num_gpus=8), ServerRow(num_gpus=8)])
    plan = plan_round(crowded, CONFIG)

    assert _seats(crowded, plan) == {0: [(0, 4)], 1: [(1, 6)]}
    assert (plan.resized, plan.kept) == (frozenset({0}), frozenset({1}))


def test_a_job_without_a_share_is_stopped_and_says_why() -> None:
    """Of three jobs on two GPUs the first two started get one each; the third is stopped by a rule of its own."""
    jobs = [_elastic(2, arrival_s=0.0), _elastic(2, (0, 1), arrival_s=1.0), _elastic(2, (0, 1), arrival_s=2.0)]
    jobs[0] = replace(jobs[0], first_start_s=0.0)
    snapshot = snapshot_of(jobs, [ServerRow(num_gpus=2)])
    plan = plan_round(snapshot, CONFIG)

    assert [(stop.job, stop.rule) for stop in plan.preemptions] == [(2, PreemptRule.NO_SHARE)]
    assert [(wait.job, wait.reason) for wait in plan.waiting] == [(2, WaitReason.BEHIND_POLICY_ORDER)]
    assert plan.waiting[0].evidence == {"needed_gpus": 1, "total_gpus": 2, "free_gpus": 0}


def test_a_job_that_may_not_be_stopped_keeps_its_gpus() -> None:
    """A job that is not preemptible keeps 6 of 8 GPUs; the other one shares the rest with nobody."""
    locked = replace(_elastic(8, (0, 6)), preemptible=False)
    snapshot = snapshot_of([locked, _elastic(8)], [ServerRow()])

    assert _seats(snapshot, plan_round(snapshot, CONFIG)) == {0: [(0, 6)], 1: [(0, 2)]}


def test_queues_share_by_quota_first() -> None:
    """A queue with a quota of 6 of 8 GPUs shares out 6, the other 2; what one cannot use goes to the other."""
    queues = [QueueRow(quota_gpus=6), QueueRow(quota_gpus=2)]
    both = snapshot_of([_elastic(8), _elastic(8, queue=1)], [ServerRow()], queues)
    assert _seats(both, plan_round(both, CONFIG)) == {0: [(0, 6)], 1: [(0, 2)]}
    small = snapshot_of([_elastic(1), _elastic(8, queue=1)], [ServerRow()], queues)

    assert _seats(small, plan_round(small, CONFIG)) == {0: [(0, 1)], 1: [(0, 7)]}


def test_a_job_that_starts_takes_what_fits_on_its_servers() -> None:
    """On one server only, with 2 GPUs free on each of two, a job with a share of 4 starts with 2."""
    rigid = [JobRow(num_gpus=2, seats=((server, 2),)) for server in (0, 1)]
    job = replace(_elastic(4), max_servers=1)
    snapshot = snapshot_of([*rigid, job], [ServerRow(num_gpus=4), ServerRow(num_gpus=4)])

    assert _seats(snapshot, plan_round(snapshot, CONFIG))[2] == [(0, 2)]
