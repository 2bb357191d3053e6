"""What users do with jobs: submit, cancel, suspend, resume.

A job that holds no GPU moves at once. For a job that holds GPUs the wish is written (``Job.wanted``); the engine, asked
for an early round, makes it so.
"""

from datetime import datetime

from django.db import transaction
from django.db.models import F

from agents.protocol.ports import Ids
from scheduler.core.model.errors import Conflict, NotAllowed
from scheduler.core.model.lifecycle import TERMINAL, EndCause, JobState
from scheduler.core.model.plan import WaitReason
from scheduler.core.spec.spec import JobSpec
from scheduler.models import Cluster, Event, Job
from scheduler.notify import request_round, touch_job, touch_queue
from scheduler.selectors.visibility import Actor, may_act_on_job, require_job
from scheduler.services.cluster.settings import cluster_row
from scheduler.services.jobs.check import CheckedSpec, job_check, spec_check
from scheduler.services.jobs.profiles import profile_for
from scheduler.services.jobs.state import job_event, job_transition
from scheduler.services.permission import actor_name


def job_submit(*, actor: Actor, spec: JobSpec, at: datetime, ids: Ids) -> Job:
    """Store a new job in state queued and ask for a round.

    Raises:
        SpecInvalid: The queue, profile or size is no longer possible.
        NotAllowed: Not signed in, or only a viewer of the queue.
    """
    smoke_run_s = cluster_row().smoke_run_s
    with transaction.atomic():
        number = _next_number()  # first: from here on no queue gets queues under it, see queue_create
        job = _new_job(spec_check(actor=actor, spec=spec), number=number, at=at, ids=ids)
        job.smoke_due = smoke_run_s > 0 and job.num_gpus > 1
        job.save(force_insert=True)
        Event.objects.create(
            at=at,
            kind="job_state",
            actor=actor_name(actor),
            job=job,
            number=1,
            queue_id=job.queue_id,
            new_state=JobState.QUEUED,
            reason="submit",
            data={"num_gpus": job.num_gpus},
        )
        touch_job(job.pk)
        touch_queue(job.queue_id)
        request_round("submit")
    return job


def job_cancel(*, actor: Actor, job: Job, at: datetime) -> Job:
    """End a job for good; asking again changes nothing.

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
            _wish(actor, job, "cancel", at=at)
        request_round("cancel")
    return job


def job_suspend(*, actor: Actor, job: Job, at: datetime) -> Job:
    """Pause a job until it is resumed; asking again changes nothing. Raises as ``job_cancel`` does."""
    with transaction.atomic():
        job = job_locked(actor, job)
        refuse_ended(job)
        refuse_cancelled(job)
        if job.wanted == "suspend":
            return job
        if job.state == JobState.QUEUED:
            job_transition(
                job=job,
                to=JobState.SUSPENDED,
                at=at,
                actor=actor_name(actor),
                reason="suspend",
                changes={"wanted": "suspend"},
            )
        else:
            _wish(actor, job, "suspend", at=at)
        request_round("suspend")
    return job


def job_resume(*, actor: Actor, job: Job, at: datetime) -> Job:
    """Let a paused job run again; asking again changes nothing. Raises as ``job_cancel`` does."""
    with transaction.atomic():
        job = job_locked(actor, job)
        refuse_ended(job)
        refuse_cancelled(job)
        if job.wanted == "run":
            return job
        if job.state == JobState.SUSPENDED:
            job_transition(
                job=job,
                to=JobState.QUEUED,
                at=at,
                actor=actor_name(actor),
                reason="resume",
                changes={"wanted": "run"},
            )
        else:
            _wish(actor, job, "run", at=at)  # it is still on its way out: it goes back to its queue, not to suspended
        request_round("resume")
    return job


def _next_number() -> int:
    """Take the next job number; the row stays locked until the commit, so there are neither twins nor gaps."""
    Cluster.objects.filter(pk=1).update(next_job_number=F("next_job_number") + 1)
    return Cluster.objects.values_list("next_job_number", flat=True).get(pk=1) - 1


def _new_job(checked: CheckedSpec, *, number: int, at: datetime, ids: Ids) -> Job:
    spec = checked.spec
    return Job(
        id=ids.ulid(at),
        number=number,
        name=spec.name,
        queue=checked.queue,
        owner=checked.owner,
        spec=spec.to_json(),
        num_gpus=spec.resources.gpus,
        priority=spec.schedule.priority,
        preemptible=spec.schedule.preemptible,
        max_attempts=1 + spec.retry.max,
        profile=checked.profile or profile_for(spec),
        total_steps=spec.progress.total_steps,
        state=JobState.QUEUED,
        state_changed_at=at,
        event_count=1,
        wait_reason=WaitReason.NEW,
        wait_since=at,
        told_at=at,
        submitted_at=at,
    )


def job_locked(actor: Actor, job: Job) -> Job:
    """Return the job as it is now, locked until the commit, if ``actor`` may act on it."""
    seen = require_job(actor, job.pk)
    if not may_act_on_job(actor, seen):
        raise NotAllowed(f"Only its owner and leads of {seen.queue.name} may do this with J-{seen.number}.")
    return Job.objects.select_for_update(of=("self",)).select_related("queue", "owner").get(pk=seen.pk)


def refuse_ended(job: Job) -> None:
    """Raise Conflict for a job that is over."""
    if JobState(job.state) in TERMINAL:
        raise Conflict(f"J-{job.number} has ended already: it is {job.state}.")


def refuse_cancelled(job: Job) -> None:
    """Raise Conflict for a job that is on its way to be cancelled."""
    if job.wanted == "cancel":
        raise Conflict(f"J-{job.number} is being cancelled.")


def _wish(actor: Actor, job: Job, wanted: str, *, at: datetime) -> None:
    """Write what the owner wants of a job that holds GPUs; whatever it is, it is not for their standing idle."""
    job_event(
        job=job,
        kind="job_wanted",
        at=at,
        actor=actor_name(actor),
        reason="resume" if wanted == "run" else wanted,
        changes={"wanted": wanted, "idle_since": None},
    )


__all__ = ["job_cancel", "job_check", "job_resume", "job_submit", "job_suspend"]
