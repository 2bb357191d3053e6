"""Reasons and rules that a look at the cluster must bear out; the property in test_plan_oracle.py tries thousands."""

from dataclasses import replace

import numpy as np

from scheduler.core.model.plan import Evidence, Plan, PreemptRule, WaitReason
from scheduler.core.model.tables import Snapshot
from scheduler.core.operations.reasons import sentence
from scheduler.core.round.config import SchedulerConfig
from scheduler.core.round.plan_round import plan_round
from scheduler.mechanisms import MECHANISMS
from scheduler.placement import LOCALITIES
from scheduler.policies import POLICIES
from scheduler.policies.fifo import Fifo
from tests.support.simulator.strategies import JobRow, QueueRow, ServerRow, snapshot_of


def _plan(snapshot: Snapshot, policy: str, mechanism: str = "proportional", *, backfill: bool = True) -> Plan:
    chosen = POLICIES[policy]() if backfill else Fifo(backfill=False)
    config = SchedulerConfig(policy=chosen, locality=LOCALITIES["consolidate"](), mechanism=MECHANISMS[mechanism]())
    return plan_round(snapshot, config)


def _runs(gpus: int, server: int = 0, **columns: object) -> JobRow:
    row = JobRow(num_gpus=gpus, first_start_s=0.0, remaining_s=9_000.0, seats=((server, gpus),))
    return replace(row, **columns)  # type: ignore[arg-type]  # names and types are the caller's


def test_order_decides_between_jobs_under_one_quota() -> None:
    """Two queues share the quota of the one above them: no queue took anything back."""
    queues = [QueueRow(quota_gpus=4), QueueRow(parent=0), QueueRow(parent=0)]
    jobs = [_runs(4, queue=1), JobRow(num_gpus=2, queue=2, remaining_s=60.0)]
    (stop,) = _plan(snapshot_of(jobs, [ServerRow(num_gpus=4)], queues), "srtf").preemptions

    assert (stop.job, stop.by_job, stop.rule) == (0, 1, PreemptRule.POLICY_ORDER)


def test_job_that_is_seated_where_it_ran_goes_on() -> None:
    """A server has too few cores for its jobs: both have to leave, and the one that fits has its seat again."""
    jobs = [_runs(2, min_cpus=13.0, remaining_s=60.0), _runs(1, min_cpus=3.0, remaining_s=9_000.0)]
    jobs[0] = replace(jobs[0], demand_cpus=13.0)
    plan = _plan(snapshot_of(jobs, [ServerRow(num_gpus=4, num_cpus=12.0)]), "srtf")

    assert plan.kept == {1}
    assert [stop.job for stop in plan.preemptions] == [0]


def test_job_on_two_servers_that_gets_its_seats_back_took_none() -> None:
    """It had to leave for a job within the quota and found its seats again, so its victim lost its GPU to that job."""
    queues = [QueueRow(quota_gpus=4), QueueRow(quota_gpus=0)]
    wide = JobRow(num_gpus=6, max_servers=0, attained_gpu_s=180.0, first_start_s=270.0, seats=((1, 2), (2, 4)))
    young = [_runs(1, 0, attained_gpu_s=60.0, first_start_s=240.0), _runs(1, 1, attained_gpu_s=30.0, first_start_s=270)]
    old = [_runs(1, 0, attained_gpu_s=4_000.0), _runs(1, 1, queue=1, attained_gpu_s=4_000.0, first_start_s=60.0)]
    servers = [ServerRow(num_gpus=2), ServerRow(num_gpus=4), ServerRow(num_gpus=4)]
    plan = _plan(snapshot_of([wide, *young, *old, JobRow(num_gpus=1)], servers, queues), "las")

    assert plan.kept == {0, 1, 2, 3}
    assert [(stop.job, stop.by_job, stop.rule) for stop in plan.preemptions] == [(4, 5, PreemptRule.POLICY_ORDER)]


def test_numbers_of_a_job_without_a_share_count_what_its_queue_holds() -> None:
    """Loans count; and where GPUs are free, but not together, it is not told that other queues use them."""
    queues = [QueueRow(quota_gpus=2), QueueRow(quota_gpus=2)]
    held = [_runs(2, 0, preemptible=False, queue=1), _runs(2, 1, preemptible=False, queue=1)]
    snapshot = snapshot_of([*held, JobRow(num_gpus=4)], [ServerRow(num_gpus=3), ServerRow(num_gpus=3)], queues)
    (wait,) = _plan(snapshot, "maxmin").waiting

    assert wait.reason is not WaitReason.BEHIND_POLICY_ORDER
    assert wait.evidence.get("free_gpus", 2) == 2
    assert wait.evidence.get("queue_held_gpus", 0) == 0


def test_limit_of_a_user_keeps_a_loan_from_a_job() -> None:
    """A GPU is free; its owner has all that one user may hold."""
    jobs = [_runs(2, preemptible=False), JobRow(num_gpus=2)]
    snapshot = snapshot_of(jobs, [ServerRow(num_gpus=3)])
    snapshot = replace(snapshot, queues=replace(snapshot.queues, user_max_gpus=np.array([2])))
    (wait,) = _plan(snapshot, "maxmin").waiting

    assert (wait.reason, wait.evidence["user_held_gpus"]) == (WaitReason.USER_LIMIT, 2)


def test_job_that_its_queue_may_never_hold_waits_behind_none() -> None:
    """A queue that starts jobs in order: the wide one is over its maximum, and so stands in no line."""
    queues = [QueueRow(quota_gpus=2, max_gpus=2), QueueRow(quota_gpus=2)]
    jobs = [JobRow(num_gpus=4), JobRow(num_gpus=2, arrival_s=10.0), _runs(4, queue=1, preemptible=False)]
    plan = _plan(snapshot_of(jobs, [ServerRow(num_gpus=5)], queues), "fifo", backfill=False)

    assert {wait.job: wait.reason for wait in plan.waiting}[0] is WaitReason.QUEUE_MAX


def test_most_that_servers_could_give_counts_those_of_other_queues() -> None:
    """A barred server is there, whatever the queue demands."""
    snapshot = snapshot_of([JobRow(num_gpus=16)], [ServerRow(), ServerRow(num_gpus=4)])
    (wait,) = _plan(replace(snapshot, barred=((1, 1),)), "fifo").waiting

    assert (wait.reason, wait.evidence["largest_possible_gpus"]) == (WaitReason.NEVER_FEASIBLE, 8)


def test_barred_servers_are_named_before_cores() -> None:
    """A job insists on cores that the free server has; the server is barred to its queue."""
    snapshot = snapshot_of([_runs(8, 1, preemptible=False), JobRow(num_gpus=4, min_cpus=12.0)], [ServerRow()] * 2)
    (wait,) = _plan(replace(snapshot, barred=((1, 1),)), "fifo").waiting

    assert wait.reason is WaitReason.ISOLATION


def test_another_queue_is_said_to_need_its_quota_only_where_it_does() -> None:
    """It may come first for what is lent; and where no one queue stands in the way, all others do."""
    numbers: Evidence = {"needed_gpus": 4, "queue": "a", "queue_held_gpus": 2, "queue_quota_gpus": 2, "may_borrow": 1}
    other: Evidence = {"other_queue": "b", "other_queue_id": 7}

    def ends(evidence: Evidence) -> str:
        return sentence(WaitReason.QUEUE_QUOTA, evidence).rpartition(", and ")[2]

    assert ends({**numbers, **other, "other_borrows": 0}) == "b needs its own quota."
    assert ends({**numbers, **other, "other_borrows": 1}) == "b comes first for what is lent."
    assert ends(numbers) == "other queues use the rest."
