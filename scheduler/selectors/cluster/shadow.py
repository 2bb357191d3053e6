"""What the shadow policy would have done, and how it compares on jobs that have ended. For admins alone."""

from django.db.models import QuerySet

from scheduler.models import Job, Shadow, ShadowRound, ShadowScore
from scheduler.selectors.cluster.rows import ScoreRow, ShadowReport, ShadowRoundRow
from scheduler.selectors.times import iso

MOST_SCORES = 500


def shadow_report(shadow: Shadow) -> ShadowReport:
    """Return the shadow with its scores, oldest score first."""
    scores = list(ShadowScore.objects.filter(version=shadow.version)[:MOST_SCORES])[::-1]
    rounds = shadow_rounds(shadow)
    return {
        "chosen": shadow.chosen or None,
        "since": iso(shadow.since),
        "chosen_by": shadow.chosen_by.username if shadow.chosen_by else None,
        "version": shadow.version,
        "planned_rounds": rounds.filter(planned_at__isnull=False).count(),
        "scores": [score_row(score) for score in scores],
    }


def score_row(score: ShadowScore) -> ScoreRow:
    """Return one comparison on the jobs that had ended by then."""
    return {
        "at": iso(score.at),
        "since": iso(score.since),
        "num_jobs": score.num_jobs,
        "live": score.live,
        "shadow": score.shadow,
    }


def shadow_rounds(shadow: Shadow) -> QuerySet[ShadowRound]:
    """Return the rounds of this shadow, newest first."""
    return ShadowRound.objects.filter(version=shadow.version).defer("snapshot")


def shadow_round_row(row: ShadowRound) -> ShadowRoundRow:
    """Return one round with the jobs that run under one configuration only, or with other GPUs."""
    return {
        "round": row.number,
        "at": iso(row.at),
        "planned_at": iso(row.planned_at),
        "took_s": row.took_s,
        "error": row.error,
        "num_same": row.num_same,
        "num_only_live": row.num_only_live,
        "num_only_shadow": row.num_only_shadow,
        "num_other_gpus": row.num_other_gpus,
        "only_live": row.differences.get("only_live", []),
        "only_shadow": row.differences.get("only_shadow", []),
        "other_gpus": row.differences.get("other_gpus", []),
    }


def job_names(numbers: set[int]) -> dict[int, Job]:
    """Return the jobs of these numbers, with name and queue."""
    jobs = Job.objects.filter(number__in=numbers).select_related("queue")
    return {job.number: job for job in jobs.only("number", "name", "queue__name", "queue__color_slot")}
