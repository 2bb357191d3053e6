"""What a job has kept of its work: its newest checkpoint, and the run time since."""

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
    keeps, saved_at = keeps_work(job, newest), job.checkpoint_at
    if newest is None or newest.started_at is None:
        at_stake_s = 0.0
    else:
        is_own = job.checkpoint_attempt_id == newest.pk and saved_at is not None
        is_all = is_own and job.checkpoint_step is not None and job.checkpoint_step == newest.last_step
        since = saved_at if is_own and saved_at is not None else newest.started_at
        at_stake_s = 0.0 if is_all else seconds_between(since, newest.ended_at or at)
    return Kept(
        keeps_work=keeps,
        has_checkpoint=bool(job.checkpoint_name),
        step=job.checkpoint_step,
        saved_s_ago=None if saved_at is None else seconds_between(saved_at, at),
        at_stake_s=at_stake_s,
        is_over=newest is not None and newest.ended_at is not None,
        is_complete=job.state == JobState.COMPLETED,
    )


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
    is_all = own is not None and own["step"] is not None and own["step"] == said["step"]
    return job.number, Kept(
        keeps_work="checkpoints" if own or job.checkpoint_name or said["reads_requests"] else "unknown",
        has_checkpoint=bool(own or job.checkpoint_name),
        step=own["step"] if own else job.checkpoint_step,
        saved_s_ago=own["age_s"] if own else earlier_s,
        at_stake_s=0.0 if is_all else own["age_s"] if own else said["run_s"],
        is_over=True,
    )
