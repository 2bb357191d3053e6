"""A job that asks for it is complete as soon as its loss has stopped falling."""

from pathlib import Path
from typing import Any

import pytest

from scheduler.core.model.lifecycle import EndCause, JobState
from scheduler.live.observed.written_losses import losses_read
from scheduler.models import Job
from tests.support.live.world import World
from tests.support.rows.files import file_write


@pytest.mark.parametrize("asks", [True, False])
def test_settled_job_is_complete_and_says_what_it_saved(world: World, asks: bool) -> None:
    """It leaves with a checkpoint; a job that does not ask trains on."""
    agent = world.server("alpha", slots=2)
    job = world.submit(gpus=2, progress={"total_steps": 100_000, "early_stop": asks})
    world.until_state(job, JobState.RUNNING)
    attempt = agent.attempt_of(job.pk)
    attempt.steps_per_s = 1.0
    for second in range(1, 121):
        loss = 2.0 if second < 10 else 0.5
        attempt.extra = {"loss": loss, "total_steps": 100_000}
        world.pass_time(1)
        if world.state(job) == JobState.COMPLETED:
            break

    row = Job.objects.get(pk=job.pk)
    if not asks:
        assert row.state == JobState.RUNNING
        return
    [ended] = world.attempts(job)
    assert (row.state, row.end_cause, ended.end_cause) == (
        JobState.COMPLETED,
        EndCause.EARLY_STOPPED,
        EndCause.EARLY_STOPPED,
    )
    assert row.saved_gpu_s == pytest.approx(2 * (100_000 - (row.step or 0)), rel=0.01)
    assert "GPU-hours were left unused" in row.end_detail
    assert row.preemptions == 0


def test_loss_in_a_file_counts_where_none_is_reported(world: World, settings: Any, tmp_path: Path) -> None:
    """As soon as it is read; the files themselves are not the engine's to read."""
    settings.SHARED_DIR = tmp_path / "shared"
    world.server("alpha")
    job = world.submit(progress={"total_steps": 100_000, "early_stop": True})
    world.until_state(job, JobState.RUNNING)
    lines = (f"{step},{2.0 if step < 10 else 0.5}" for step in range(120))
    file_write(job, "metrics.csv", "\n".join(["step,loss", *lines, ""]).encode())
    world.pass_time(12)
    assert world.state(job) == JobState.RUNNING

    losses_read(at=world.clock.now())
    world.until_state(job, JobState.COMPLETED)
    assert Job.objects.get(pk=job.pk).end_cause == EndCause.EARLY_STOPPED


def test_falling_loss_is_left_alone(world: World) -> None:
    """It trains on as long as there is something to gain."""
    agent = world.server("alpha")
    job = world.submit(progress={"total_steps": 100_000, "early_stop": True})
    world.until_state(job, JobState.RUNNING)
    attempt = agent.attempt_of(job.pk)
    attempt.steps_per_s = 1.0
    for second in range(1, 121):
        attempt.extra = {"loss": 0.5 + 10.0 / (second + 5)}
        world.pass_time(1)

    assert world.state(job) == JobState.RUNNING
