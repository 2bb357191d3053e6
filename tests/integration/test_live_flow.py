"""A job from submit to its end, by the real services and engine, with a fake agent on a virtual clock."""

from collections.abc import Iterator

import pytest

from scheduler.core.lifecycle import EndCause, JobState
from scheduler.models import Event, Gpu, Job, Lease, LeaseGpu, Round, Server
from scheduler.models.server import ServerState
from scheduler.notify import use_bell
from tests.world import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    made.queue("vision")
    yield made
    use_bell(None)


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
