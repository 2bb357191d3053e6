"""Migration by the real engine: a running job moves by checkpoint so that a gang fits, and is measured where it is."""

import pytest

from scheduler.core.model.lifecycle import EndCause, JobState
from scheduler.models import Event, Trial
from tests.support.live.world import World


@pytest.fixture
def scattered(world: World) -> World:
    """Two servers of two slots, one job on each, and moves that are measured for ten seconds."""
    options = {"migration": {"measure_s": 10, "move_s": 1}}
    world.settings(policy="fifo", introspection=["migration"], introspection_options=options)
    alpha = world.server("alpha")
    world.server("beta")
    first, second, _ = [world.submit() for _ in range(3)]
    world.pass_time(5)
    assert world.agent_of(first) is world.agent_of(second) is alpha
    alpha.end(second.pk, cause="completed", exit_code=0)
    world.pass_time(3)
    return world


def test_job_moves_for_a_gang_and_is_measured_where_it_went(scattered: World) -> None:
    """It checkpoints, restarts beside the other job, and both servers are used in full; the verdict has its speeds."""
    gang = scattered.submit(gpus=2)
    scattered.until_state(gang, JobState.RUNNING, within_s=30)
    for _ in range(4):
        scattered.pass_time(5)
        scattered.round("beat")

    trial = Trial.objects.get(kind="move")
    moved = next(job for job in (1, 3) if job == trial.jobs[0])
    told = Event.objects.filter(kind="trial", job__number=moved).order_by("number")
    attempts = scattered.attempts(told[0].job)  # type: ignore[arg-type]  # it has one
    assert (attempts[0].end_cause, attempts[0].preempt_rule, attempts[0].lost_s) == (EndCause.PREEMPTED, "moved", 0.0)
    assert attempts[1].resume_step is not None
    assert [event.reason for event in told] == ["move_trying", "move_kept"]
    assert told[1].data["rates_before"] == told[1].data["rates_after"] == [1.0]
