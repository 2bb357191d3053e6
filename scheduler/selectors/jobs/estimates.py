"""When a waiting job starts: what was estimated after the last round, and how far such estimates were off lately."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TypedDict

from django.db.models import Count, F, Q, QuerySet

from scheduler.core.model.lifecycle import JobState
from scheduler.core.model.plan import WaitReason
from scheduler.core.operations.needed_change import needed_change
from scheduler.core.operations.start_calibration import LEAST_STARTS, MOST_RATIOS, ratio
from scheduler.core.spec.units import duration_words
from scheduler.models import Job, StartEstimate
from scheduler.selectors.jobs.reason_rows import EstimateError, EstimateRow
from scheduler.selectors.rows import Moment
from scheduler.selectors.times import iso, seconds_between
from scheduler.simulator.forecasts.run_times import LEAST_ENDED

LATELY = timedelta(days=7)
MOST_LATELY = 1_000
MOST_ENDED = 2_000  # the newest ended jobs: from them remaining run times are drawn
WHY_UNKNOWN = {
    "": "No estimate yet. It appears after the next round.",
    "no_history": "Not known: too few jobs have ended to tell how long jobs run, and this or another job does not say.",
    "not_in_futures": "Not known: in most of the simulated futures it does not start within 7 days.",
    "not_offered": "Not known: it is not offered to rounds now, such as in a pause after a failure.",
    "paused": "Not known: scheduling is paused.",
    "far_back": "Not known: only the first 1 000 jobs in line are estimated.",
    "preparing": "Not known: how long its Python environment takes to be built cannot be told.",
    "too_large": "Not known: too few futures could be simulated in the time that there is for it after each round.",
}


def estimate_row(estimate: StartEstimate | None, *, reason: str = "", change: str = "") -> EstimateRow:
    """Return an estimate as plain JSON data; ``sentence`` says why where nothing is known.

    Args:
        estimate: What is stored.
        reason: Why the job waits now; it may be newer than the estimate.
        change: What ``needed_change`` says of that; no time is told where something has to change first.
    """
    if change:
        return {
            **_untold(estimate),
            "reason": "needs_change",
            "sentence": f"Not known: it cannot start until {change}.",
        }
    if reason == WaitReason.PREPARING_ENVIRONMENT and (estimate is None or estimate.reason):
        return {**_untold(estimate), "reason": "preparing", "sentence": WHY_UNKNOWN["preparing"]}
    is_known = estimate is not None and not estimate.reason and estimate.p50_at is not None
    return {
        "known": is_known,
        "p50_at": iso(estimate.p50_at) if estimate and is_known else None,
        "simulated_p90_at": iso(estimate.simulated_p90_at) if estimate and is_known else None,
        "p90_at": iso(estimate.p90_at) if estimate and is_known else None,
        "made_at": iso(estimate.made_at) if estimate else None,
        "round": estimate.round_number if estimate else None,
        "futures": estimate.futures if estimate else 0,
        "reason": estimate.reason if estimate else "new",
        "sentence": "" if is_known else WHY_UNKNOWN.get(estimate.reason if estimate else "", WHY_UNKNOWN[""]),
    }


def _untold(estimate: StartEstimate | None) -> EstimateRow:
    """Return an estimate without its times."""
    return {**estimate_row(estimate), "known": False, "p50_at": None, "simulated_p90_at": None, "p90_at": None}


def estimate_of(job: Job) -> StartEstimate | None:
    """Return the open estimate of a job; the caller has made sure that it may be seen."""
    return StartEstimate.objects.filter(job=job, closed_at=None).first()


class StartCourse(TypedDict):
    """When a job starts in the simulated futures that start it."""

    made_at: Moment
    futures: int
    starts_s: list[float]  # after ``made_at``, ascending


def start_course(job: Job) -> StartCourse | None:
    """Return the starts behind the open estimate; the caller has made sure that the job may be seen."""
    found = estimate_of(job)
    if found is None or found.reason or not found.futures:
        return None
    return {"made_at": iso(found.made_at), "futures": found.futures, "starts_s": list(found.starts_s)}


def estimates_of(jobs: Iterable[Job]) -> dict[str, EstimateRow]:
    """Return the open estimates of waiting jobs that the caller may see, by one query."""
    by_pk = {job.pk: job for job in jobs}
    rows = StartEstimate.objects.filter(job_id__in=list(by_pk), closed_at=None).defer("starts_s")
    return {row.job_id: _told(row, by_pk[row.job_id]) for row in rows}


def _told(estimate: StartEstimate, job: Job) -> EstimateRow:
    change = needed_change(job.wait_reason, job.wait_evidence) if job.wait_reason else ""
    return estimate_row(estimate, reason=job.wait_reason, change=change)


def estimate_error(at: datetime) -> EstimateError | None:
    """Return how far first estimates were off for jobs that started lately; None when none did."""
    started = StartEstimate.objects.filter(started_at__gte=at - LATELY, error_s__isnull=False).order_by("-started_at")
    errors = sorted(abs(error_s or 0.0) for error_s in started.values_list("error_s", flat=True)[:MOST_LATELY])
    if not errors:
        return None
    with_p90 = started.filter(first_simulated_p90_at__isnull=False)
    counts = with_p90.aggregate(
        known=Count("pk"),
        untold=Count("pk", filter=Q(first_p90_at=None)),
        late=Count("pk", filter=Q(started_at__gt=F("first_p90_at"))),
        late_simulated=Count("pk", filter=Q(started_at__gt=F("first_simulated_p90_at"))),
    )
    known = counts["known"]
    return {
        "starts": len(errors),
        "median_error_s": errors[len(errors) // 2],
        "covered_frac": 1 - counts["late"] / known if known else None,
        "covered_simulated_frac": 1 - counts["late_simulated"] / known if known else None,
        "untold_frac": counts["untold"] / known if known else None,
        "ratios": _ended_last().count(),
    }


def jobs_with_run_time() -> QuerySet[Job]:
    """Return the jobs whose run times tell how long others may run: those that completed."""
    return Job.objects.filter(state=JobState.COMPLETED, executed_s__gt=0)


def estimate_basis(error: EstimateError | None) -> str:
    """Return how far such estimates were off where enough starts can tell, and whether too few jobs completed."""
    ended = jobs_with_run_time()[:LEAST_ENDED].count()
    told = past_error(error)
    if not ended:
        return f"{told} No job has completed yet: it rests on what running jobs say alone."
    if ended < LEAST_ENDED:
        jobs = "job has" if ended == 1 else "jobs have"
        return f"{told} Only {ended} {jobs} completed, too few to tell how long jobs run: it may be far off."
    return told


def past_error(error: EstimateError | None) -> str:
    """Return how far estimates of starts were off lately, or that too few starts can tell."""
    if error is None:
        return "No job has started after such an estimate in the last 7 days, so how far off it is cannot be told."
    starts = error["starts"]
    if starts < LEAST_STARTS:
        jobs = "job started" if starts == 1 else "jobs started"
        return f"{starts} {jobs} after such an estimate in the last 7 days: too few to tell how far off it is."
    number = f"{starts:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")
    half = duration_words(error["median_error_s"])
    told = f"Such estimates were {half} off in the median of the last {number} jobs"
    covered = error["covered_frac"]  # of those that had such a time, which may be fewer
    by = "" if covered is None else f"; {100 * covered:.0f}\N{NO-BREAK SPACE}% started by the time given for 9 in 10"
    return f"{told}{by}."


def ratios_lately() -> list[float]:
    """Return how many times as long as simulated the waits took that ended last, newest last."""
    moments = _ended_last().values_list("first_made_at", "started_at", "first_simulated_p90_at")
    return [
        ratio(took_s=seconds_between(made_at, started_at), simulated_s=seconds_between(made_at, by_at))
        for made_at, started_at, by_at in list(moments)[::-1]
        if made_at and started_at and by_at
    ]


def _ended_last() -> QuerySet[StartEstimate]:
    ended = StartEstimate.objects.filter(error_s__isnull=False, first_simulated_p90_at__isnull=False)
    return ended.order_by("-started_at")[:MOST_RATIOS]
