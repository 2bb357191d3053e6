"""Decides which servers are to have which Python environment, from the database alone, each second.

An environment is wanted where it is, or is being built, as long as a job needs it. A server is asked anew when a job
waits and no server that has it, or builds it, could take the job: first the one with the most free GPUs. So a job whose
environment is kept somewhere waits for nothing, equal jobs wait for one build, and a build goes on while anything waits
for it. While none is being built and the job still waits for one with room, one server more is asked.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.db.models import Count, Q, Sum

from scheduler.core.model.lifecycle import TERMINAL, EndCause, JobState
from scheduler.core.model.plan import WaitReason
from scheduler.live.steps import for_each
from scheduler.models import Job, Lease, Server, ServerEnvironment
from scheduler.models.server import EnvironmentState, ServerState
from scheduler.selectors.cluster.environments import tried_again_after
from scheduler.services.jobs.state import job_transition

# States of an environment that a server is still to make ready.
COMING = frozenset({EnvironmentState.ASKED, EnvironmentState.WAITING, EnvironmentState.BUILDING})
NEEDS_NONE = sorted(TERMINAL | {JobState.SUSPENDED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A server that can build environments, with its healthy GPUs and those of them that no lease holds."""

    server_id: str
    number: int
    num_gpus: int
    free_gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingJob:
    """A job that waits; ``lacks_room`` if the last round found no room for it where its environment is."""

    job_id: str
    num_gpus: int
    max_servers: int
    queue_id: int
    lacks_room: bool


def environments_step(*, barred: Callable[[], Iterable[tuple[int, int]]], at: datetime) -> set[str]:
    """End jobs whose environment cannot be built, and make the rows say what is wanted.

    Args:
        barred: Returns pairs of queue and number of a server on which its jobs may not start.
        at: Now.

    Returns:
        The servers whose desired state changed by it.
    """
    is_wanted = ServerEnvironment.objects.filter(is_wanted=True).exists()
    if is_wanted:
        _failed_end(at=at)
    needed = Job.objects.exclude(environment=None).exclude(state__in=NEEDS_NONE)
    if not is_wanted and not needed.exists():
        return set()
    ServerEnvironment.objects.exclude(server__state__in=[ServerState.UP, ServerState.DRAINING]).delete()
    tell = _unwant(set(needed.values_list("environment", flat=True)))
    waiting = _waiting()
    if waiting:
        closed = frozenset(barred())
        places = _places()
        for digest, jobs in waiting.items():
            tell |= _want(digest, jobs, places, closed, at=at)
    return tell


def _failed_end(*, at: datetime) -> None:
    """End the jobs that never ran and whose environment cannot be built on any server; none is retried.

    A job that has run has work to lose, and its environment could be built once: it waits, and a new try is made. So
    does every job while no server found its files to blame: an index that does not answer, a full disk.
    """
    failed = ServerEnvironment.objects.filter(state=EnvironmentState.FAILED, is_wanted=True).order_by("pk")
    for row in failed.select_related("server", "environment"):
        # Tried again also where other servers have it, since they may be too small for a job. ``abs``: a clock that
        # was years ahead at the failure must not put that off for years.
        if abs(at - row.changed_at) >= tried_again_after(row):
            row.delete()
        others = ServerEnvironment.objects.filter(environment=row.environment_id, is_wanted=True)
        if row.is_passing or others.exclude(state=EnvironmentState.FAILED).exists():
            continue
        jobs = Job.objects.filter(environment=row.environment_id, state=JobState.QUEUED).order_by("number")
        for_each(list(jobs.filter(attempts=None)), lambda job, row=row: _fail(job, row, at=at))  # type: ignore[misc]


def _fail(job: Job, row: ServerEnvironment, *, at: datetime) -> None:
    job_transition(
        job=job,
        to=JobState.FAILED,
        at=at,
        actor=f"agent {row.server.name}",
        reason=EndCause.ENVIRONMENT,
        data={"detail": row.detail, "server": row.server.name, "log": row.tail},
        changes={"end_cause": EndCause.ENVIRONMENT, "end_detail": row.detail},
    )


def _unwant(needed: set[str | None]) -> set[str]:
    """Forget what no job needs any more; return the servers to tell. What is whole stays in the cache."""
    rows = ServerEnvironment.objects.filter(is_wanted=True).exclude(environment__in=[one for one in needed if one])
    tell = set(rows.values_list("server", flat=True))
    if tell:
        with transaction.atomic():
            rows.exclude(state=EnvironmentState.READY).delete()
            rows.filter(state=EnvironmentState.READY).update(is_wanted=False)
    return tell


def _waiting() -> dict[str, list[WaitingJob]]:
    """Return the jobs that wait, by their environment, those that were submitted first before others."""
    found: dict[str, list[WaitingJob]] = defaultdict(list)
    jobs = Job.objects.filter(state=JobState.QUEUED, wanted="run").exclude(environment=None).order_by("number")
    for pk, digest, num_gpus, queue_id, resources, reason, evidence in jobs.values_list(
        "pk", "environment", "num_gpus", "queue", "spec__resources", "wait_reason", "wait_evidence"
    ):
        found[str(digest)].append(
            WaitingJob(
                job_id=pk,
                num_gpus=min(num_gpus, int(resources.get("min_gpus") or num_gpus)),
                max_servers=int(resources.get("max_servers") or 1),
                queue_id=queue_id,
                lacks_room=reason == WaitReason.PREPARING_ENVIRONMENT and bool(evidence.get("ready_servers")),
            )
        )
    return found


def _places() -> list[Place]:
    held = Lease.objects.filter(closed_at=None).values("server").annotate(held=Sum("num_gpus"))
    held_gpus = dict(held.values_list("server", "held"))
    servers = Server.objects.filter(state=ServerState.UP).exclude(python="")
    healthy = servers.annotate(healthy=Count("gpus", filter=Q(gpus__healthy=True))).order_by("number")
    return [
        Place(server_id=pk, number=number, num_gpus=gpus, free_gpus=max(0, gpus - held_gpus.get(pk, 0)))
        for pk, number, gpus in healthy.values_list("pk", "number", "healthy")
    ]


@transaction.atomic
def _want(
    digest: str,
    jobs: Sequence[WaitingJob],
    places: Sequence[Place],
    barred: frozenset[tuple[int, int]],
    *,
    at: datetime,
) -> set[str]:
    """Ask servers for one environment; return those to tell."""
    rows = {row.server_id: row for row in ServerEnvironment.objects.filter(environment=digest)}
    kept = [row for row in rows.values() if row.state == EnvironmentState.READY and not row.is_wanted]
    ServerEnvironment.objects.filter(pk__in=[row.pk for row in kept]).update(is_wanted=True)
    tell = {row.server_id for row in kept}
    usable = [place for place in places if (jobs[0].queue_id, place.number) not in barred]
    failed = {row.server_id for row in rows.values() if row.state == EnvironmentState.FAILED}
    here = [place for place in usable if place.server_id in rows and place.server_id not in failed]
    others = [place for place in usable if place.server_id not in rows]
    is_coming = any(row.state in COMING for row in rows.values())
    for job in jobs:
        for place in _more(job, here, others, is_coming=is_coming):
            ServerEnvironment.objects.create(
                environment_id=digest, server_id=place.server_id, asked_at=at, changed_at=at
            )
            tell.add(place.server_id)
            here.append(place)
            others.remove(place)
            is_coming = True
    return tell


def _more(job: WaitingJob, here: Sequence[Place], others: Sequence[Place], *, is_coming: bool) -> list[Place]:
    """Return the servers to ask beside those that have the environment, or build it."""
    if job.lacks_room:
        return [] if is_coming else with_room(job, others)
    if could_hold(job, here):
        return []
    every = [*here, *others]
    return [place for place in with_room(job, every) or could_hold(job, every) if place in others]


def with_room(job: WaitingJob, places: Sequence[Place]) -> list[Place]:
    """Return the servers on which a job could start now, as few as can be; none where they have no room."""
    ranked = sorted(places, key=lambda place: (-place.free_gpus, place.number))
    return _fewest(job, ranked, [place.free_gpus for place in ranked])


def could_hold(job: WaitingJob, places: Sequence[Place]) -> list[Place]:
    """Return the servers that could hold a job when they are empty, as few as can be, those with more free first."""
    ranked = sorted(places, key=lambda place: (-place.num_gpus, -place.free_gpus, place.number))
    return _fewest(job, ranked, [place.num_gpus for place in ranked])


def _fewest(job: WaitingJob, ranked: Sequence[Place], gpus: Sequence[int]) -> list[Place]:
    most = min(job.max_servers, len(ranked))
    enough = next((count for count in range(1, most + 1) if sum(gpus[:count]) >= job.num_gpus), 0)
    return list(ranked[:enough])
