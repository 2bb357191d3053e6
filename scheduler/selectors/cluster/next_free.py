"""When GPUs of each server are free again, by how far the jobs on it are.

A job that has not told how far it goes has no end here, and neither has its server: nothing is guessed.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, TypedDict

from django.db.models import Count, Q

from scheduler.core.operations.time_left import moment_after, time_left_s
from scheduler.models import LeaseGpu, Server
from scheduler.models.server import ServerState
from scheduler.selectors.evidence import job_shown
from scheduler.selectors.rows import Moment, ShownJob
from scheduler.selectors.times import iso
from scheduler.selectors.visibility import Access, Actor, access_of


class NextFreeRow(TypedDict):
    """When one server that takes jobs is free."""

    server: str
    num_gpus: Annotated[int, "Healthy ones."]
    free_gpus: Annotated[int, "Now."]
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
    is_held = Q(gpus__healthy=True, gpus__leases__isnull=False, gpus__leases__released_at__isnull=True)
    servers = (
        Server.objects.filter(state=ServerState.UP)
        .order_by("number")
        .annotate(
            healthy=Count("gpus", filter=Q(gpus__healthy=True), distinct=True),
            held=Count("gpus", filter=is_held, distinct=True),
        )
    )
    on = _jobs_on(access_of(user), at)
    rows = [
        _row(name, num_gpus=healthy, held_gpus=held, jobs=on.get(pk, ()))
        for pk, name, healthy, held in servers.values_list("pk", "name", "healthy", "held")
        if healthy
    ]
    return sorted(rows, key=lambda row: (row["free_gpus"] < row["num_gpus"], row["whole_at"] or "~"))


def _jobs_on(access: Access, at: datetime) -> dict[str, list[_Held]]:
    """Return the jobs on each server, by one query."""
    leases = LeaseGpu.objects.filter(released_at__isnull=True).select_related("lease__attempt__job__queue")
    found: dict[str, dict[str, _Held]] = defaultdict(dict)
    for held in leases.defer("lease__attempt__job__spec"):
        job = held.lease.attempt.job
        if job.pk not in found[held.lease.server_id]:
            left_s = time_left_s(step=job.step, total_steps=job.total_steps, steps_per_s=job.steps_per_s)
            ends_at = moment_after(at, left_s)
            found[held.lease.server_id][job.pk] = _Held(job=job_shown(job, access), ends_at=ends_at)
    return {server: list(jobs.values()) for server, jobs in found.items()}


def _row(name: str, *, num_gpus: int, held_gpus: int, jobs: Sequence[_Held]) -> NextFreeRow:
    known = sorted((held for held in jobs if held.ends_at), key=lambda held: str(held.ends_at))
    last = known[-1] if known and len(known) == len(jobs) else None
    return {
        "server": name,
        "num_gpus": num_gpus,
        "free_gpus": num_gpus - held_gpus,
        "first_at": iso(known[0].ends_at) if known else None,
        "whole_at": iso(last.ends_at) if last else None,
        "last_job": last.job if last else None,
    }
