"""What the shadow policy would have done, and how it compares over what has ended. For admins alone."""

from typing import Any

from django.db.models import QuerySet

from scheduler.models import Job, Shadow, ShadowRound, ShadowScore
from scheduler.selectors.times import iso

MOST_SCORES = 500
Row = dict[str, Any]  # JSON
_ROUND_COLUMNS = ("num_same", "num_only_live", "num_only_shadow", "num_other_gpus")


def shadow_document(shadow: Shadow) -> Row:
    """Return the shadow with its scores as plain JSON data, oldest score first."""
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


def score_row(score: ShadowScore) -> Row:
    """Return one comparison over what had ended by then."""
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


def shadow_round_row(row: ShadowRound) -> Row:
    """Return one round with the numbers of jobs that run under one and not under the other."""
    return {
        "round": row.number,
        "at": iso(row.at),
        "planned_at": iso(row.planned_at),
        "took_s": row.took_s,
        "error": row.error,
        **{name: getattr(row, name) for name in _ROUND_COLUMNS},
        "only_live": row.differences.get("only_live", []),
        "only_shadow": row.differences.get("only_shadow", []),
        "other_gpus": row.differences.get("other_gpus", []),
    }


def job_names(numbers: set[int]) -> dict[int, Job]:
    """Return the jobs of these numbers, with name and queue."""
    jobs = Job.objects.filter(number__in=numbers).select_related("queue")
    return {job.number: job for job in jobs.only("number", "name", "queue__name", "queue__color_slot")}
