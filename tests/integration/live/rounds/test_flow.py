"""A job from submit to its end, by the real services and engine, with a fake agent on a virtual clock."""

import pytest

from scheduler.core.model.lifecycle import TERMINAL, EndCause, JobState
from scheduler.core.model.plan import WaitReason
from scheduler.models import Event, Gpu, Job, Lease, LeaseGpu, Round, Server
from scheduler.models.server import ServerState
from scheduler.services.jobs.cancel_suspend_resume import job_cancel, job_resume, job_suspend
from tests.support.live.world import World


def test_server_is_up_once_its_agent_works_on_the_present_generation(world: World) -> None:
    """A joining server is offered to rounds after it acknowledged, with the devices it reported."""
    world.server("alpha", slots=3)

    server = Server.objects.get(name="alpha")
    assert server.state == ServerState.UP
    assert server.acked_generation == server.generation
    assert Gpu.objects.filter(server=server, healthy=True).count() == 3


def test_job_is_launched_runs_and_completes(world: World) -> None:
    """Submit, early round, desired state, report, end: each step is one state with one event."""
    agent = world.server("alpha")
    job = world.submit()

    world.rounds()
    assert world.state(job) == JobState.LAUNCHING
    world.until_state(job, JobState.RUNNING)
    world.pass_time(5)
    agent.end(job.pk, cause="completed", exit_code=0)
    world.until_state(job, JobState.COMPLETED)

    ended = Job.objects.get(pk=job.pk)
    assert ended.end_cause == EndCause.COMPLETED
    assert ended.executed_s == pytest.approx(6, abs=1.1)
    assert ended.attained_gpu_s == pytest.approx(7, abs=1.1)
    assert [event.new_state for event in Event.objects.filter(job=job, kind="job_state").order_by("number")] == [
        "queued",
        "launching",
        "running",
        "completed",
    ]
    assert not Lease.objects.filter(closed_at=None).exists()
    assert not LeaseGpu.objects.filter(released_at=None).exists()
    assert Round.objects.filter(num_launched=1).count() == 1


def test_failing_job_is_tried_again_after_a_growing_pause(world: World) -> None:
    """Exit codes count as failures; the pause is 5 s, then 10 s; after the last attempt the job has failed."""
    agent = world.server("alpha")
    job = world.submit(retry={"max": 2})
    pauses = []
    for code in (1, 2, 3):
        world.until_state(job, JobState.RUNNING)
        agent.end(job.pk, cause="exit_code", exit_code=code, detail=f"The command ended with exit code {code}.")
        world.pass_time(1)
        row = Job.objects.get(pk=job.pk)
        if row.state == JobState.QUEUED:
            assert (row.wait_reason, row.wait_evidence["failures"]) == (WaitReason.BACKOFF, code)
            assert row.retry_after is not None
            pauses.append((row.retry_after - row.state_changed_at).total_seconds())

    assert pauses == [5.0, 10.0]
    failed = Job.objects.get(pk=job.pk)
    assert (failed.state, failed.failures, failed.end_cause) == (JobState.FAILED, 3, EndCause.EXIT_CODE)
    assert failed.end_detail == "The command ended with exit code 3. Failed 3 of 3 times."


def test_job_that_fails_twice_the_same_way_at_once_is_not_tried_again(world: World) -> None:
    """The same exit code twice within a minute of run time will not become a success."""
    agent = world.server("alpha")
    job = world.submit()
    for _ in range(2):
        world.until_state(job, JobState.RUNNING)
        agent.end(job.pk, cause="exit_code", exit_code=7, detail="The command ended with exit code 7.")
        world.pass_time(1)

    failed = Job.objects.get(pk=job.pk)
    assert failed.state == JobState.FAILED
    assert "same way within 60 s" in failed.end_detail


@pytest.mark.parametrize("cause", ["command_not_found", "out_of_memory", "out_of_disk", "time_limit"])
def test_causes_that_a_second_try_cannot_heal_fail_at_once(world: World, cause: str) -> None:
    """Nothing is gained by running into the same wall."""
    agent = world.server("alpha")
    job = world.submit()
    world.until_state(job, JobState.RUNNING)
    agent.end(job.pk, cause=cause, detail="It needed more.")
    world.pass_time(1)

    failed = Job.objects.get(pk=job.pk)
    assert (failed.state, failed.end_cause, failed.end_detail) == (JobState.FAILED, cause, "It needed more.")


def test_lost_supervisor_is_not_the_fault_of_the_job(world: World) -> None:
    """It goes back at once, without a failure counted."""
    agent = world.server("alpha")
    job = world.submit(retry={"max": 0})
    world.until_state(job, JobState.RUNNING)
    agent.end(job.pk, cause="supervisor_lost")
    world.until(lambda: len(world.attempts(job)) == 2, within_s=2)
    world.until_state(job, JobState.RUNNING)

    assert Job.objects.get(pk=job.pk).failures == 0


def test_queued_job_is_cancelled_at_once(world: World) -> None:
    """It holds nothing, so no agent has to be asked."""
    job = world.submit()
    world.do(lambda: job_cancel(actor=world.admin, job=job, at=world.clock.now()))

    assert world.state(job) == JobState.CANCELLED


@pytest.mark.parametrize("moment", ["launching", "running", "preempting", "suspending"])
def test_job_that_holds_gpus_is_cancelled_when_its_process_is_gone(world: World, moment: str) -> None:
    """The wish is written at once; GPUs come free when the agent says that the attempt has ended."""
    agent = world.server("alpha", slots=1)
    agent.stops_at_once = False
    job = world.submit()
    world.rounds()
    if moment != "launching":
        world.until_state(job, JobState.RUNNING)
    if moment == "preempting":
        world.clock.advance(4000)
        world.pass_time(1)
        world.submit(name="second")
    if moment == "suspending":
        world.do(lambda: job_suspend(actor=world.admin, job=job, at=world.clock.now()))
    world.rounds()
    assert world.state(job) == JobState(moment)
    world.do(lambda: job_cancel(actor=world.admin, job=job, at=world.clock.now()))
    world.pass_time(3)
    assert world.state(job) not in TERMINAL
    assert Lease.objects.filter(attempt__job=job, closed_at=None).count() == 1

    wanted = agent.attempt_of(job.pk).wanted.wanted
    agent.end(job.pk, cause="cancelled")
    world.pass_time(1)

    assert wanted == {"preempting": "preempt", "suspending": "suspend"}.get(moment, "cancel")
    assert Job.objects.get(pk=job.pk).state == JobState.CANCELLED
    assert not Lease.objects.filter(attempt__job=job, closed_at=None).exists()


def test_suspended_job_resumes_from_its_checkpoint(world: World) -> None:
    """Pause, wait, go on: no lease while paused, the same step afterwards."""
    world.server("alpha", slots=1)
    job = world.submit()
    world.until_state(job, JobState.RUNNING)
    world.pass_time(10)
    world.do(lambda: job_suspend(actor=world.admin, job=job, at=world.clock.now()))
    world.until_state(job, JobState.SUSPENDED)
    saved = Job.objects.get(pk=job.pk).checkpoint_step
    assert not Lease.objects.filter(closed_at=None).exists()
    world.pass_time(30)
    assert world.state(job) == JobState.SUSPENDED
    world.do(lambda: job_resume(actor=world.admin, job=job, at=world.clock.now()))
    world.until_state(job, JobState.RUNNING)

    assert saved is not None
    assert world.attempts(job)[1].resume_step == saved
    assert world.attempts(job)[0].end_cause == EndCause.SUSPENDED


def test_job_resumed_while_it_stops_goes_back_to_its_queue(world: World) -> None:
    """A change of mind is honoured as soon as the attempt has ended."""
    agent = world.server("alpha", slots=1)
    agent.stops_at_once = False
    job = world.submit()
    world.until_state(job, JobState.RUNNING)
    world.do(lambda: job_suspend(actor=world.admin, job=job, at=world.clock.now()))
    world.until_state(job, JobState.SUSPENDING)
    world.do(lambda: job_resume(actor=world.admin, job=job, at=world.clock.now()))
    world.pass_time(2)
    agent.end(job.pk, cause="suspended")
    world.until_state(job, JobState.RUNNING)

    assert len(world.attempts(job)) == 2


def test_short_job_may_end_before_its_first_report(world: World) -> None:
    """Its one report says ended: the attempt has a start, the job is complete."""
    agent = world.server("alpha")
    job = world.submit()
    world.rounds()
    agent.read()
    agent.end(job.pk, cause="completed", exit_code=0)
    agent.attempt_of(job.pk).run_s = 0.4
    world.pass_time(1)

    assert world.state(job) == JobState.COMPLETED
    assert world.attempts(job)[0].started_at is not None


def test_events_of_a_job_are_numbered_without_gaps(world: World) -> None:
    """The state of a job is the fold of its events."""
    agent = world.server("alpha")
    job = world.submit()
    world.until_state(job, JobState.RUNNING)
    agent.end(job.pk, cause="exit_code", exit_code=1)
    world.pass_time(3)
    world.do(lambda: job_cancel(actor=world.admin, job=job, at=world.clock.now()))

    numbers = list(Event.objects.filter(job=job).order_by("number").values_list("number", flat=True))
    assert numbers == list(range(1, len(numbers) + 1))
    assert Job.objects.get(pk=job.pk).event_count == len(numbers)
