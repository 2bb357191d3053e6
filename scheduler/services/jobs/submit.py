"""Submits a job: stores it in state queued and asks for a round."""

from datetime import datetime

from django.db import transaction
from django.db.models import F

from agents.protocol.ports import Ids
from scheduler.core.model.lifecycle import JobState
from scheduler.core.model.plan import WaitReason
from scheduler.core.spec.spec import JobSpec
from scheduler.models import Cluster, Event, Job
from scheduler.notify import request_round, touch_job, touch_queue
from scheduler.selectors.visibility import Actor
from scheduler.services.cluster.settings import cluster_row
from scheduler.services.jobs.check import CheckedSpec, spec_check
from scheduler.services.jobs.profiles import profile_for
from scheduler.services.permission import actor_name


def job_submit(*, actor: Actor, spec: JobSpec, at: datetime, ids: Ids) -> Job:
    """Store a new job in state queued and ask for a round.

    Raises:
        SpecInvalid: The queue, profile or size is no longer possible.
        NotAllowed: Not signed in, or only a viewer of the queue.
    """
    smoke_run_s = cluster_row().smoke_run_s
    with transaction.atomic():
        number = _next_number()  # first: its lock keeps queue_create from adding queues below this one
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


def _next_number() -> int:
    """Take the next job number; the row stays locked until the commit, so numbers have neither duplicates nor gaps."""
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
