"""Does with a whole array what is done with one job: cancels what has not ended, tries again what failed."""

import contextlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from django.contrib.auth.models import User
from django.db import transaction

from agents.protocol.ports import Ids
from scheduler.core.model.errors import Conflict, JobChanged, NotAllowed
from scheduler.core.model.lifecycle import TERMINAL, EndCause, JobState
from scheduler.core.spec.array import JobArray
from scheduler.core.spec.spec import JobSpec
from scheduler.models import Job
from scheduler.notify import request_round
from scheduler.selectors.jobs.many.arrays import array_jobs
from scheduler.selectors.visibility import Actor, access_of, may_act_on_job
from scheduler.services.jobs.cancel_suspend_resume import job_cancel
from scheduler.services.jobs.check import spec_check
from scheduler.services.jobs.state import Move, jobs_transition
from scheduler.services.jobs.submit import jobs_store, submits_wait
from scheduler.services.permission import actor_name


def array_cancel(*, actor: Actor, key: str, at: datetime) -> list[Job]:
    """Cancel all jobs of an array that have not ended; return its jobs as they are then.

    Raises:
        NotFound: ``actor`` may not see it.
        NotAllowed: ``actor`` is neither its owner nor a lead of its queue.
    """
    jobs, access = array_jobs(actor, key), access_of(actor)
    mine = [job for job in jobs if may_act_on_job(actor, job, access)]
    if not mine:
        raise NotAllowed(f"Only its owner and leads of {jobs[0].queue.name} may cancel {key}.")
    going = [job for job in mine if job.state not in TERMINAL and job.wanted != "cancel"]
    waiting = [job for job in going if job.state in (JobState.QUEUED, JobState.SUSPENDED)]
    detail = f"Cancelled with its array by {actor_name(actor)} while {{}}."
    moves = [
        Move(
            job=job,
            to=JobState.CANCELLED,
            changes={
                "wanted": "cancel",
                "end_cause": EndCause.CANCELLED,
                "end_detail": detail.format(JobState(job.state)),
            },
        )
        for job in waiting
    ]
    moved: set[str] = set()
    with contextlib.suppress(JobChanged):  # those that changed meanwhile are cancelled one by one
        moved = {job.pk for job in jobs_transition(moves=moves, at=at, actor=actor_name(actor), reason="cancel")}
    for job in going:
        if job.pk not in moved:
            with contextlib.suppress(Conflict):  # it has ended meanwhile
                job_cancel(actor=actor, job=job, at=at)
    request_round("cancel")
    return array_jobs(actor, key)


def array_retry(*, actor: Actor, key: str, at: datetime, ids: Ids) -> list[Job]:
    """Submit the jobs of an array that failed once more, in the same array; return its jobs as they are then.

    Of several requests at once one submits; the others find that nothing has failed any more, and change nothing.
    Each is a new job with the spec, the index and the array of the failed one; dependencies were met before.

    Raises:
        NotFound: ``actor`` may not see it.
        NotAllowed: ``actor`` is not its owner, or may no longer submit there.
        Conflict: None of its jobs has failed.
        SpecInvalid: The owner could not submit them now.
    """
    jobs = array_jobs(actor, key)
    if not isinstance(actor, User) or any(job.owner_id != actor.pk for job in jobs):
        raise NotAllowed(f"Only its owner, {jobs[0].owner.username}, may submit jobs of this array again.")
    if not _failed(jobs):
        raise Conflict(f"No job of A-{jobs[0].array_number} has failed.")
    with transaction.atomic():
        submits_wait()
        if failed := _failed(array_jobs(actor, key)):
            specs = [spec_check(actor=actor, spec=spec) for spec in _specs_of(failed)]
            jobs_store([replace(checked, again=jobs[0].array_number) for checked in specs], at=at, ids=ids)
    return array_jobs(actor, key)


def _failed(jobs: Sequence[Job]) -> list[Job]:
    return [job for job in jobs if job.state == JobState.FAILED]


def _specs_of(failed: Sequence[Job]) -> list[JobSpec]:
    """Return the specs of failed jobs, each with the indexes that had it: the request of one may have been changed."""
    indexes: dict[str, list[int]] = defaultdict(list)
    specs: dict[str, JobSpec] = {}
    for job in Job.objects.filter(pk__in=[job.pk for job in failed]).order_by("array_index"):
        spec = JobSpec.parse(job.spec)
        specs.setdefault(repr(spec), spec)
        indexes[repr(spec)].append(job.array_index or 0)
    found = []
    for text, spec in specs.items():
        array = spec.array or JobArray("", ())
        found.append(replace(spec, array=replace(array, indexes=tuple(indexes[text])), depends_on=()))
    return found
