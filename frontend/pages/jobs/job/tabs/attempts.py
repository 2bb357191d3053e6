"""Attempts: each run from its launch to its one end."""

from datetime import datetime
from typing import TypedDict

from frontend.pages.jobs.charts.timeline import QUIET_CAUSES, cause_words
from frontend.pages.jobs.job.failure_words import failure_words
from frontend.pages.jobs.subject import Subject
from scheduler.core.model.lifecycle import EndCause
from scheduler.models.job import AttemptKind
from scheduler.selectors.jobs.rows import RunRow


class AttemptLine(RunRow):
    """An attempt with its words on the page."""

    tone: str
    words: str
    is_smoke: bool
    failed: str
    steps: tuple[int, int] | None
    started: datetime | None
    ran_from: str
    is_open: bool


def count(subject: Subject) -> int | None:
    """Return how many there are."""
    attempt = subject.detail["attempt"]
    return attempt["number"] if attempt else 0


class AttemptsTab(TypedDict):
    """The variables of its template."""

    attempts: list[AttemptLine]


def context(subject: Subject) -> AttemptsTab:
    """Return the variables of the template."""
    return {"attempts": [_line(subject, entry) for entry in reversed(subject.attempts)]}


def _line(subject: Subject, entry: RunRow) -> AttemptLine:
    first, last = entry["first_step"], entry["last_step"]
    if entry["end"] is None:
        tone, words = "info", entry["state"].capitalize()
    elif entry["end_cause"] == EndCause.COMPLETED:
        tone, words = "ok", cause_words(entry)
    else:
        tone = "mute" if entry["end_cause"] in QUIET_CAUSES else "bad"
        words = cause_words(entry)
    return {
        **entry,
        "tone": tone,
        "words": words,
        "is_smoke": entry["run_kind"] == AttemptKind.SMOKE,
        "failed": failure_words(entry),
        "steps": (first, last) if first is not None and last is not None else None,
        "started": subject.time(entry["started_at"] or entry["created_at"]),
        "ran_from": subject.ran_from(entry),
        "is_open": entry["end"] is None,
    }
