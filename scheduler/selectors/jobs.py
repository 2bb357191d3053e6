"""Reads of jobs: list, row, detail."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from scheduler.core.lifecycle import JobState
from scheduler.models import Event, Job
from scheduler.selectors.visibility import Actor


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilters:
    """What a job list is narrowed to; every field empty means everything visible.

    Attributes:
        states: Any of these.
        queue: Name of a queue; its subtree is meant.
        owner: User name.
        search: Part of the name, or a job number with or without ``J-``.
        submitted_after, submitted_before: Aware times.
        min_gpus, max_gpus: Inclusive.
        ordering: One of ORDERINGS; ``-`` in front turns it round.
    """

    states: tuple[JobState, ...] = ()
    queue: str = ""
    owner: str = ""
    search: str = ""
    submitted_after: datetime | None = None
    submitted_before: datetime | None = None
    min_gpus: int | None = None
    max_gpus: int | None = None
    ordering: str = "-number"


def job_list(user: Actor, filters: JobFilters) -> QuerySet[Job]:
    """Return visible jobs, queue and owner joined; the caller slices it."""
    raise NotImplementedError


def job_row(job: Job) -> dict[str, Any]:
    """Return one line of a job list as plain JSON data."""
    raise NotImplementedError


def job_detail(user: Actor, job: Job) -> dict[str, Any]:
    """Return all of one job as plain JSON data."""
    raise NotImplementedError


def job_explain(user: Actor, job: Job, at: datetime) -> dict[str, Any]:
    """Return why a job waits, who is ahead, which checks pass."""
    raise NotImplementedError


def job_events(job: Job) -> QuerySet[Event]:
    """Return the events of a job, oldest first."""
    raise NotImplementedError


def event_row(event: Event) -> dict[str, Any]:
    """Return one event as plain JSON data that everybody who sees its queue may read."""
    raise NotImplementedError


def job_timeline(job: Job, at: datetime) -> list[dict[str, Any]]:
    """Return attempts and the gaps between them, oldest first."""
    raise NotImplementedError


def job_series(job: Job, since: datetime | None = None) -> dict[str, list[Any]]:
    """Return the measured values of a job as lists of one length."""
    raise NotImplementedError
