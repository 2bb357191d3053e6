"""A job that reports nothing: its log and its use first, no made-up progress, and what would add some."""

import os
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from scheduler.core.model.lifecycle import JobState
from scheduler.models import Attempt, Job
from tests.integration.pages_jobs.conftest import Page, World, job_in, log_write, newest_attempt
from tests.support.rows.factories import sample_make
from tests.support.rows.files import file_write


def plain_job(world: World, state: JobState = JobState.RUNNING, **columns: Any) -> Job:
    """Return a job that has run for half an hour and said nothing but its log."""
    job = job_in(world, state, **columns)
    begun = datetime.now(UTC) - timedelta(minutes=30)
    Attempt.objects.filter(job=job).update(started_at=begun)
    job.first_started_at = begun
    job.save()
    log_write(newest_attempt(job), "".join(f"fold {number}\n" for number in range(40)))
    for minutes in range(20, 0, -5):
        sample_make("job", job.pk, begun + timedelta(minutes=minutes), cpu_frac=0.5, memory_bytes=2**30)
    return job


def overview(world: World, job: Job) -> Page:
    """Return its page."""
    return world.browser("viewer").open(f"/jobs/J-{job.number}")


def test_log_and_use_come_first(world: World) -> None:
    """Twice as much of the log, the measured use, no empty curves and no bar of progress."""
    page = overview(world, plain_job(world))

    assert "Progress not reported" in page.text
    assert "It uses 50 %" in page.text
    assert "1.0 GiB of" in page.text
    assert "fold 16" in page.text
    assert "fold 15" not in page.text
    assert 'id="loss"' not in page.html
    assert not page.having(role="progressbar")
    assert "run.report(loss=loss)" in page.html


def test_a_job_that_is_over_is_told_of_in_the_past(world: World) -> None:
    """What it used, and no word of an end that is known."""
    page = overview(world, plain_job(world, JobState.COMPLETED))

    assert "It used 50 %" in page.text
    assert "so no end time either" not in page.text


def test_time_limit_is_the_only_bar(world: World) -> None:
    """Grey, with when it is stopped; without a limit there is the time alone."""
    job = plain_job(world)
    assert "without a time limit" in overview(world, job).text
    job.spec["schedule"]["max_duration"] = "2h"
    job.save()
    page = overview(world, job)

    assert "Elapsed, of its time limit" in page.text
    assert "it is stopped at" in page.text
    assert page.having(**{"class": "bar grey"})


def test_what_a_preemption_costs_is_told_by_its_files(world: World) -> None:
    """The age of the newest one, or all of its time."""
    job = plain_job(world)
    assert "A preemption costs up to 30 min" in overview(world, job).text
    path = file_write(job, "out/fold4.parquet", b"x")
    ago = datetime.now(UTC) - timedelta(minutes=12)
    os.utime(path, (ago.timestamp(), ago.timestamp()))
    page = overview(world, job)

    assert "A preemption costs up to 12 min" in page.text
    assert "out/fold4.parquet" in page.text
    assert "1 file in $CLUSTERWEB_JOB_DIR stay" in page.text


def test_what_was_sent_along_is_not_taken_for_saved(world: World) -> None:
    """A file that was there before the command first started keeps none of its work."""
    job = plain_job(world)
    path = file_write(job, "train.py", b"x")
    ago = datetime.now(UTC) - timedelta(minutes=31)
    os.utime(path, (ago.timestamp(), ago.timestamp()))
    page = overview(world, job)

    assert "Last file saved none" in " ".join(page.text.split())
    assert "A preemption costs up to 30 min" in page.text


def test_file_of_a_job_that_has_ended_has_a_time_not_an_age(world: World) -> None:
    """An age would stand still beside the age of the end."""
    job = plain_job(world, JobState.COMPLETED)
    file_write(job, "out/last.pt", b"x")
    Attempt.objects.filter(job=job).update(ended_at=datetime.now(UTC))
    page = overview(world, job)

    tile = page.text.partition("Last file saved")[2].partition("out/last.pt")[0]
    assert ":" in tile
    assert "ago" not in tile


@pytest.mark.parametrize("state", [JobState.COMPLETED, JobState.FAILED])
def test_after_its_end_it_says_how_long_it_ran(world: World, state: JobState) -> None:
    """And nothing about what a preemption would cost."""
    job = plain_job(world, state)
    attempt = newest_attempt(job)
    Attempt.objects.filter(pk=attempt.pk).update(ended_at=datetime.now(UTC))
    page = overview(world, job)

    assert "Ran" in page.text
    assert "A preemption costs" not in page.text


def test_job_that_reports_or_has_just_begun_has_its_curves(world: World) -> None:
    """Scripts report within a minute."""
    fresh = job_in(world, JobState.RUNNING)
    Attempt.objects.filter(job=fresh).update(started_at=datetime.now(UTC) - timedelta(seconds=5))
    reports = plain_job(world)
    Job.objects.filter(pk=reports.pk).update(step=5)

    assert 'id="loss"' in overview(world, fresh).html
    assert 'id="loss"' in overview(world, reports).html
