"""A job whose machine failed under it is tried again on another server, for an hour."""

from datetime import timedelta

from scheduler.core.model.lifecycle import JobState
from scheduler.live.rounds.avoided import avoided_read
from scheduler.models import Event, Job, Server
from tests.support.live.world import World


def _failed_on(world: World, job: Job, name: str) -> None:
    assert world.agent_of(job) is world.agents[name]
    world.agents[name].end(job.pk, cause="launch_failed", detail="No process could be made.")
    world.until(lambda: len(world.attempts(job)) > 1)
    world.until_state(job, JobState.RUNNING)


def test_job_goes_to_another_server_and_its_event_says_so(world: World) -> None:
    """Both are empty, and the first one would be chosen again."""
    world.server("alpha")
    world.server("beta")
    job = world.submit()
    world.until_state(job, JobState.RUNNING)
    _failed_on(world, job, "alpha")

    again = Event.objects.get(job=job, kind="job_state", old_state=JobState.RUNNING, new_state=JobState.QUEUED)
    assert again.data["stays_off"] == ["alpha"]
    assert world.agent_of(job) is world.agents["beta"]


def test_job_goes_back_where_there_is_no_other_room(world: World) -> None:
    """The other server is full: better the one that failed than none."""
    world.server("beta", slots=1)
    world.until_state(world.submit(schedule={"preemptible": False}), JobState.RUNNING)
    world.server("alpha")
    job = world.submit()
    world.until_state(job, JobState.RUNNING)
    _failed_on(world, job, "alpha")

    assert world.agent_of(job) is world.agents["alpha"]


def test_after_an_hour_it_is_forgotten(world: World) -> None:
    """Read for the moment after it and the one before."""
    world.server("alpha")
    world.server("beta")
    job = world.submit()
    world.until_state(job, JobState.RUNNING)
    _failed_on(world, job, "alpha")
    ended_at = world.attempts(job)[0].ended_at
    assert ended_at is not None
    alpha, rows = Server.objects.get(name="alpha"), {job.pk: 0}

    assert avoided_read(rows, at=ended_at + timedelta(hours=1)) == ((job.number, alpha.number),)
    assert avoided_read(rows, at=ended_at + timedelta(hours=1, seconds=1)) == ()
    assert avoided_read({}, at=ended_at) == ()
