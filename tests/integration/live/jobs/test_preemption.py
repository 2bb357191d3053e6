"""Preemption: checkpoint, receipt, resume from the checkpoint, and grants that wait for leaving jobs."""

from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from scheduler.core.model.lifecycle import EndCause, JobState
from scheduler.core.model.plan import PreemptRule, WaitReason
from scheduler.live.attempts.close import attempt_close
from scheduler.live.attempts.retry import AttemptEnd
from scheduler.live.rounds.snapshot import LiveSnapshot, snapshot_read
from scheduler.models import Cluster, Job, Lease, Queue
from tests.support.live.world import World


def test_preempted_job_resumes_from_its_checkpoint(world: World) -> None:
    """Under srtf-like order a shorter job takes the GPUs; the longer one goes on later at its saved step."""
    Cluster.objects.update(policy="las")
    agent = world.server("alpha", slots=1)
    first = world.submit(name="first")
    world.until_state(first, JobState.RUNNING)
    world.clock.advance(4000)  # more service than the first queue of las allows
    world.pass_time(1)
    second = world.submit(name="second")
    world.until_state(second, JobState.RUNNING)

    preempted = world.attempts(first)[0]
    assert preempted.end_cause == EndCause.PREEMPTED
    assert preempted.preempt_rule == PreemptRule.POLICY_ORDER
    assert preempted.preempted_by_id == second.pk
    assert preempted.lost_s == 0.0
    kept = Job.objects.get(pk=first.pk)
    assert kept.checkpoint_attempt_id == preempted.pk
    assert kept.preemptions == 1

    agent.end(second.pk, cause="completed", exit_code=0)
    world.until_state(first, JobState.RUNNING)
    resumed = world.attempts(first)[1]

    assert resumed.resume_attempt_id == preempted.pk
    assert resumed.resume_step == kept.checkpoint_step
    assert agent.attempt_of(first.pk).wanted.resume_name == kept.checkpoint_name


def test_granted_job_waits_until_the_leaver_has_ended(world: World) -> None:
    """A grant on GPUs that a preempting job still holds is not launched; its reason says so."""
    agent = world.server("alpha", slots=1)
    agent.stops_at_once = False
    first = world.submit(name="first")
    world.until_state(first, JobState.RUNNING)
    world.clock.advance(4000)
    world.pass_time(1)
    second = world.submit(name="second")
    world.pass_time(5)

    assert world.state(first) == JobState.PREEMPTING
    waiting = Job.objects.get(pk=second.pk)
    assert (waiting.state, waiting.wait_reason) == (JobState.QUEUED, WaitReason.RECONFIGURING)
    assert Lease.objects.filter(closed_at=None).count() == 1

    agent.end(first.pk, cause="preempted")
    seconds = world.until_state(second, JobState.LAUNCHING, within_s=5)

    assert seconds <= 1
    assert world.state(first) == JobState.QUEUED


def test_owner_takes_its_quota_back_from_a_borrower(world: World) -> None:
    """A queue below its quota gets its GPUs by preemption; the receipt names the rule."""
    world.queue("speech", quota_gpus=2)
    vision = world.queue("audio", quota_gpus=0)
    world.server("alpha", slots=2)
    borrowers = [world.submit("audio", name=f"borrower-{i}") for i in range(2)]
    for job in borrowers:
        world.until_state(job, JobState.RUNNING)
    owner = world.submit("speech", gpus=2, name="owner")
    world.until_state(owner, JobState.RUNNING)

    assert {world.attempts(job)[0].preempt_rule for job in borrowers} == {PreemptRule.QUOTA_RECLAIM}
    assert {world.state(job) for job in borrowers} == {JobState.QUEUED}
    assert {Job.objects.get(pk=job.pk).wait_reason != "" for job in borrowers} == {True}
    assert vision.quota_gpus == 0


def test_gang_runs_on_one_server_whole_or_not_at_all(world: World) -> None:
    """Two servers with one free GPU each are not enough for a gang of two."""
    world.server("alpha", slots=2)
    world.server("beta", slots=2)
    singles = [world.submit(name=f"single-{i}") for i in range(2)]
    for job in singles:
        world.until_state(job, JobState.RUNNING)
    gangs = [world.submit(gpus=2, name=f"gang-{i}") for i in range(2)]
    world.pass_time(10)

    for job in gangs:
        leases = Lease.objects.filter(attempt__job=job, closed_at=None)
        assert sum(lease.num_gpus for lease in leases) in (0, 2)
        assert leases.values("server").distinct().count() <= 1
    assert any(world.state(job) == JobState.RUNNING for job in gangs)


def test_service_is_counted_by_the_clock_of_the_scheduler(world: World) -> None:
    """Attained service is time held x GPUs over all attempts; waiting time is what is left."""
    agent = world.server("alpha", slots=2)
    job = world.submit(gpus=2)
    world.until_state(job, JobState.RUNNING)
    world.pass_time(20)
    agent.attempt_of(job.pk).run_s = 1e9  # what the agent says does not count
    agent.end(job.pk, cause="exit_code", exit_code=3)
    world.pass_time(1)

    row = Job.objects.get(pk=job.pk)
    attempt = world.attempts(job)[0]
    assert attempt.ended_at is not None
    held_s = (attempt.ended_at - attempt.created_at) / timedelta(seconds=1)
    assert row.attained_gpu_s == pytest.approx(2 * held_s)
    assert 20 <= row.executed_s <= held_s


def test_attempt_that_ends_while_the_snapshot_is_read_ends_no_round(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job it was of is passed over; all others get their decisions."""
    Cluster.objects.update(policy="las")
    world.server("alpha", slots=1)
    first = world.submit(name="first")
    world.until_state(first, JobState.RUNNING)
    world.clock.advance(4000)
    world.pass_time(1)
    second = world.submit(name="second")

    def read_late(cluster: Cluster, *, at: datetime) -> LiveSnapshot:
        return replace(snapshot_read(cluster, at=at), attempt_pks={})

    monkeypatch.setattr("scheduler.live.rounds.run_round.snapshot_read", read_late)

    assert world.round() is not None
    assert world.state(first) == JobState.RUNNING
    assert Job.objects.get(pk=second.pk).wait_reason == WaitReason.RECONFIGURING


def test_job_begins_after_the_one_whose_gpus_it_gets(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Although that one ended when the round had begun, and had not read what is held: no GPU is counted twice."""
    world.server("alpha", slots=1)
    first = world.submit(name="first")
    world.until_state(first, JobState.RUNNING)
    second = world.submit(name="second")

    def ends_before_reading(cluster: Cluster, *, at: datetime) -> LiveSnapshot:
        world.clock.advance(0.05)
        end = AttemptEnd(cause=EndCause.COMPLETED, exit_code=0)
        attempt_close(attempt_id=world.attempts(first)[0].pk, ending=end, at=world.clock.now(), actor="agent alpha")
        return snapshot_read(cluster, at=at)

    monkeypatch.setattr("scheduler.live.rounds.run_round.snapshot_read", ends_before_reading)
    world.round()

    (before,), (after,) = world.attempts(first), world.attempts(second)
    assert before.ended_at is not None
    assert after.created_at >= before.ended_at
    leases = Lease.objects.order_by("opened_at").values_list("opened_at", "closed_at")
    assert all(closed_at and opened_at >= closed_at for (_, closed_at), (opened_at, _) in pairwise(leases))


def test_order_stops_no_job_that_has_just_begun(world: World) -> None:
    """It runs for the least run first; what a quota lent is taken back all the same."""
    Cluster.objects.update(policy="las", min_run_s=600.0)
    world.server("alpha", slots=1)
    first = world.submit(name="first")
    world.until_state(first, JobState.RUNNING)
    world.pass_time(60)
    second = world.submit(name="second")
    world.pass_time(60)
    assert (world.state(first), world.state(second)) == (JobState.RUNNING, JobState.QUEUED)

    world.clock.advance(4_000)
    world.round("beat")
    world.until_state(second, JobState.RUNNING)
    assert world.attempts(first)[0].preempt_rule == PreemptRule.POLICY_ORDER

    Cluster.objects.update(min_run_s=86_400.0)
    world.queue("speech", quota_gpus=1)
    Queue.objects.filter(name="vision").update(quota_gpus=0)
    owner = world.submit("speech", name="owner")
    world.until_state(owner, JobState.RUNNING)
    assert world.attempts(second)[0].preempt_rule == PreemptRule.QUOTA_RECLAIM
