"""Submits jobs: stores them in state queued and asks for a round."""

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction
from django.db.models import F

from agents.protocol.ports import Ids
from scheduler.core.model.errors import FieldError, SpecInvalid
from scheduler.core.model.lifecycle import JobState
from scheduler.core.model.plan import WaitReason
from scheduler.core.spec.depends_on import dependencies_text
from scheduler.core.spec.limits import ARRAY_JOBS, NAME_CHARS
from scheduler.core.spec.spec import JobSpec
from scheduler.models import Cluster, Event, Job, Profile, Queue
from scheduler.notify import request_round, touch_jobs
from scheduler.selectors.visibility import Actor
from scheduler.services.code.folders import code_use
from scheduler.services.environments.rows import environment_of
from scheduler.services.jobs.check import CheckedSpec, jobs_by_queue, queued_errors, spec_check
from scheduler.services.jobs.profiles import profiles_for
from scheduler.services.permission import actor_name

# Jobs that one transaction stores: it keeps other writers waiting.
MOST_SUBMITTED = 500
# A user with room for fewer jobs than this is counted again where no other request can add one.
NEAR_A_LIMIT = 50


def job_submit(*, actor: Actor, spec: JobSpec, at: datetime, ids: Ids) -> Job:
    """Store a new job in state queued and ask for a round.

    Raises:
        SpecInvalid: The queue, profile or size is no longer possible.
        NotAllowed: Not signed in, or only a viewer of the queue.
    """
    return jobs_store([spec_check(actor=actor, spec=spec)], at=at, ids=ids)[0]


def jobs_store(checked: Sequence[CheckedSpec], *, at: datetime, ids: Ids) -> list[Job]:
    """Store checked jobs of one user in state queued, all or none, and ask for a round.

    Returns:
        A job for each spec; of an array its first.

    Raises:
        SpecInvalid: What was checked is no longer possible, or it is too much at once.
    """
    count = sum(one.spec.num_jobs for one in checked)
    if count > max(ARRAY_JOBS, len(checked)):
        detail = f"At most {ARRAY_JOBS} jobs may be stored at once, those of arrays included. These are {count}."
        raise SpecInvalid([FieldError(pointer="", code="length", detail=detail)])
    with transaction.atomic():
        profiles = profiles_for([one.spec for one in checked])
        # Its lock keeps ``queue_create`` from adding queues below these, and other submits from passing a limit.
        number = _take_numbers(count)
        _check_again(checked)
        code_use({one.spec.code.manifest for one in checked if one.spec.code is not None}, at=at)
        jobs: list[Job] = []
        firsts: list[Job] = []
        for one, profile in zip(checked, profiles, strict=True):
            of_spec = _new_jobs(one, first=number + len(jobs), profile=one.profile or profile, at=at, ids=ids)
            firsts.append(of_spec[0])
            jobs += of_spec
        Job.objects.bulk_create(jobs)
        Event.objects.bulk_create(_submitted(job, at=at) for job in jobs)
        touch_jobs([job.pk for job in jobs], sorted({job.queue_id for job in jobs}))
        request_round("submit")
    return firsts


def submits_wait() -> None:
    """Let every other submit wait until the present transaction ends, and see all that were committed before it."""
    _take_numbers(0)


def _take_numbers(count: int) -> int:
    """Take job numbers, return the first; the row stays locked until the commit: neither duplicates nor gaps."""
    Cluster.objects.filter(pk=1).update(next_job_number=F("next_job_number") + count)
    return Cluster.objects.values_list("next_job_number", flat=True).get(pk=1) - count


def _check_again(checked: Sequence[CheckedSpec]) -> None:
    """Check what others may have changed since. Raises SpecInvalid."""
    if Queue.objects.filter(parent__in={one.queue.pk for one in checked}).exists():
        for one in checked:
            spec_check(actor=one.owner, spec=one.spec)
    jobs = jobs_by_queue(checked)
    if min(one.may_queue for one in checked) < jobs.total() + NEAR_A_LIMIT:
        _, errors = queued_errors(checked[0].owner, jobs, checked[0].cluster)
        if errors:
            raise SpecInvalid(errors)


def _new_jobs(checked: CheckedSpec, *, first: int, profile: Profile | None, at: datetime, ids: Ids) -> list[Job]:
    """Return the jobs of a spec: one, or those of its array in the order of their indexes."""
    array = checked.spec.array
    if array is None:
        return [_new_job(checked, number=first, profile=profile, at=at, ids=ids)]
    jobs = []
    for number, index in enumerate(array.indexes, start=first):
        job = _new_job(checked, number=number, profile=profile, at=at, ids=ids)
        job.array_number, job.array_index, job.array_most = checked.again or first, index, array.most_at_work
        job.name = member_name(job.name, index)
        jobs.append(job)
    return jobs


def member_name(name: str, index: int) -> str:
    """Return the name of a job of an array."""
    return f"{name[: NAME_CHARS - len(f'-{index}')]}-{index}"


def _new_job(checked: CheckedSpec, *, number: int, profile: Profile | None, at: datetime, ids: Ids) -> Job:
    spec = checked.spec
    return Job(
        id=ids.ulid(at),
        number=number,
        name=spec.name,
        queue=checked.queue,
        owner=checked.owner,
        spec=spec.to_json(),
        names_secrets=bool(spec.secrets),
        num_gpus=spec.resources.gpus,
        priority=spec.schedule.priority,
        preemptible=spec.schedule.preemptible,
        max_attempts=1 + spec.retry.max,
        code=spec.code.manifest if spec.code is not None else "",
        environment=environment_of(spec, checked.queue, at=at),
        profile=profile,
        waits_for=dependencies_text(spec.depends_on),
        total_steps=spec.progress.total_steps,
        smoke_due=checked.cluster.smoke_run_s > 0 and spec.resources.gpus > 1,
        state=JobState.QUEUED,
        state_changed_at=at,
        event_count=1,
        wait_reason=WaitReason.NEW,
        wait_since=at,
        told_at=at,
        submitted_at=at,
    )


def _submitted(job: Job, *, at: datetime) -> Event:
    return Event(
        at=at,
        kind="job_state",
        actor=actor_name(job.owner),
        job=job,
        number=1,
        queue_id=job.queue_id,
        new_state=JobState.QUEUED,
        reason="submit",
        data={"num_gpus": job.num_gpus},
    )
