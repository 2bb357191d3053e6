"""Jobs that hold GPUs without using them, on the live engine: told, suspended or cancelled as their queue says."""

import pytest

from scheduler.core.model.lifecycle import EndCause, JobState
from scheduler.core.operations.idle import IdleAction
from scheduler.models import Attempt, Event, Job, Queue
from scheduler.selectors.accounts.notices import notice_of
from scheduler.services.jobs.cancel_suspend_resume import job_cancel, job_resume
from tests.support.live.world import World

pytestmark = pytest.mark.django_db
UNUSED = {"gpu_frac": 0.0, "cpu_frac": 0.01}


def idle_job(world: World, action: IdleAction, **said: float) -> Job:
    """Return a job that runs and uses nothing, in a queue that allows a minute of it."""
    world.server("server-01")
    Queue.objects.update(idle_after_s=60, idle_action=action)
    job = world.submit()
    world.until_state(job, JobState.RUNNING)
    attempt = world.agent_of(job).attempt_of(job.pk)
    attempt.steps_per_s = 0.0
    attempt.extra = UNUSED | said
    return job


def noticed(job: Job) -> bool:
    """Return whether it was told."""
    return Job.objects.get(pk=job.pk).idle_since is not None


def test_it_is_told_once_and_forgotten_when_it_is_used(world: World) -> None:
    """One event for a webhook or a mail, the time since when, and nothing more while it stays so."""
    job = idle_job(world, IdleAction.TELL)
    took_s = world.until(lambda: noticed(job))
    world.pass_time(30)
    event = Event.objects.get(job=job, kind="job_idle")

    assert 55 <= took_s <= 75
    assert world.state(job) == JobState.RUNNING
    assert (event.actor, event.reason, event.data["num_gpus"]) == ("scheduler", "tell", 1)
    assert notice_of(kind=event.kind, old_state="", new_state="") == "job.idle"
    since = Job.objects.get(pk=job.pk).idle_since
    assert since is not None
    assert (event.at - since).total_seconds() == pytest.approx(event.data["idle_s"], abs=0.1)
    world.agent_of(job).attempt_of(job.pk).extra = {"gpu_frac": 0.4, "cpu_frac": 0.4}
    world.until(lambda: not noticed(job), within_s=30)


def test_it_is_suspended_and_its_gpus_go_to_who_waits(world: World) -> None:
    """A grace after it was told it writes its checkpoint; resumed, it goes on from there and is watched anew."""
    job = idle_job(world, IdleAction.SUSPEND)
    waiting = world.submit(gpus=2)
    world.until_state(job, JobState.SUSPENDED, within_s=160)
    world.until_state(waiting, JobState.RUNNING)
    ended = Attempt.objects.get(job=job)

    assert noticed(job)
    assert ended.end_cause == EndCause.SUSPENDED
    assert "without using it, longer than vision allows" in ended.end_detail
    wish = Event.objects.get(job=job, kind="job_wanted")
    assert (wish.actor, wish.reason) == ("scheduler", "suspend")
    world.do(lambda: job_cancel(actor=world.admin, job=waiting, at=world.clock.now()))
    world.do(lambda: job_resume(actor=world.admin, job=job, at=world.clock.now()))
    world.until_state(job, JobState.RUNNING)
    assert not noticed(job)


def test_it_is_cancelled_with_its_reason(world: World) -> None:
    """Where the queue says so."""
    job = idle_job(world, IdleAction.CANCEL)
    world.until_state(job, JobState.CANCELLED, within_s=160)
    stored = Job.objects.get(pk=job.pk)

    assert stored.end_cause == EndCause.CANCELLED
    assert "without using it" in stored.end_detail


def test_a_notebook_that_computes_is_never_stopped(world: World) -> None:
    """Its GPUs do nothing and a core is busy: told, and left alone."""
    job = idle_job(world, IdleAction.CANCEL, cpu_frac=0.9)
    world.pass_time(200)

    assert noticed(job)
    assert world.state(job) == JobState.RUNNING


def test_a_queue_that_does_not_look_tells_nothing(world: World) -> None:
    """And what was told before is taken back."""
    job = idle_job(world, IdleAction.TELL)
    world.until(lambda: noticed(job))
    Queue.objects.update(idle_after_s=None)
    world.until(lambda: not noticed(job), within_s=30)
    world.pass_time(100)

    assert Event.objects.filter(job=job, kind="job_idle").count() == 1


def test_use_that_is_not_measured_is_no_idleness(world: World) -> None:
    """A server without a probe says nothing of its GPUs."""
    job = idle_job(world, IdleAction.CANCEL)
    world.agent_of(job).attempt_of(job.pk).extra = {}
    world.pass_time(200)

    assert not noticed(job)
    assert world.state(job) == JobState.RUNNING
