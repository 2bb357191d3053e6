"""What a job has kept of its work: its newest checkpoint, and the run time since in which it trained."""

from datetime import datetime
from typing import Any

from scheduler.core.model.lifecycle import JobState
from scheduler.core.operations.kept import KeepsWork, Kept
from scheduler.models import Attempt, Job
from scheduler.selectors.times import seconds_between


def keeps_work(job: Job, newest: Attempt | None) -> KeepsWork | None:
    """Return whether a job writes checkpoints that are known of; None before it has run."""
    if newest is None or newest.started_at is None:
        return "checkpoints" if job.checkpoint_name else None
    # A job that has said where it starts reads requests, so it is asked for a checkpoint before it is stopped.
    return "checkpoints" if job.checkpoint_name or newest.first_step is not None else "unknown"


def job_kept(job: Job, newest: Attempt | None, at: datetime) -> Kept:
    """Return what is kept of a job's work and what its end would lose.

    Args:
        job: The job.
        newest: Its newest attempt, if any.
        at: Now.
    """
    saved_at = job.checkpoint_at
    # An attempt that ended, but not its job with it, has told its loss then: the job waits, or was cancelled later.
    is_past = newest is not None and newest.ended_at is not None and newest.end_cause != job.end_cause
    return Kept(
        keeps_work=keeps_work(job, newest),
        has_checkpoint=bool(job.checkpoint_name),
        step=job.checkpoint_step,
        saved_s_ago=None if saved_at is None else seconds_between(saved_at, at),
        at_stake_s=None if is_past else 0.0 if newest is None else lost_s(job, newest, newest.ended_at or at),
        is_over=newest is not None and newest.ended_at is not None,
        is_complete=job.state == JobState.COMPLETED,
    )


def lost_s(job: Job, attempt: Attempt, at: datetime) -> float:
    """Return the run time of an attempt since its newest checkpoint, or its start, in which steps were trained."""
    if attempt.started_at is None:
        return 0.0
    is_own = job.checkpoint_attempt_id == attempt.pk and job.checkpoint_at is not None
    since_step = job.checkpoint_step if is_own else attempt.first_step
    if not _has_trained(job, step=attempt.last_step, since_step=since_step):
        return 0.0
    since = job.checkpoint_at if is_own and job.checkpoint_at is not None else attempt.started_at
    return seconds_between(since, at)


def _has_trained(job: Job, *, step: int | None, since_step: int | None) -> bool:
    """Return whether an attempt that tells of ``step`` trained any since another; one that never tells may have."""
    if step is None:
        return since_step is None and job.step is None and job.checkpoint_step is None
    return since_step is None or step > since_step


def kept_sentence(job: Job, at: datetime) -> str:
    """Return what is kept of a job's work and what is lost; reads its newest attempt."""
    return job_kept(job, job.attempts.order_by("-number").first(), at).sentence


def kept_by_agent(said: dict[str, Any], at: datetime) -> tuple[int, Kept] | None:
    """Return the number of a job whose attempt was stopped by its agent alone, and what is kept of its work.

    Args:
        said: What ``agents.supervisor.stop --json`` says of the attempt: no report of it has been applied yet.
        at: Now.

    Returns:
        None for an attempt that is not known, such as one process of a gang beside its leader.
    """
    attempt = Attempt.objects.select_related("job").filter(pk=said["attempt"]).first()
    if attempt is None:
        return None
    job, own = attempt.job, said["checkpoint"]
    earlier_s = None if job.checkpoint_at is None else seconds_between(job.checkpoint_at, at)
    since_step = own["step"] if own else said["first_step"]
    has_trained = _has_trained(job, step=said["step"], since_step=since_step)
    return job.number, Kept(
        keeps_work="checkpoints" if own or job.checkpoint_name or said["first_step"] is not None else "unknown",
        has_checkpoint=bool(own or job.checkpoint_name),
        step=own["step"] if own else job.checkpoint_step,
        saved_s_ago=own["age_s"] if own else earlier_s,
        at_stake_s=0.0 if not has_trained else own["age_s"] if own else said["run_s"],
        is_over=True,
    )
