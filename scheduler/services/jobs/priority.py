"""Changes the priority of a job that has not ended."""

from datetime import datetime

from django.db import transaction

from scheduler.core.spec.spec import JobSpec
from scheduler.models import Job
from scheduler.notify import request_round
from scheduler.selectors.visibility import Actor
from scheduler.services.jobs.cancel_suspend_resume import job_locked, refuse_cancelled, refuse_ended
from scheduler.services.jobs.state import job_event
from scheduler.services.permission import actor_name


def job_reprioritise(*, actor: Actor, job: Job, priority: int, at: datetime) -> Job:
    """Change the priority of a job from the next round on; an equal priority changes nothing.

    A running job keeps its GPUs until a round decides otherwise.

    Args:
        priority: As in a spec; larger first, under policies that use it.

    Raises:
        NotFound: ``actor`` may not see it.
        NotAllowed: ``actor`` is neither its owner nor a lead of its queue.
        Conflict: It has ended or is being cancelled.
        SpecInvalid: Out of range.
    """
    with transaction.atomic():
        job = job_locked(actor, job)
        refuse_ended(job)
        refuse_cancelled(job)
        before = JobSpec.parse(job.spec)
        data = before.to_json()
        data["schedule"]["priority"] = priority
        spec = JobSpec.parse(data)
        if spec == before:
            return job
        job_event(
            job=job,
            kind="job_changed",
            at=at,
            actor=actor_name(actor),
            reason="reprioritise",
            data={"priority": {"before": before.schedule.priority, "after": priority}},
            changes={"spec": spec.to_json(), "priority": priority},
        )
        request_round("change")
    return job
