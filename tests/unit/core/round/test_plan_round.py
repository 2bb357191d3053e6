"""Who runs, who stays, who has to stop, and why the rest waits."""

from dataclasses import replace

import numpy as np
import pytest

from scheduler.choices import build_config
from scheduler.core.model.errors import PlanInvariantError
from scheduler.core.model.plan import PreemptRule, WaitReason
from scheduler.core.model.tables import NO_ROW
from scheduler.core.round.invariants import check
from scheduler.core.round.plan_round import plan_round
from tests.support.simulator.strategies import JobRow, QueueRow, ServerRow, snapshot_of

FIFO = build_config(policy="fifo", mechanism="proportional")
SRTF = build_config(policy="srtf", mechanism="proportional")


def _server(num_gpus: int) -> ServerRow:
    return ServerRow(num_gpus=num_gpus, num_cpus=3.0 * num_gpus)


def test_an_empty_cluster_and_no_jobs_give_an_empty_plan() -> None:
    """Nothing in, nothing out."""
    plan = plan_round(snapshot_of([], []), FIFO)

    assert (len(plan.grants), len(plan.waiting), len(plan.preemptions)) == (0, 0, 0)


def test_without_servers_everybody_waits_for_one() -> None:
    """The reason is that no server is up, not that the jobs are too big."""
    (waiting,) = plan_round(snapshot_of([JobRow(num_gpus=4)], []), FIFO).waiting

    assert waiting.reason == WaitReason.NO_SERVER
    assert waiting.evidence["needed_gpus"] == 4


def test_small_jobs_fill_what_a_wide_one_cannot_use() -> None:
    """Tiresias: X wants 4, Y 8, Z 2; 6 are free: X and Z run."""
    jobs = [JobRow(num_gpus=gpus, max_servers=0) for gpus in (4, 8, 2)]

    plan = plan_round(snapshot_of([*jobs, JobRow(num_gpus=2, seats=((0, 2),))], [_server(8)]), FIFO)

    assert sorted(set(plan.grants.job.tolist())) == [0, 2, 3]


def test_a_gang_takes_the_best_fit() -> None:
    """A gang goes where the fewest GPUs are left over; the lowest server id decides ties."""
    servers = [_server(8), _server(4), _server(4)]

    plan = plan_round(snapshot_of([JobRow(num_gpus=3)], servers), FIFO)

    assert plan.grants.server.tolist() == [1]


def test_a_wide_gang_takes_the_fewest_servers() -> None:
    """Philly, level 1: free 8,6,4,4,3,2,2,1,1,1 and a gang of 16 becomes 8 + 6 + 2, the fours stay whole."""
    servers = [_server(gpus) for gpus in (8, 6, 4, 4, 3, 2, 2, 1, 1, 1)]

    plan = plan_round(snapshot_of([JobRow(num_gpus=16, max_servers=4)], servers), FIFO)

    assert list(zip(plan.grants.server.tolist(), plan.grants.num_gpus.tolist(), strict=True)) == [
        (0, 8),
        (1, 6),
        (5, 2),
    ]


def test_a_gang_on_one_server_waits_for_one_block() -> None:
    """Enough GPUs are free, but not on one server: fragmentation, with the largest block."""
    jobs = [JobRow(num_gpus=1, seats=((server, 1),)) for server in (0, 1)]

    (waiting,) = plan_round(snapshot_of([*jobs, JobRow(num_gpus=8)], [_server(8)] * 2), FIFO).waiting

    assert waiting.reason == WaitReason.FRAGMENTATION
    assert waiting.evidence == {"needed_gpus": 8, "free_gpus": 14, "largest_free_gpus": 7, "max_servers": 1}


def test_a_gang_wider_than_any_server_can_never_run() -> None:
    """Not on one server of 8, whatever ends; the reason names the largest possible gang."""
    (waiting,) = plan_round(snapshot_of([JobRow(num_gpus=9)], [_server(8)] * 4), FIFO).waiting

    assert waiting.reason == WaitReason.NEVER_FEASIBLE
    assert waiting.evidence["largest_possible_gpus"] == 8


def test_cores_that_a_user_insists_on_can_bind_before_gpus() -> None:
    """GPUs are free on the server where the cores are not."""
    jobs = [JobRow(min_cpus=20, seats=((0, 1),)), JobRow(min_cpus=10, arrival_s=1)]

    (waiting,) = plan_round(snapshot_of(jobs, [ServerRow()]), FIFO).waiting

    assert waiting.reason == WaitReason.CPU_OR_MEMORY
    assert waiting.evidence["needed_cpus"] == 10
    assert waiting.evidence["largest_free_gpus"] == 7


@pytest.mark.parametrize(("free_gpus", "reason"), [(2, WaitReason.FRAGMENTATION), (4, WaitReason.CPU_OR_MEMORY)])
def test_cores_are_the_reason_only_where_gpus_alone_would_do(free_gpus: int, reason: WaitReason) -> None:
    """A server without cores is met on the way; without its lack of them the gang would find two servers, or not."""
    jobs = [
        JobRow(num_gpus=8 - free_gpus, min_cpus=24, seats=((0, 8 - free_gpus),)),
        JobRow(num_gpus=6, seats=((1, 6),)),
        JobRow(num_gpus=6, seats=((2, 6),)),
        JobRow(num_gpus=6, max_servers=2, arrival_s=1),
    ]
    (waiting,) = plan_round(snapshot_of(jobs, [ServerRow()] * 3), FIFO).waiting

    assert waiting.reason == reason
    assert waiting.evidence["free_gpus"] == free_gpus + 4


def test_a_running_job_stays_where_it_is() -> None:
    """No server is better enough to move a running job, whatever the best fit would be."""
    plan = plan_round(snapshot_of([JobRow(seats=((0, 1),))], [_server(8), _server(1)]), SRTF)

    assert plan.kept == {0}
    assert plan.grants.server.tolist() == [0]


def test_fifo_never_stops_a_running_job() -> None:
    """Without preemption an earlier job waits for a later one that runs: no capacity, not the order."""
    jobs = [JobRow(num_gpus=8, arrival_s=5, first_start_s=6, seats=((0, 8),)), JobRow(num_gpus=1, arrival_s=0)]

    plan = plan_round(snapshot_of(jobs, [_server(8)]), FIFO)

    assert not plan.preemptions
    assert plan.waiting[0].reason == WaitReason.NO_CAPACITY


def test_a_stronger_job_takes_the_gpus_of_the_weakest() -> None:
    """The preemption says who by, and who waits learns that the order put it behind."""
    running = [JobRow(remaining_s=left, seats=((0, 4),), num_gpus=4) for left in (30.0, 90.0)]

    plan = plan_round(snapshot_of([*running, JobRow(num_gpus=2, remaining_s=10)], [_server(8)]), SRTF)

    (preemption,) = plan.preemptions
    assert (preemption.job, preemption.by_job, preemption.rule) == (1, 2, PreemptRule.POLICY_ORDER)
    assert plan.waiting[0].reason == WaitReason.BEHIND_POLICY_ORDER
    assert plan.waiting[0].evidence["ahead_gpus"] == 6


def test_the_fewest_and_weakest_jobs_leave() -> None:
    """Of two servers the one whose most important victim is the least important is cleared, and nobody in vain."""
    jobs = [
        JobRow(remaining_s=20, seats=((0, 2),), num_gpus=2),
        JobRow(remaining_s=60, seats=((0, 2),), num_gpus=2),
        JobRow(remaining_s=50, seats=((1, 2),), num_gpus=2),
        JobRow(remaining_s=70, seats=((1, 1),)),
        JobRow(remaining_s=40, seats=((1, 1),)),
        JobRow(remaining_s=10, num_gpus=2),
    ]

    plan = plan_round(snapshot_of(jobs, [_server(4)] * 2), SRTF)

    assert [preemption.job for preemption in plan.preemptions] == [1]


def test_nobody_is_stopped_for_a_job_that_would_not_fit_anyway() -> None:
    """A gang of 8 cannot use the GPUs of a weak job while a strong one holds the rest of each server."""
    jobs = [
        JobRow(remaining_s=1, seats=((0, 4),), num_gpus=4),
        JobRow(remaining_s=99, seats=((0, 4),), num_gpus=4),
        JobRow(remaining_s=10, num_gpus=8),
    ]

    plan = plan_round(snapshot_of(jobs, [_server(8)]), SRTF)

    assert not plan.preemptions
    assert plan.kept == {0, 1}


def test_a_displaced_job_moves_where_there_is_room() -> None:
    """A job that cannot stay and still is strong enough gets other servers in the same plan."""
    jobs = [
        JobRow(remaining_s=50, seats=((0, 1),)),
        JobRow(remaining_s=90, seats=((1, 8),), num_gpus=8),
        JobRow(remaining_s=10, num_gpus=8),
        JobRow(remaining_s=5, seats=((2, 7),), num_gpus=7),
    ]

    plan = plan_round(snapshot_of(jobs, [_server(8)] * 3), replace(SRTF, min_run_s=0))

    assert [(p.job, p.by_job) for p in plan.preemptions] == [(1, 2)]
    jobs[1] = replace(jobs[1], remaining_s=20)
    plan = plan_round(snapshot_of(jobs, [_server(8)] * 3), SRTF)
    assert [(p.job, p.by_job) for p in plan.preemptions] == [(0, 2)]
    assert dict(zip(plan.grants.job.tolist(), plan.grants.server.tolist(), strict=True)) == {0: 2, 1: 1, 2: 0, 3: 2}


@pytest.mark.parametrize(
    "protection",
    [{"preemptible": False}, {"held_at_s": 9_990.0}],
    ids=["not preemptible", "young"],
)
def test_protected_jobs_are_not_stopped_by_the_order(protection: dict[str, object]) -> None:
    """A job that is not preemptible, or was placed less than min_run_s ago, keeps its GPUs."""
    config = build_config(policy="srtf", mechanism="proportional", min_run_s=60)
    jobs = [JobRow(remaining_s=90, num_gpus=8, seats=((0, 8),), held_at_s=0.0), JobRow(remaining_s=1, num_gpus=8)]

    assert plan_round(snapshot_of(jobs, [_server(8)]), config).preemptions
    jobs[0] = replace(jobs[0], **protection)  # type: ignore[arg-type]  # parametrized
    assert not plan_round(snapshot_of(jobs, [_server(8)]), config).preemptions


def test_preemption_can_be_switched_off() -> None:
    """With preempt=False the order stops nobody."""
    config = build_config(policy="srtf", mechanism="proportional", preempt=False)
    jobs = [JobRow(remaining_s=90, num_gpus=8, seats=((0, 8),)), JobRow(remaining_s=1, num_gpus=8)]

    assert not plan_round(snapshot_of(jobs, [_server(8)]), config).preemptions


def test_a_job_whose_server_is_gone_leaves_and_may_go_elsewhere() -> None:
    """A running job without all its seats is preempted by nobody and granted other servers when there are."""
    snapshot = snapshot_of([JobRow(num_gpus=2, seats=((0, 1),)), JobRow(arrival_s=9)], [_server(8)])

    plan = plan_round(snapshot, FIFO)

    (preemption,) = plan.preemptions
    assert (preemption.job, preemption.by_job, preemption.rule) == (0, NO_ROW, PreemptRule.SERVER_GONE)
    assert sorted(plan.grants.job.tolist()) == [0, 1]
    assert plan.kept == frozenset()


def test_a_server_that_shrank_keeps_the_first_jobs() -> None:
    """When a server has fewer GPUs than its jobs hold, the last in the order leaves."""
    jobs = [JobRow(num_gpus=4, seats=((0, 4),), arrival_s=at) for at in (0, 1)]

    plan = plan_round(snapshot_of(jobs, [_server(7)]), FIFO)

    assert plan.kept == {0}
    assert [preemption.job for preemption in plan.preemptions] == [1]


def test_gpus_that_are_being_left_are_granted_last() -> None:
    """A job takes GPUs that are free now before those that another job still has to leave."""
    snapshot = snapshot_of([JobRow(num_gpus=2)], [_server(2), _server(8)], releasing=[(0, 2)])
    only_there = snapshot_of([JobRow(num_gpus=8)], [_server(2), _server(8)], releasing=[(1, 3)])

    assert plan_round(snapshot, FIFO).grants.server.tolist() == [1]
    assert plan_round(only_there, FIFO).grants.server.tolist() == [1]


def test_queue_quota_is_named_when_others_go_first_for_their_quota() -> None:
    """A borrower that came first waits for the owners of the quota, and learns whose."""
    queues = [QueueRow(quota_gpus=8), QueueRow()]
    jobs = [JobRow(queue=1, num_gpus=8, arrival_s=0), JobRow(queue=0, num_gpus=8, arrival_s=5)]

    (waiting,) = plan_round(snapshot_of(jobs, [_server(8)], queues), FIFO).waiting

    assert waiting.reason == WaitReason.QUEUE_QUOTA
    assert waiting.evidence["other_queue_id"] == 1


def test_queue_above_both_is_not_named_for_what_the_other_goes_first_with() -> None:
    """The queue above two teams holds its quota, too, but it is the team's own that the other goes first for."""
    queues = [QueueRow(quota_gpus=8), QueueRow(parent=0, quota_gpus=4), QueueRow(parent=0, quota_gpus=4)]
    jobs = [JobRow(queue=1, num_gpus=4, arrival_s=at) for at in (0, 1)] + [JobRow(queue=2, num_gpus=4, arrival_s=5)]

    snapshot = snapshot_of(jobs, [_server(8)], queues)
    (waiting,) = plan_round(snapshot, FIFO).waiting

    assert (waiting.job, waiting.reason) == (1, WaitReason.QUEUE_QUOTA)
    team, other = snapshot.queues.queue_id[[1, 2]].tolist()
    assert (waiting.evidence["queue_id"], waiting.evidence["other_queue_id"]) == (team, other)
    assert (waiting.evidence["queue_held_gpus"], waiting.evidence["queue_quota_gpus"]) == (4, 4)
    assert waiting.evidence["queue_id"] == 2


def test_a_broken_plan_is_refused() -> None:
    """The invariants find a GPU given twice, a gang cut short and a job without an answer."""
    snapshot = snapshot_of([JobRow(num_gpus=4), JobRow(num_gpus=4)], [_server(8)])
    plan = plan_round(snapshot, FIFO)
    twice = replace(plan.grants, num_gpus=np.array([4, 8]))
    short = replace(plan.grants, num_gpus=np.array([4, 3]))
    missing = replace(
        plan, grants=replace(plan.grants, **{n: getattr(plan.grants, n)[:1] for n in plan.grants.__slots__})
    )

    for broken in (replace(plan, grants=twice), replace(plan, grants=short), missing):
        with pytest.raises(PlanInvariantError):
            check(broken, snapshot)


def test_a_plan_that_answers_wrongly_is_refused() -> None:
    """The invariants name what is wrong with the order, with a reason to wait and with who has to leave."""
    jobs = [JobRow(num_gpus=8, remaining_s=9.0, seats=((0, 8),)), JobRow(num_gpus=8, remaining_s=1.0), JobRow()]
    snapshot = snapshot_of(jobs, [_server(8)])
    plan = plan_round(snapshot, SRTF)
    waits, leaves = plan.waiting, plan.preemptions
    assert (len(waits), leaves.by_job.tolist()) == (2, [1])
    broken = {
        "names a job that is not there": replace(plan, order=[0, 1, 3]),
        "does not name every job once": replace(plan, order=[0, 1, 1]),
        "has no answer, or two": replace(plan, waiting=replace(waits, job=waits.job[[0, 0]])),
        "waits without a reason": replace(plan, waiting=replace(waits, causes=waits.causes[:1])),
        "waits without numbers": replace(plan, waiting=replace(waits, causes=[(WaitReason.NO_CAPACITY, {})] * 2)),
        "nor stopped, or in two of these": replace(plan, kept=frozenset({0})),
        "for one that gets nothing": replace(plan, preemptions=replace(leaves, by_job=waits.job[:1])),
    }

    for rule, plan_of in broken.items():
        with pytest.raises(PlanInvariantError, match=rule):
            check(plan_of, snapshot)
