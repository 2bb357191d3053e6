"""Cancels, suspends and resumes jobs for their users.

A job without GPUs changes its state at once. For a job with GPUs the request is written to ``Job.wanted``; an early
round carries it out (``live/attempts/wants.py``).
"""

from datetime import datetime

from django.db import transaction

from scheduler.core.model.errors import Conflict, NotAllowed
from scheduler.core.model.lifecycle import TERMINAL, EndCause, JobState
from scheduler.models import Job
from scheduler.notify import request_round
from scheduler.selectors.visibility import Actor, may_act_on_job, require_job
from scheduler.services.jobs.state import job_event, job_transition
from scheduler.services.permission import actor_name


def job_cancel(*, actor: Actor, job: Job, at: datetime) -> Job:
    """Cancel a job; cancelling it again changes nothing.

    Raises:
        NotFound: ``actor`` may not see it.
        NotAllowed: ``actor`` is neither its owner nor a lead of its queue.
        Conflict: It has completed or failed already.
    """
    with transaction.atomic():
        job = job_locked(actor, job)
        state = JobState(job.state)
        if state is JobState.CANCELLED or (job.wanted == "cancel" and state not in TERMINAL):
            return job
        refuse_ended(job)
        if state in (JobState.QUEUED, JobState.SUSPENDED):
            detail = f"Cancelled by {actor_name(actor)} while {state}."
            job_transition(
                job=job,
                to=JobState.CANCELLED,
                at=at,
                actor=actor_name(actor),
                reason="cancel",
                changes={"wanted": "cancel", "end_cause": EndCause.CANCELLED, "end_detail": detail},
            )
        else:
            _wish(actor, job, "cancel", "cancel", at=at)
        request_round("cancel")
    return job


def job_suspend(*, actor: Actor, job: Job, at: datetime) -> Job:
    """Suspend a job until it is resumed; suspending it again changes nothing. Raises as ``job_cancel`` does."""
    return _switch(actor, job, "suspend", at=at, wanted="suspend", of=JobState.QUEUED, to=JobState.SUSPENDED)


def job_resume(*, actor: Actor, job: Job, at: datetime) -> Job:
    """Resume a suspended job; resuming it again changes nothing. Raises as ``job_cancel`` does.

    One that is still stopping returns to its queue when it has stopped.
    """
    return _switch(actor, job, "resume", at=at, wanted="run", of=JobState.SUSPENDED, to=JobState.QUEUED)


def _switch(actor: Actor, job: Job, reason: str, *, at: datetime, wanted: str, of: JobState, to: JobState) -> Job:
    """Move a job in state ``of`` at once; a job in another state is asked to."""
    with transaction.atomic():
        job = job_locked(actor, job)
        refuse_ended(job)
        refuse_cancelled(job)
        if job.wanted == wanted:
            return job
        if job.state == of:
            job_transition(job=job, to=to, at=at, actor=actor_name(actor), reason=reason, changes={"wanted": wanted})
        else:
            _wish(actor, job, reason, wanted, at=at)
        request_round(reason)
    return job


def job_locked(actor: Actor, job: Job) -> Job:
    """Return the job as it is now, locked until the commit, if ``actor`` may act on it."""
    seen = require_job(actor, job.pk)
    if not may_act_on_job(actor, seen):
        raise NotAllowed(f"Only its owner and leads of {seen.queue.name} may do this with J-{seen.number}.")
    return Job.objects.select_for_update(of=("self",)).select_related("queue", "owner").get(pk=seen.pk)


def refuse_ended(job: Job) -> None:
    """Raise Conflict for a job that has ended."""
    if JobState(job.state) in TERMINAL:
        raise Conflict(f"J-{job.number} has ended already: it is {job.state}.")


def refuse_cancelled(job: Job) -> None:
    """Raise Conflict for a job that is being cancelled."""
    if job.wanted == "cancel":
        raise Conflict(f"J-{job.number} is being cancelled.")


def _wish(actor: Actor, job: Job, reason: str, wanted: str, *, at: datetime) -> None:
    """Write a user's request for a job that holds GPUs, and clear its idle time."""
    changes = {"wanted": wanted, "idle_since": None}
    job_event(job=job, kind="job_wanted", at=at, actor=actor_name(actor), reason=reason, changes=changes)
