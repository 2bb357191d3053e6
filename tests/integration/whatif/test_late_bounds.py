"""Times by which nine in ten start are stretched by what became of earlier ones, wherever they are said."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User

from scheduler.core.model.lifecycle import JobState
from scheduler.core.operations.start_calibration import LATE_FRAC, LEAST_RATIOS, STEP
from scheduler.core.spec.spec import JobSpec
from scheduler.models import Cluster, Job, Queue, StartEstimate
from scheduler.selectors.jobs.estimates import estimate_error, estimate_of, estimate_row, ratios_lately
from scheduler.services.cluster.settings import cluster_row
from scheduler.services.jobs.check import spec_check
from scheduler.whatif.one_job.preview import job_preview
from scheduler.whatif.start_times.estimates import estimates_close, estimates_make
from tests.support.rows.factories import AT, attempt_make, full_cluster, job_make, job_move, server_make

pytestmark = pytest.mark.django_db
NOW = AT + timedelta(hours=1)


def waiting(queue: Queue, owner: User) -> Job:
    """Return a job that waits for the one that runs."""
    return job_make(queue, owner=owner, num_gpus=2, total_steps=100, steps_per_s=1.0, step=0)


def started(queue: Queue, *, times: float) -> None:
    """Leave a wait that took so many times as long as simulated, and was told just that."""
    made_at = NOW - timedelta(hours=5)
    by_at = made_at + timedelta(seconds=100)
    at = made_at + timedelta(seconds=100 * times)
    job = job_make(queue, state=JobState.COMPLETED, at=made_at)
    Job.objects.filter(pk=job.pk).update(executed_s=10.0)
    StartEstimate.objects.create(
        job=job, round_number=1, made_at=made_at,
        first_made_at=made_at, first_p50_at=by_at, first_simulated_p90_at=by_at, first_p90_at=by_at,
        closed_at=at, started_at=at, error_s=100 * (times - 1), in_time=times <= 1,
    )  # fmt: skip


def give(job: Job, *, after_s: float) -> None:
    """Give the job its place so long after it was told when, and let that be noticed."""
    at = NOW + timedelta(seconds=after_s)
    attempt_make(job, server=server_make(f"gpu-{after_s}"), at=at)
    job_move(job, JobState.LAUNCHING, at=at)
    estimates_close(at)


def test_what_was_late_stretches_the_next_times_and_leaves_the_median() -> None:
    """Waits took three times as long as simulated: so far off are the next ones, in the list, on the page, by REST."""
    queue, owner = full_cluster()
    for _ in range(LEAST_RATIOS):
        started(queue, times=3.0)
    job = waiting(queue, owner)

    estimates_make(cluster_row(), at=NOW)

    row, found = estimate_row(estimate_of(job)), StartEstimate.objects.get(job=job)
    assert found.simulated_p90_at is not None
    assert found.p50_at is not None
    assert found.p90_at == found.first_p90_at
    assert found.p90_at is not None
    assert (found.p90_at - NOW) / (found.simulated_p90_at - NOW) == pytest.approx(3.0)
    assert NOW < found.p50_at < found.simulated_p90_at
    assert (row["simulated_p90_at"] or "") < (row["p90_at"] or "")


def test_a_dry_run_says_the_same_as_the_list() -> None:
    """A job that is not submitted yet is told times that are stretched as those of the others."""
    queue, owner = full_cluster()
    for _ in range(LEAST_RATIOS):
        started(queue, times=3.0)
    job = waiting(queue, owner)
    spec = JobSpec.parse(job.spec)
    job.delete()

    found = job_preview(checked=spec_check(actor=owner, spec=spec), too_large=[], at=NOW)["estimate"]

    assert found is not None
    assert found["known"]
    times = [found["p50_at"], found["simulated_p90_at"], found["p90_at"]]
    assert times == sorted({at for at in times if at})


def test_too_few_waits_stretch_nothing() -> None:
    """A young cluster believes its futures."""
    queue, owner = full_cluster()
    for _ in range(LEAST_RATIOS - 1):
        started(queue, times=3.0)
    job = waiting(queue, owner)

    estimates_make(cluster_row(), at=NOW)

    found = StartEstimate.objects.get(job=job)
    assert found.p90_at == found.simulated_p90_at


def test_where_nothing_holds_no_time_is_promised() -> None:
    """After many late starts the next are told the median and no time by which, until enough were in time."""
    queue, owner = full_cluster()
    Cluster.objects.update(late_level=-0.01)
    job = waiting(queue, owner)

    estimates_make(cluster_row(), at=NOW)

    row = estimate_row(estimate_of(job))
    assert row["known"]
    assert row["p90_at"] is None
    assert row["simulated_p90_at"] is not None


def test_each_outcome_moves_the_level_once() -> None:
    """A wait is late when its time passes, not first when it ends; one that is in time gives back a tenth of a step."""
    queue, owner = full_cluster()
    job = waiting(queue, owner)
    estimates_make(cluster_row(), at=NOW)
    levels = []

    for after_s in (10.0, 5_000.0, 5_100.0):
        estimates_close(NOW + timedelta(seconds=after_s))
        levels.append(cluster_row().late_level)
    give(job, after_s=6_000.0)
    levels.append(cluster_row().late_level)

    late = LATE_FRAC - STEP * (1 - LATE_FRAC)
    assert levels == pytest.approx([LATE_FRAC, late, late, late])
    assert StartEstimate.objects.get(job=job).in_time is False
    assert ratios_lately() == [pytest.approx(6_000.0 / _simulated_s(job), rel=1e-3)]


def test_a_start_in_time_gives_trust_back() -> None:
    """The level rises by a tenth of a step, and no higher than what was promised."""
    queue, owner = full_cluster()
    Cluster.objects.update(late_level=0.05)
    job = waiting(queue, owner)
    estimates_make(cluster_row(), at=NOW)

    give(job, after_s=30.0)

    assert cluster_row().late_level == pytest.approx(0.05 + STEP * LATE_FRAC)
    assert StartEstimate.objects.get(job=job).in_time is True


def test_a_job_that_is_cancelled_in_time_counts_for_nothing() -> None:
    """Nobody knows when it would have started."""
    queue, owner = full_cluster()
    job = waiting(queue, owner)
    estimates_make(cluster_row(), at=NOW)
    job_move(job, JobState.CANCELLED, at=NOW)

    estimates_close(NOW + timedelta(days=2))

    assert cluster_row().late_level == LATE_FRAC
    assert StartEstimate.objects.get(job=job).in_time is None
    assert ratios_lately() == []


def test_the_error_tells_both_shares() -> None:
    """Of four, one was late by the futures alone; it had been told no time, which is in time and said beside it."""
    queue, _ = full_cluster()
    for times in (0.5, 0.5, 0.5, 4.0):
        started(queue, times=times)
    StartEstimate.objects.filter(in_time=False).update(first_p90_at=None, in_time=True)

    found = estimate_error(NOW)

    assert found is not None
    assert (found["covered_frac"], found["covered_simulated_frac"]) == (1.0, 0.75)
    assert (found["untold_frac"], found["ratios"]) == (0.25, 4)


def _simulated_s(job: Job) -> float:
    found = StartEstimate.objects.get(job=job)
    assert found.first_simulated_p90_at is not None
    assert found.first_made_at is not None
    return (found.first_simulated_p90_at - found.first_made_at).total_seconds()
