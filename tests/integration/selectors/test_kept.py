"""What is known of a job's saved work, from its reports; and what that counts for when jobs have to leave."""

from datetime import datetime, timedelta

import pytest

from scheduler.core.model.lifecycle import EndCause, JobState
from scheduler.core.operations.kept import Kept
from scheduler.live.rounds.job_table import held_leases, job_table
from scheduler.models import Attempt, Job
from scheduler.selectors.jobs.kept import job_kept, kept_by_agent
from scheduler.selectors.jobs.listing import job_detail, job_explain
from tests.support.rows.factories import AT, job_make

pytestmark = pytest.mark.django_db


def after(seconds: float) -> datetime:
    """Return a moment after the first submission."""
    return AT + timedelta(seconds=seconds)


def running(*, first_step: int | None = None) -> tuple[Job, Attempt]:
    """Return a job that runs since 100 s after its submission, and its attempt."""
    job = job_make(state=JobState.RUNNING)
    attempt = job.attempts.get()
    attempt.started_at, attempt.first_step = after(100), first_step
    attempt.save()
    return job, attempt


def saves(job: Job, attempt: Attempt, *, step: int, at: datetime) -> None:
    """Let an attempt have written a checkpoint."""
    job.checkpoint_attempt, job.checkpoint_name, job.checkpoint_step, job.checkpoint_at = attempt, "c", step, at
    job.save()


def test_job_that_has_not_run_keeps_nothing_and_loses_nothing() -> None:
    """What it will do is not known, and not guessed."""
    job = job_make()

    assert job_kept(job, None, after(50)).keeps_work is None
    assert job_detail(job.owner, job)["keeps_work"] is None
    assert job_explain(job.owner, job, after(50))["kept"] == ""


def test_job_that_tells_of_no_checkpoint_is_marked_and_all_its_work_is_at_stake() -> None:
    """Since its start; its document, the explanation and the order of victims say the same."""
    job, attempt = running()
    at = after(340)
    kept = job_kept(job, attempt, at)
    table, _, _ = job_table({job.queue_id: 0}, held_leases({attempt.leases.get().server_id: 0}), at=at)

    assert kept == Kept(keeps_work="unknown", at_stake_s=240.0)
    assert job_detail(job.owner, job)["keeps_work"] == "unknown"
    assert job_explain(job.owner, job, at)["kept"] == kept.sentence
    assert list(table.unsaved_s) == [240.0]


def test_job_that_uses_the_runtime_is_not_marked() -> None:
    """It is asked for a checkpoint before it is stopped."""
    job, attempt = running(first_step=0)
    attempt.last_step = 20

    assert job_kept(job, attempt, after(140)) == Kept(keeps_work="checkpoints", at_stake_s=40.0)


def test_checkpoint_keeps_the_work_before_it() -> None:
    """What came since is at stake: nothing if it is of the newest step, all of the attempt if an older one wrote it."""
    job, attempt = running(first_step=0)
    saves(job, attempt, step=280, at=after(328))
    attempt.last_step = 300
    since = job_kept(job, attempt, after(340))
    attempt.last_step = 280
    all_of_it = job_kept(job, attempt, after(340))
    job.checkpoint_attempt_id = "another"
    earlier = job_kept(job, attempt, after(340))

    assert (since.step, since.saved_s_ago, since.at_stake_s) == (280, 12.0, 12.0)
    assert all_of_it.at_stake_s == 0.0
    assert earlier.at_stake_s == 240.0


def test_attempt_that_trained_no_step_loses_nothing() -> None:
    """It has only its start-up behind it: it tells of no step yet, or only of the one from which it goes on."""
    job, attempt = running(first_step=0)
    attempt.last_step = 0
    begun = job_kept(job, attempt, after(131))
    attempt.first_step = attempt.last_step = None
    silent = job_kept(job, attempt, after(131))
    job.step = 280
    resumed = job_kept(job, attempt, after(131))
    attempt.first_step, attempt.last_step = 280, 281
    trained = job_kept(job, attempt, after(131))

    assert (begun.at_stake_s, begun.sentence) == (0.0, "It has written no checkpoint; no work is lost.")
    assert silent.at_stake_s == 31.0  # it may be a script that tells of no steps
    assert resumed.at_stake_s == 0.0
    assert trained.at_stake_s == 31.0


def test_job_that_waits_does_not_tell_an_earlier_loss_again() -> None:
    """What its attempt lost was told at its end: neither while it waits nor by the cancel of a waiting job."""
    job, attempt = running(first_step=0)
    attempt.last_step = 300
    saves(job, attempt, step=280, at=after(328))
    attempt.ended_at, attempt.end_cause = after(340), EndCause.PREEMPTED
    job.state = JobState.QUEUED
    waiting = job_kept(job, attempt, after(900)).sentence
    job.state, job.end_cause = JobState.CANCELLED, EndCause.CANCELLED
    cancelled = job_kept(job, attempt, after(900)).sentence
    attempt.end_cause = EndCause.CANCELLED
    own = job_kept(job, attempt, after(900)).sentence

    assert waiting == cancelled == "Step 280 is kept."
    assert own == "Step 280 is kept (checkpoint 10 min ago); 12 s of work since is lost."


def test_completed_job_has_lost_nothing() -> None:
    """Whether it wrote checkpoints or not."""
    job = job_make(state=JobState.COMPLETED)

    assert job_kept(job, job.attempts.first(), after(900)).sentence == ""


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"checkpoint": {"step": 280, "age_s": 1.0}, "step": 280}, "Step 280 is kept; no work is lost."),
        (
            {"checkpoint": {"step": 280, "age_s": 12.0}, "step": 300},
            "Step 280 is kept (checkpoint 12 s ago); 12 s of work since is lost.",
        ),
        ({"first_step": 0, "step": 9}, "It has written no checkpoint: 4 min of work is lost."),
        ({"first_step": 280, "step": 280}, "It has written no checkpoint; no work is lost."),
        ({}, "It has told of no checkpoint: 4 min of work is lost, but for what it saved itself."),
    ],
)
def test_product_that_is_stopped_says_what_each_job_kept(said: dict[str, object], sentence: str) -> None:
    """Its agent alone knows, as no report of it is applied any more."""
    job, attempt = running()
    whole = {"attempt": attempt.pk, "first_step": None, "step": None, "run_s": 240.0, "checkpoint": None, **said}
    told = kept_by_agent(whole, after(340))

    assert told is not None
    assert (told[0], told[1].sentence) == (job.number, sentence)
    assert kept_by_agent({**whole, "attempt": "unknown"}, after(340)) is None
