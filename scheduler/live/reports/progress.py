"""What a report says of an attempt that goes on: first sight of its process, steps, rate, memory, checkpoints.

Only forward: a step that went back is refused, a checkpoint counts only if its step is later. Columns of all
attempts of a report are collected and written together.
"""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from agents.protocol.signing import AttemptReport
from scheduler.core.model.lifecycle import JobState
from scheduler.models import Attempt, GangMember, Job
from scheduler.models.job import AttemptKind, AttemptState
from scheduler.notify import touch_job
from scheduler.services.jobs.state import job_transition
from scheduler.services.many_rows import RowChange, rows_update

Row = Attempt | GangMember | Job
# The size of a job's directory is written when it has changed by more than this part of it, or so many bytes.
DIRECTORY_PARTS, DIRECTORY_BYTES = 50, 65_536


@dataclass(slots=True)
class ProgressWrites:
    """Columns of gang processes, jobs and attempts to write together."""

    of_members: list[RowChange] = field(default_factory=list)
    of_jobs: list[RowChange] = field(default_factory=list)
    of_attempts: list[RowChange] = field(default_factory=list)

    def write(self) -> None:
        """Write the columns, the tables in the order in which every transaction locks them."""
        rows_update(GangMember, self.of_members)
        rows_update(Job, self.of_jobs)
        rows_update(Attempt, self.of_attempts)
        self.of_members, self.of_jobs, self.of_attempts = [], [], []

    def add(self, other: "ProgressWrites") -> None:
        """Write with these what others collected."""
        self.of_members += other.of_members
        self.of_jobs += other.of_jobs
        self.of_attempts += other.of_attempts


def attempt_started(attempt: Attempt, said: AttemptReport, *, at: datetime, actor: str) -> None:
    """Record the first report of the training process."""
    if attempt.started_at is not None:
        return
    # A short job may have ended before the first report; it never began before its lease.
    attempt.started_at = max(attempt.created_at, at - timedelta(seconds=min(said.run_s, 86_400.0)))
    columns: dict[str, Any] = {"started_at": attempt.started_at}
    job = attempt.job
    if attempt.wanted == "run":
        columns["state"] = AttemptState.RUNNING
    Attempt.objects.filter(pk=attempt.pk).exclude(state=AttemptState.ENDED).update(**columns)
    first = {} if job.first_started_at else {"first_started_at": attempt.started_at}
    if job.state == JobState.LAUNCHING:
        job_transition(
            job=job,
            to=JobState.RUNNING,
            at=at,
            actor=actor,
            reason="started",
            data={"attempt": attempt.number, "resume_step": attempt.resume_step},
            changes=first,
        )
    elif first:
        Job.objects.filter(pk=job.pk).update(**first)


def progress_take(
    attempt: Attempt, said: AttemptReport, writes: ProgressWrites, *, refused: Counter[str], at: datetime
) -> None:
    """Collect step, loss, rate and checkpoint as far as they move forward; count in ``refused`` what does not."""
    job = attempt.job
    of_attempt: dict[str, Any] = {}
    of_job: dict[str, Any] = {}
    if said.step is not None and said.step < (attempt.last_step or 0):
        refused["step_went_back"] += 1
    elif said.step is not None:
        of_attempt = {"last_step": said.step, "first_step": _first(attempt.first_step, said.first_step)}
        of_job = {"step": said.step, "loss": said.loss, "steps_per_s": said.steps_per_s}
        if said.total_steps is not None:
            of_job["total_steps"] = said.total_steps
    of_attempt |= {"log_bytes": max(attempt.log_bytes, said.log_bytes)}
    if said.peak_memory_bytes is not None:
        of_attempt["peak_memory_bytes"] = max(attempt.peak_memory_bytes or 0, said.peak_memory_bytes)
    if _is_newer_checkpoint(attempt, said):
        of_job |= {
            "checkpoint_attempt_id": attempt.pk,
            "checkpoint_name": said.checkpoint_name,
            "checkpoint_step": said.checkpoint_step,
            "checkpoint_at": at,
        }
    of_attempt, of_job = changed_columns(attempt, of_attempt), changed_columns(job, of_job)
    if of_attempt:
        writes.of_attempts.append((attempt.pk, of_attempt))
    if of_job:
        of_job["progress_at"] = at
    of_job |= changed_columns(job, _directory(job, said))
    if of_job:
        writes.of_jobs.append((job.pk, of_job))
    if of_attempt or of_job:
        touch_job(job.pk)


def _directory(job: Job, said: AttemptReport) -> dict[str, Any]:
    """Return the size of the job's directory where it differs enough from what is known, or is the last one told."""
    told, known = said.directory_bytes, job.directory_bytes
    if told is None:
        return {}
    if known is None or said.phase == "ended" or abs(told - known) > max(known // DIRECTORY_PARTS, DIRECTORY_BYTES):
        return {"directory_bytes": told}
    return {}


def member_take(member: GangMember, said: AttemptReport, writes: ProgressWrites) -> None:
    """Collect what one process of a gang says of itself; the leader's words of the job are taken as an attempt's."""
    peak_bytes = max(member.peak_memory_bytes or 0, said.peak_memory_bytes or 0) or None
    told = {"peak_memory_bytes": peak_bytes, "log_bytes": max(member.log_bytes, said.log_bytes)}
    if changed := changed_columns(member, told):
        writes.of_members.append((member.pk, changed))


def _first(kept: int | None, said: int | None) -> int | None:
    return said if kept is None else kept


def _is_newer_checkpoint(attempt: Attempt, said: AttemptReport) -> bool:
    """Return whether the report moves the job's latest checkpoint: only a later step of this attempt does."""
    if not said.checkpoint_name or said.checkpoint_step is None or attempt.kind == AttemptKind.SMOKE:
        return False
    job = attempt.job
    if job.checkpoint_attempt_id == attempt.pk:
        return said.checkpoint_step > (job.checkpoint_step or 0)
    return said.checkpoint_step >= (attempt.resume_step or 0)


def changed_columns(row: Row, columns: dict[str, Any]) -> dict[str, Any]:
    """Return the columns that differ from the row, and set them on it."""
    changed = {name: value for name, value in columns.items() if getattr(row, name) != value}
    for name, value in changed.items():
        setattr(row, name, value)
    return changed
