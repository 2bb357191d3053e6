"""Completion times of jobs, and finish-time fairness of jobs and queues.

Finish-time fairness rho of a job is its completion time over the time it would have taken alone on an equal share of
the cluster. Source: Mahajan et al., "Themis", NSDI 2020. Differs: the number of sharers is the mean number of
unfinished jobs over the life of the job, and a job with more GPUs than its share is slowed down in proportion.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

import numpy as np
from django.db.models import Q, QuerySet
from django.utils import timezone

from scheduler.core.model.lifecycle import HOLDING, JobState
from scheduler.core.model.tables import FloatArray
from scheduler.models import Attempt, Gpu, Job
from scheduler.models.job import AttemptState
from scheduler.models.server import ServerState
from scheduler.selectors.cluster.rows import CompletionTimes, Fairness, RatedJob
from scheduler.selectors.times import iso, seconds_between
from scheduler.selectors.visibility import Actor, jobs_visible

JOBS_READ = 10_000
JOBS_RATED = 500
RATED_WITHIN = timedelta(days=1)
LEAST_RUN_S = 1.0  # a job that has hardly run says nothing about fairness

# Kinds of the events of a queue that fares worse than the limit allows, and of one that no longer does.
UNFAIR, FAIR = "fairness_over", "fairness_again"


def jct_summary(user: Actor, since: datetime) -> CompletionTimes:
    """Return completion and waiting times of visible jobs that completed since, in seconds."""
    jobs = jobs_visible(user).filter(state=JobState.COMPLETED, ended_at__gte=since).order_by("-ended_at")
    found = list(jobs.values_list("submitted_at", "ended_at", "queueing_s")[:JOBS_READ])
    jct_s = sorted(round(seconds_between(start, end), 3) for start, end, _ in found if end is not None)
    wait_s = sorted(round(wait, 3) for _, _, wait in found)
    return {
        "since": iso(since),
        "count": len(jct_s),
        "mean_s": round(sum(jct_s) / len(jct_s), 3) if jct_s else None,
        "p50_s": quantile(jct_s, 0.5),
        "p90_s": quantile(jct_s, 0.9),
        "p99_s": quantile(jct_s, 0.99),
        "wait_p50_s": quantile(wait_s, 0.5),
        "wait_p90_s": quantile(wait_s, 0.9),
        "jct_s": jct_s,
        "wait_s": wait_s,
    }


def quantile(ordered: Sequence[float], share: float) -> float | None:
    """Return the smallest value that at least ``share`` of the sorted values do not exceed; None for no values."""
    if not ordered:
        return None
    return ordered[max(0, -(-round(share * len(ordered) * 1e9) // 10**9) - 1)]


def fairness(
    user: Actor,
    at: datetime | None = None,
    *,
    since: datetime | None = None,
    is_past: bool = False,
    queue_pks: Collection[int] | None = None,
) -> Fairness:
    """Return rho of visible jobs that completed in a range or run now, and the Jain index over their queues.

    The index is taken over 1 / mean rho of each queue: 1 when all queues are equally well off, 1 / n at worst.

    Args:
        at: End of the range; now by default.
        since: Its beginning; a day before its end by default.
        is_past: Whether the range is over: jobs that run now do not count.
        queue_pks: Only jobs of these queues.
    """
    until, jobs = at or timezone.now(), jobs_visible(user)
    if queue_pks is not None:
        jobs = jobs.filter(queue_id__in=queue_pks)
    counted = Q(state=JobState.COMPLETED, ended_at__gte=since or until - RATED_WITHIN)
    counted = counted & Q(ended_at__lt=until) if is_past else counted | Q(state__in=sorted(HOLDING))
    found = _newest(jobs.filter(counted), JOBS_RATED + 1)
    rows = _rates(found[:JOBS_RATED], until) if found else []
    return {"jobs": rows, "jain_index": _jain(rows), "is_cut": len(found) > JOBS_RATED}


def mean_rho_by_queue(jobs: QuerySet[Job], at: datetime, *, least_jobs: int = 1) -> dict[str, float]:
    """Return the mean rho of each queue over the ``jobs`` that completed within a day or run now.

    Queues with fewer than ``least_jobs`` such jobs are left out.
    """
    by_queue = _by_queue(_rows(jobs, at))
    return {name: sum(values) / len(values) for name, values in by_queue.items() if len(values) >= least_jobs}


def rho_of(job: Job, at: datetime) -> float | None:
    """Return rho of one job that runs or has completed, however long ago; None for others and after hardly any run.

    The equal share is of the GPUs that the cluster has now. The caller has made sure that the reader may see the job.
    """
    if job.state != JobState.COMPLETED and job.state not in HOLDING:
        return None
    rows = _rates([job], at)
    return rows[0]["rho"] if rows else None


def _rows(jobs: QuerySet[Job], now: datetime) -> list[RatedJob]:
    counted = Q(state=JobState.COMPLETED, ended_at__gte=now - RATED_WITHIN) | Q(state__in=sorted(HOLDING))
    rated = _newest(jobs.filter(counted), JOBS_RATED)
    return _rates(rated, now) if rated else []


def _rates(rated: Sequence[Job], now: datetime) -> list[RatedJob]:
    """Return rho of at least one job; jobs that have hardly run are left out."""
    num_gpus = Gpu.objects.filter(server__state__in=[ServerState.UP, ServerState.DRAINING]).count()
    lives = np.array([[job.submitted_at.timestamp(), _end(job, now).timestamp()] for job in rated])
    sharers = _mean_active(lives, now)
    runs_s = _open_runs_s(rated, now)
    rows = []
    for job, active in zip(rated, sharers.tolist(), strict=True):
        run_s = job.executed_s + runs_s.get(job.pk, 0.0)
        if run_s < LEAST_RUN_S:
            continue
        share_gpus = max(1.0, num_gpus) / max(1.0, active)
        alone_s = run_s * max(1.0, job.num_gpus / share_gpus)
        rows.append(_row(job, rho=seconds_between(job.submitted_at, _end(job, now)) / alone_s))
    return rows


def _newest(jobs: QuerySet[Job], most: int) -> list[Job]:
    return list(jobs.select_related("queue").defer("spec").order_by("-number")[:most])


def _end(job: Job, now: datetime) -> datetime:
    return job.ended_at or max(now, job.submitted_at)


def _mean_active(lives: FloatArray, now: datetime) -> FloatArray:
    """Return the mean number of unfinished jobs of the whole cluster over each life.

    Args:
        lives: (n, 2) beginning and end of each job, Unix seconds.
    """
    first = datetime.fromtimestamp(lives[:, 0].min(), tz=now.tzinfo)
    last = datetime.fromtimestamp(lives[:, 1].max(), tz=now.tzinfo)
    present = Job.objects.filter(Q(ended_at__isnull=True) | Q(ended_at__gte=first), submitted_at__lte=last)
    found = list(present.order_by("-number").values_list("submitted_at", "ended_at")[:JOBS_READ])
    starts = np.array([start.timestamp() for start, _ in found])
    ends = np.array([(end or now).timestamp() for _, end in found])
    moments = np.concatenate([starts, np.maximum(starts, ends)])
    steps = np.concatenate([np.ones(len(starts)), -np.ones(len(ends))])
    order = np.argsort(moments, kind="stable")
    moments, active = moments[order], np.cumsum(steps[order])
    # Integral of the number of active jobs up to each moment; linear in between.
    integral = np.concatenate([[0.0], np.cumsum(active[:-1] * np.diff(moments))])
    spent = np.interp(lives[:, 1], moments, integral) - np.interp(lives[:, 0], moments, integral)
    means: FloatArray = spent / np.maximum(lives[:, 1] - lives[:, 0], 1e-9)
    return means


def _open_runs_s(jobs: Sequence[Job], now: datetime) -> dict[str, float]:
    """Return how long the open attempt of each running job has run, seconds."""
    running = [job.pk for job in jobs if job.ended_at is None]
    attempts = Attempt.objects.filter(job_id__in=running, started_at__isnull=False).exclude(state=AttemptState.ENDED)
    return {
        job_pk: seconds_between(started_at, now)
        for job_pk, started_at in attempts.values_list("job_id", "started_at")
        if started_at is not None
    }


def _row(job: Job, *, rho: float) -> RatedJob:
    return {
        "id": job.pk,
        "number": job.number,
        "name": job.name,
        "queue": job.queue.name,
        "color_slot": job.queue.color_slot,
        "num_gpus": job.num_gpus,
        "is_finished": job.ended_at is not None,
        "rho": round(rho, 4),
    }


def _by_queue(rows: Sequence[RatedJob]) -> dict[str, list[float]]:
    by_queue: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        by_queue[row["queue"]].append(row["rho"])
    return by_queue


def _jain(rows: Sequence[RatedJob]) -> float | None:
    means = [sum(values) / len(values) for values in _by_queue(rows).values()]
    speeds = [1.0 / mean for mean in means if mean > 0]
    if not speeds:
        return None
    return round(sum(speeds) ** 2 / (len(speeds) * sum(speed * speed for speed in speeds)), 4)
