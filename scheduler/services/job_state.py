"""The one writer of a job's state: checked against the table, guarded against races, one event each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from scheduler.core.lifecycle import JobState
from scheduler.core.plan import Evidence, WaitReason
from scheduler.models import Event, Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Why one queued job waits after a round."""

    job_id: str
    reason: WaitReason
    evidence: Evidence
    position: int | None


def job_transition(
    *,
    job: Job,
    to: JobState,
    at: datetime,
    actor: str,
    reason: str,
    data: Mapping[str, Any] | None = None,
    changes: Mapping[str, Any] | None = None,
) -> None:
    """Move ``job`` to another state. Raises InvalidTransition, JobChanged."""
    raise NotImplementedError


def job_event(
    *, job: Job, kind: str, at: datetime, actor: str, reason: str, data: Mapping[str, Any] | None = None
) -> Event:
    """Record that something happened to a job that does not move its state."""
    raise NotImplementedError


def job_waits_record(*, waits: Sequence[Wait], round_number: int, at: datetime) -> list[str]:
    """Write the wait reasons of a round; returns the ids of the jobs whose reason changed."""
    raise NotImplementedError
