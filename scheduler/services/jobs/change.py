"""Changes what a waiting job asks for: queue, GPUs, servers, cores or memory. It keeps its id and its waiting time.

The changed spec is checked like a new one. A job that holds GPUs or is parked cannot be changed.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction

from scheduler.core.model.errors import Conflict, FieldError, SpecInvalid
from scheduler.core.model.lifecycle import JobState
from scheduler.core.model.plan import WaitReason
from scheduler.core.spec.spec import JobSpec
from scheduler.models import Job, Queue
from scheduler.models.queue import Role
from scheduler.notify import request_round, touch_queue
from scheduler.selectors.visibility import Actor, access_of
from scheduler.services.cluster.settings import cluster_row
from scheduler.services.environments.rows import environment_of
from scheduler.services.jobs.cancel_suspend_resume import job_locked
from scheduler.services.jobs.check import spec_check_of
from scheduler.services.jobs.profiles import profile_for
from scheduler.services.jobs.state import job_event
from scheduler.services.permission import actor_name
from scheduler.services.secrets.use import missing_errors

RESOURCES = ("gpus", "min_gpus", "max_servers", "cpus", "memory")
FIELDS = ("queue", *RESOURCES)
TOLD = (*RESOURCES, "max_gpus")  # which grows with the GPUs of an elastic job
CHANGEABLE = (JobState.QUEUED, JobState.SUSPENDED)

JobChange = Mapping[str, Any]  # new values by name of a field, of FIELDS


def job_change(*, actor: Actor, job: Job, change: JobChange, at: datetime) -> Job:
    """Change what a waiting job asks for; an equal request changes nothing.

    Raises:
        NotFound: ``actor`` may not see it.
        NotAllowed: ``actor`` is neither its owner nor a lead of its queue, or may not submit to the new queue.
        Conflict: It does not wait.
        SpecInvalid: The changed spec could not be submitted; pointers are into the spec.
    """
    with transaction.atomic():
        job = job_locked(actor, job)
        if job.state not in CHANGEABLE or job.wanted == "cancel":
            raise Conflict(f"J-{job.number} is {job.state}. Only a job that waits can be changed.")
        before = JobSpec.parse(job.spec)
        spec = spec_changed(before, change)
        if spec == before:
            return job
        checked = spec_check_of(job, spec, actor=actor)
        _check_owner(job.owner, checked.queue)
        missing = missing_errors(owner=job.owner, queue=checked.queue, uses=spec.secrets)
        if missing:
            raise SpecInvalid(missing)
        columns = _columns(job, spec, checked.queue)
        if checked.queue.pk != job.queue_id:
            columns["environment"] = environment_of(spec, checked.queue, at=at)
        job_event(
            job=job,
            kind="job_changed",
            at=at,
            actor=actor_name(actor),
            reason="change",
            data=_told(before, spec) | _moved(job.queue_id, checked.queue.pk),
            changes=columns,
        )
        touch_queue(checked.queue.pk)
        request_round("change")
    return job_locked(actor, job)


def spec_changed(spec: JobSpec, change: JobChange) -> JobSpec:
    """Return the spec with new values; a rigid job stays rigid, the bounds of an elastic one keep its GPUs inside.

    Raises:
        SpecInvalid: Out of range.
    """
    data = spec.to_json()
    resources = data["resources"]
    is_rigid = spec.resources.min_gpus is None and spec.resources.max_gpus is None
    resources |= {name: value for name, value in change.items() if name in RESOURCES}
    if "gpus" in change and "min_gpus" not in change:
        resources["min_gpus"] = None if is_rigid else min(resources["min_gpus"], change["gpus"])
    if "gpus" in change:
        resources["max_gpus"] = None if is_rigid else max(resources["max_gpus"], change["gpus"])
    if "queue" in change:
        data["queue"] = change["queue"]
    return JobSpec.parse(data)


def _told(before: JobSpec, after: JobSpec) -> dict[str, Any]:
    """Return the changed resources for the event."""
    old, new = before.to_json()["resources"], after.to_json()["resources"]
    return {name: {"before": old[name], "after": new[name]} for name in TOLD if old[name] != new[name]}


def _moved(before: int, after: int) -> dict[str, Any]:
    """Return the changed queue for the event, by id: not every user sees both queues."""
    return {} if before == after else {"queue_id": {"before": before, "after": after}}


def _check_owner(owner: User, queue: Queue) -> None:
    """Refuse a queue to which the job's owner may not submit: they would lose access to the job."""
    if not access_of(owner).at_least(queue.pk, Role.MEMBER):
        detail = f"{owner.username}, whose job it is, may not submit to {queue.name}."
        raise SpecInvalid([FieldError(pointer="/queue", code="not_allowed", detail=detail)])


def _columns(job: Job, spec: JobSpec, queue: Queue) -> dict[str, Any]:
    """Return the columns that follow from the spec; the next round sets the wait reason."""
    gpus = spec.resources.gpus
    smoke_due = job.smoke_due or (job.first_started_at is None and cluster_row().smoke_run_s > 0)
    columns: dict[str, Any] = {
        "spec": spec.to_json(),
        "queue_id": queue.pk,
        "num_gpus": gpus,
        "smoke_due": smoke_due and gpus > 1,
        "wait_position": None,
    }
    if job.state == JobState.QUEUED:
        columns |= {"wait_reason": WaitReason.NEW, "wait_evidence": {}}
    if job.profile_id is None and not spec.profile:
        columns["profile"] = profile_for(spec)
    return columns
