"""When GPUs of each server are free again, by how far the jobs on it are.

A job that has not told how far it goes has no end here, and neither has its server: nothing is guessed.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Annotated, TypedDict

from django.db.models import Count, Q

from scheduler.core.operations.time_left import moment_after, time_left_s
from scheduler.models import Job, LeaseGpu, Server
from scheduler.models.server import ServerState
from scheduler.selectors.evidence import job_shown
from scheduler.selectors.rows import Moment, ShownJob
from scheduler.selectors.times import iso
from scheduler.selectors.visibility import Access, Actor, access_of


class GpuEndRow(TypedDict):
    """GPUs of one server that are free once a job ends."""

    at: Moment
    num_gpus: Annotated[int, "Free from then on, beside those that were free before."]
    job: Annotated[ShownJob, "The job that ends then."]


class NextFreeRow(TypedDict):
    """When one server that takes jobs is free."""

    server: str
    num_gpus: Annotated[int, "Healthy ones."]
    free_gpus: Annotated[int, "Now."]
    ends: Annotated[list[GpuEndRow], "Soonest first; without GPUs of which it is not known."]
    first_at: Annotated[Moment | None, "When the first of its jobs ends; null: unknown, or it has none."]
    whole_at: Annotated[Moment | None, "When its last job ends; null: unknown, or it has none."]
    last_job: Annotated[ShownJob | None, "The job that ends last."]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    job: ShownJob
    ends_at: datetime | None


def next_free(user: Actor, at: datetime) -> list[NextFreeRow]:
    """Return the servers that take jobs, by when they are wholly free: free ones first, unknown ones last."""
    if not (user.is_authenticated and user.is_active):
        return []
    is_healthy = Q(gpus__healthy=True)
    servers = (
        Server.objects.filter(state=ServerState.UP)
        .order_by("number")
        .annotate(healthy=Count("gpus", filter=is_healthy, distinct=True))
        .values_list("pk", "name", "healthy")
    )
    on = _held_by_gpu(access_of(user), at)
    rows = [_row(name, num_gpus=healthy, on=on.get(pk, {})) for pk, name, healthy in servers if healthy]
    return sorted(rows, key=lambda row: (row["free_gpus"] < row["num_gpus"], row["whole_at"] or "~"))


def _held_by_gpu(access: Access, at: datetime) -> dict[str, dict[int, list[_Held]]]:
    """Return the jobs on each healthy GPU that is held, by server, by two queries."""
    leases = LeaseGpu.objects.filter(released_at__isnull=True, gpu__healthy=True)
    seats = list(leases.values_list("lease__server_id", "gpu_id", "lease__attempt__job_id"))
    jobs = Job.objects.filter(pk__in={job for _, _, job in seats}).select_related("queue").defer("spec")
    held = {job.pk: _held(job, access, at) for job in jobs}
    found: dict[str, dict[int, list[_Held]]] = defaultdict(lambda: defaultdict(list))
    for server, gpu, job in seats:
        found[server][gpu].append(held[job])
    return found


def _held(job: Job, access: Access, at: datetime) -> _Held:
    left_s = time_left_s(step=job.step, total_steps=job.total_steps, steps_per_s=job.steps_per_s)
    return _Held(job=job_shown(job, access), ends_at=moment_after(at, left_s))


def _end_of(held: _Held) -> tuple[str, int]:
    """Return when a job ends, and which it is; jobs that the reader may not see are one."""
    return str(held.ends_at), held.job["number"] or 0


def _row(name: str, *, num_gpus: int, on: Mapping[int, Sequence[_Held]]) -> NextFreeRow:
    # A GPU that jobs share is free once the last of them ends.
    lasts = [max(held, key=lambda one: (one.ends_at is None, str(one.ends_at))) for held in on.values()]
    known = sorted((one for one in lasts if one.ends_at), key=_end_of)
    last = known[-1] if known and len(known) == len(lasts) else None
    first_at = min((one.ends_at for held in on.values() for one in held if one.ends_at), default=None)
    ends = [[*same] for _, same in groupby(known, key=_end_of)]
    return {
        "server": name,
        "num_gpus": num_gpus,
        "free_gpus": num_gpus - len(on),
        "ends": [
            {"at": iso(at), "num_gpus": len(same), "job": same[0].job} for same in ends if (at := same[0].ends_at)
        ],
        "first_at": iso(first_at),
        "whole_at": iso(last.ends_at) if last else None,
        "last_job": last.job if last else None,
    }
