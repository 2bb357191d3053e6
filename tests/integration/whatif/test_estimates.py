"""Estimates of starts: made after rounds, kept with the job, measured when it starts."""

import math
from datetime import timedelta

import pytest

from scheduler.core.model.lifecycle import JobState
from scheduler.live.rounds.snapshot import snapshot_read
from scheduler.models import Cluster, Job, Queue, StartEstimate
from scheduler.selectors.jobs.estimates import estimate_error, estimate_of, estimate_row
from scheduler.services.cluster.settings import cluster_row
from scheduler.whatif.start_times import estimates
from scheduler.whatif.start_times.estimates import (
    Estimate,
    Estimator,
    _keep,
    estimates_close,
    estimates_make,
    submitted_lately,
)
from scheduler.whatif.start_times.smoothing import pooled
from tests.support.live.ports import memory_ports
from tests.support.rows.factories import AT, attempt_make, full_cluster, job_make, job_move, queue_make, server_make

pytestmark = pytest.mark.django_db
NOW = AT + timedelta(hours=1)


def test_waiting_job_gets_the_time_at_which_the_running_one_ends() -> None:
    """Its owner sees p50 and p90 in order, around the end of what it waits for."""
    queue, owner = full_cluster()
    job = job_make(queue, owner=owner, num_gpus=2, total_steps=100, steps_per_s=1.0, step=0)

    estimates_make(cluster_row(), at=NOW)

    row = estimate_row(estimate_of(job))
    found = StartEstimate.objects.get(job=job)
    assert row["known"], row
    assert found.p50_at is not None
    assert found.p90_at is not None
    assert NOW + timedelta(seconds=700) < found.p50_at < found.p90_at < NOW + timedelta(seconds=1_600)
    assert found.first_p50_at == found.p50_at


def test_young_cluster_is_not_thought_to_go_on_as_busily_as_it_began() -> None:
    """Ten jobs in its first two minutes are no thirty thousand in a week: the start is simulated, and known."""
    queue, owner = full_cluster()
    for n in range(8):
        ended = job_make(queue, owner=owner, state=JobState.COMPLETED, at=NOW - timedelta(seconds=120), step_s=1.0)
        Job.objects.filter(pk=ended.pk).update(executed_s=float(n + 1))
    Job.objects.filter(submitted_at__lt=NOW - timedelta(seconds=120)).update(submitted_at=NOW - timedelta(seconds=120))
    job = job_make(queue, owner=owner, num_gpus=2, at=NOW - timedelta(seconds=60))

    estimates_make(cluster_row(), at=NOW)

    assert estimate_row(estimate_of(job))["known"]


def test_what_cannot_be_known_is_not_made_up() -> None:
    """Without any finished job and without a report the reason is told instead of a time."""
    server, queue = server_make("gpu-01", gpus=4), queue_make("vision", quota_gpus=4)
    job_make(queue, state=JobState.RUNNING, server=server, num_gpus=4)
    job = job_make(queue, num_gpus=2)

    estimates_make(cluster_row(), at=NOW)
    row = estimate_row(estimate_of(job))

    assert not row["known"]
    assert row["reason"] == "no_history"
    assert row["sentence"].startswith("Not known: too few jobs have ended")


def test_no_future_starts_a_job_beyond_what_one_user_may_hold() -> None:
    """The limit was lowered after it was submitted; the simulated futures keep to it."""
    queue, owner = full_cluster()
    Queue.objects.filter(pk=queue.pk).update(user_max_gpus=1)
    job = job_make(queue, owner=owner, num_gpus=2, total_steps=100, steps_per_s=1.0, step=0)

    estimates_make(cluster_row(), at=NOW)

    assert estimate_row(estimate_of(job))["reason"] == "not_in_futures"


def test_paused_scheduling_says_so() -> None:
    """No future is simulated while an admin holds everything."""
    queue, owner = full_cluster()
    job = job_make(queue, owner=owner, num_gpus=2)
    cluster_row()
    Cluster.objects.update(paused=True)

    estimates_make(cluster_row(), at=NOW)

    assert estimate_row(estimate_of(job))["sentence"] == "Not known: scheduling is paused."


def test_error_is_kept_when_the_job_starts() -> None:
    """The first estimate counts, since people planned by it; later ones do not move it."""
    queue, owner = full_cluster()
    job = job_make(queue, owner=owner, num_gpus=2, total_steps=100, steps_per_s=1.0, step=0)
    estimates_make(cluster_row(), at=NOW)
    first = StartEstimate.objects.get(job=job)
    estimates_make(cluster_row(), at=NOW + timedelta(seconds=100))
    again = StartEstimate.objects.get(job=job)
    assert (again.first_p50_at, again.made_at) == (first.p50_at, NOW + timedelta(seconds=100))
    assert first.p50_at is not None
    started_at = first.p50_at + timedelta(seconds=30)
    attempt_make(job, server=server_make("gpu-02"), at=started_at)
    job_move(job, JobState.LAUNCHING, at=started_at)

    estimates_close(started_at)

    kept = StartEstimate.objects.get(job=job)
    error = estimate_error(started_at)
    assert kept.error_s == pytest.approx(30.0)
    assert kept.started_at == started_at
    assert error is not None
    assert error["median_error_s"] == pytest.approx(30.0)


def test_job_that_is_cancelled_leaves_no_error() -> None:
    """It never started, so nothing was right or wrong."""
    queue, owner = full_cluster()
    job = job_make(queue, owner=owner, num_gpus=2, total_steps=100, steps_per_s=1.0, step=0)
    estimates_make(cluster_row(), at=NOW)
    job_move(job, JobState.CANCELLED, at=NOW)

    estimates_close(NOW)

    kept = StartEstimate.objects.get(job=job)
    assert kept.closed_at == NOW
    assert kept.error_s is None


def test_recent_submissions_are_read_with_the_servers_and_gpus_they_ask_for() -> None:
    """A wide job is a pattern for wide jobs to come; specs of early versions name no number of servers."""
    queue, owner = full_cluster()
    before = Job.objects.count()
    for asked in ({"max_servers": 2}, {"max_servers": 1, "min_gpus": 2, "max_gpus": 8}, {}):
        job = job_make(queue, owner=owner, num_gpus=4)
        resources = {**job.spec["resources"], "max_servers": None, "min_gpus": None, "max_gpus": None, **asked}
        Job.objects.filter(pk=job.pk).update(spec={**job.spec, "resources": resources})

    found = submitted_lately(snapshot_read(cluster_row(), at=NOW), NOW)

    assert found is not None
    assert len(found) == before + 3
    assert found.max_servers.tolist()[:3] == [1, 1, 2]  # newest first
    assert (found.min_gpus.tolist()[:3], found.max_gpus.tolist()[:3]) == ([4, 2, 4], [4, 8, 4])


def test_one_estimate_a_round() -> None:
    """Nothing is simulated again before the next round."""
    queue, owner = full_cluster()
    job_make(queue, owner=owner, num_gpus=2, total_steps=100, steps_per_s=1.0, step=0)
    cluster_row()
    ports, clock, _, _ = memory_ports()
    estimator = Estimator(ports)

    made = [estimator.tick(), estimator.tick()]
    Cluster.objects.update(round_number=7)
    clock.advance(60)
    made.append(estimator.tick())

    assert made == [True, False, True]


def stored(job: Job, starts_s: list[float], *, futures: int, reason: str = "") -> StartEstimate:
    """Return the estimate of an earlier round."""
    p50_s = starts_s[len(starts_s) // 2] if starts_s else None
    return StartEstimate.objects.create(
        job=job,
        round_number=1,
        made_at=AT,
        futures=futures,
        starts_s=starts_s,
        reason=reason,
        p50_at=None if p50_s is None else AT + timedelta(seconds=p50_s),
    )


def test_futures_of_earlier_rounds_count_on_with_half_their_weight() -> None:
    """So one unlucky draw moves p50 little; futures in which it would have started by now are dropped."""
    before = stored(job_make(), [60.0, 600.0, 6_000.0, 6_600.0], futures=6)
    at = AT + timedelta(seconds=100)

    assert pooled([50.0], None, at) == [50.0]
    # Every second of [60, 600, 6000, 6600, inf, inf], 100 s later.
    assert pooled([50.0, 700.0], before, at) == [50.0, 500.0, 700.0, 6_500.0, math.inf]
    before.starts_s = [60.0, 90.0, 6_000.0, 6_600.0]
    assert pooled([50.0], before, at) == [50.0, 6_500.0, math.inf]
    assert pooled([50.0], before, AT + timedelta(hours=2)) == [50.0]
    before.reason = "no_history"
    assert pooled([50.0], before, at) == [50.0]


def test_the_last_known_estimate_is_told_where_there_was_no_time_for_another() -> None:
    """With its age; until its time has come, or it is an hour old."""
    queue, server = queue_make(), server_make(gpus=1)
    job_make(queue, state=JobState.RUNNING, server=server)
    job = job_make(queue, state=JobState.QUEUED)
    stored(job, [3_000.0] * 8, futures=8)

    def keep(reason: str, after: timedelta) -> StartEstimate:
        _keep({job.pk: Estimate(reason=reason)}, round_number=2, at=AT + after)
        return StartEstimate.objects.get(job=job, closed_at=None)

    assert (keep("too_large", timedelta(minutes=5)).made_at, estimate_row(estimate_of(job))["known"]) == (AT, True)
    assert keep("too_large", timedelta(minutes=55)).reason == "too_large"
    stored_again = StartEstimate.objects.get(job=job)
    stored_again.delete()
    stored(job, [3_000.0] * 8, futures=8)
    assert keep("no_history", timedelta(minutes=5)).reason == "no_history"


def test_what_is_not_known_for_the_same_reason_is_not_written_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else each round would write a row for each of thousands of jobs far back in the line."""
    queue, owner = full_cluster()
    for _ in range(3):
        job_make(queue, owner=owner, num_gpus=2, total_steps=100, steps_per_s=1.0, step=0)
    monkeypatch.setattr(estimates, "MOST_JOBS", 1)

    estimates_make(cluster_row(), at=NOW)
    before = dict(StartEstimate.objects.values_list("job_id", "pk"))
    estimates_make(cluster_row(), at=NOW + timedelta(minutes=1))
    after = dict(StartEstimate.objects.values_list("job_id", "pk"))

    assert len(before) == len(after) == 3
    assert len(before.items() & after.items()) == 2  # the first in line has an estimate, which is made anew


def test_jobs_that_are_held_back_stand_behind_those_in_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large array has no place in the order; the jobs that have one are estimated, not called far back."""
    queue, owner = full_cluster()
    held, first = (job_make(queue, owner=owner, num_gpus=2, total_steps=100, steps_per_s=1.0, step=0) for _ in range(2))
    Job.objects.filter(pk=held.pk).update(wait_reason="array_limit", wait_position=None)
    Job.objects.filter(pk=first.pk).update(wait_position=1)
    monkeypatch.setattr(estimates, "MOST_JOBS", 1)

    estimates_make(cluster_row(), at=NOW)

    assert estimate_row(estimate_of(first))["reason"] == ""
    assert estimate_row(estimate_of(held))["reason"] == "far_back"
