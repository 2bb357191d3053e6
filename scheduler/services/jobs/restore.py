"""Undoes the cancel of a waiting job, which keeps its number, waiting time and checkpoint."""

from datetime import datetime

from django.db import transaction

from scheduler.core.model.errors import Conflict
from scheduler.core.model.lifecycle import JobState
from scheduler.core.spec.spec import JobSpec
from scheduler.models import Job
from scheduler.notify import request_round, touch_queue
from scheduler.selectors.jobs.restoring import UNDO_S, WAITED, restored_state
from scheduler.selectors.visibility import Actor
from scheduler.services.jobs.cancel_suspend_resume import job_locked
from scheduler.services.jobs.check import spec_check_of
from scheduler.services.jobs.state import job_transition
from scheduler.services.permission import actor_name


def job_restore(*, actor: Actor, job: Job, at: datetime) -> Job:
    """Undo the cancel of a job; undoing it again changes nothing.

    Raises:
        NotFound: ``actor`` may not see it.
        NotAllowed: ``actor`` is neither its owner nor a lead of its queue.
        Conflict: It was not cancelled while it waited, or too long ago.
        SpecInvalid: Its owner could not submit it now.
    """
    with transaction.atomic():
        job = job_locked(actor, job)
        if job.state in WAITED:
            return job
        to = restored_state(job, at)
        if to is None:
            raise Conflict(
                f"J-{job.number} is {job.state}. Only a cancel of a job that waited can be taken back, "
                f"within {UNDO_S / 60:.0f} min."
            )
        spec_check_of(job, JobSpec.parse(job.spec), actor=job.owner)
        wanted = "run" if to is JobState.QUEUED else "suspend"
        job_transition(job=job, to=to, at=at, actor=actor_name(actor), reason="restore", changes={"wanted": wanted})
        touch_queue(job.queue_id)
        request_round("restore")
    return job
