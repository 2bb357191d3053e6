"""What a few letters mean to one reader: jobs, servers, queues and people, each a row, few queries whatever there is.

Only what the reader may see is found: jobs and queues by role, servers by all users, people who share a queue.
"""

from collections import Counter
from datetime import datetime
from typing import Annotated, Literal, TypedDict

from django.contrib.auth.models import User
from django.db.models import BooleanField, Case, Count, Exists, OuterRef, QuerySet, Value, When

from scheduler.core.model.lifecycle import HOLDING, WAITING, JobState
from scheduler.core.operations.time_left import moment_after, time_left_s
from scheduler.models import Gpu, Job, LeaseGpu, Membership, Server
from scheduler.models.server import ServerState
from scheduler.selectors.cluster.overview import held_by_queue
from scheduler.selectors.jobs.listing import JobFilters, job_list
from scheduler.selectors.rows import Moment, one_of
from scheduler.selectors.times import iso
from scheduler.selectors.visibility import Access, Actor, access_of

MOST_LETTERS = 80
FEW = 2  # servers, queues, people
SOME_JOBS = 3
OPEN_STATES = sorted(WAITING | HOLDING)


class JobHit(TypedDict):
    """A job whose name or number matches."""

    number: int
    name: str
    queue: str
    color_slot: int
    state: Annotated[str, one_of(JobState)]
    progress_frac: Annotated[float | None, "0 to 1, where it has said how far it goes."]
    ends_at: Annotated[Moment | None, "At its present pace."]
    ahead: Annotated[int | None, "Jobs ahead of it in line, while it waits."]


class ServerHit(TypedDict):
    """A server whose name matches."""

    name: str
    state: Annotated[str, one_of(ServerState)]
    free_gpus: int
    broken_gpus: int


class QueueHit(TypedDict):
    """A queue whose name matches."""

    name: str
    color_slot: int
    held_gpus: int
    quota_gpus: int


class PersonHit(TypedDict):
    """A person whose name matches and who shares a queue with you."""

    username: str
    queues: Annotated[list[str], "Of those that you see."]
    running_jobs: int
    waiting_jobs: Annotated[int, "Queued, or parked between their turns."]


class Found(TypedDict):
    """What was found; of each kind the first few."""

    query: str
    jobs: list[JobHit]
    more_jobs: Annotated[bool, "Whether there are more jobs than are told here."]
    servers: list[ServerHit]
    queues: list[QueueHit]
    people: list[PersonHit]


Kind = Literal["jobs", "servers", "queues", "people"]
KINDS: tuple[Kind, ...] = ("jobs", "servers", "queues", "people")


def search(user: Actor, text: str, at: datetime, *, kinds: tuple[Kind, ...] = KINDS) -> Found:
    """Return what matches; nothing for no letters, and nothing for a user who is not signed in."""
    text = text.replace("\x00", "").strip()[:MOST_LETTERS]
    found: Found = {"query": text, "jobs": [], "more_jobs": False, "servers": [], "queues": [], "people": []}
    if not (text and user.is_authenticated and user.is_active):
        return found
    access = access_of(user)
    if "jobs" in kinds:
        jobs = list(_ordered(job_list(user, JobFilters(search=text)), user)[: SOME_JOBS + 1])
        found["jobs"] = [_job(job, at) for job in jobs[:SOME_JOBS]]
        found["more_jobs"] = len(jobs) > SOME_JOBS
    if "servers" in kinds:
        found["servers"] = _servers(text)
    if "queues" in kinds:
        found["queues"] = _queues(text, access)
    if "people" in kinds:
        found["people"] = _people(text, access)
    return found


def _ordered(jobs: QuerySet[Job], user: Actor) -> QuerySet[Job]:
    """Return one's own jobs first, then those that are not over, then the newest."""
    is_own = Case(When(owner_id=user.pk, then=Value(True)), default=Value(False), output_field=BooleanField())
    is_open = Case(When(state__in=OPEN_STATES, then=Value(True)), default=Value(False), output_field=BooleanField())
    return jobs.annotate(is_own=is_own, is_open=is_open).order_by("-is_open", "-is_own", "-number")


def _job(job: Job, at: datetime) -> JobHit:
    left_s = time_left_s(step=job.step, total_steps=job.total_steps, steps_per_s=job.steps_per_s)
    is_running = job.state == JobState.RUNNING
    return {
        "number": job.number,
        "name": job.name,
        "queue": job.queue.name,
        "color_slot": job.queue.color_slot,
        "state": job.state,
        "progress_frac": min(1.0, job.step / job.total_steps) if is_running and job.step and job.total_steps else None,
        "ends_at": iso(moment_after(at, left_s)) if is_running else None,
        "ahead": job.wait_position - 1 if job.state == JobState.QUEUED and job.wait_position else None,
    }


def _servers(text: str) -> list[ServerHit]:
    servers = Server.objects.filter(name__icontains=text).order_by("number").values_list("pk", "name", "state")[:FEW]
    held = Exists(LeaseGpu.objects.filter(gpu=OuterRef("pk"), released_at__isnull=True))
    gpus = Gpu.objects.filter(server_id__in=[pk for pk, _, _ in servers]).annotate(held=held)
    free: Counter[str] = Counter()
    broken: Counter[str] = Counter()
    for server, healthy, is_held in gpus.order_by().values_list("server_id", "healthy", "held"):
        free[server] += healthy and not is_held
        broken[server] += not healthy
    return [
        {"name": name, "state": state, "free_gpus": free[pk], "broken_gpus": broken[pk]} for pk, name, state in servers
    ]


def _queues(text: str, access: Access) -> list[QueueHit]:
    queues = list(access.queues().filter(name__icontains=text).order_by("name")[:FEW])
    held = held_by_queue() if queues else {}
    return [
        {
            "name": queue.name,
            "color_slot": queue.color_slot,
            "held_gpus": held.get(queue.pk, 0),
            "quota_gpus": queue.quota_gpus,
        }
        for queue in queues
    ]


def _people(text: str, access: Access) -> list[PersonHit]:
    users = User.objects.filter(is_active=True, username__icontains=text)
    memberships = Membership.objects.select_related("queue").order_by("queue__name")
    if not access.is_admin:
        memberships = memberships.filter(queue_id__in=list(access.roles))
        users = users.filter(pk__in=memberships.order_by().values("user_id"))
    found = list(users.order_by("username")[:FEW])
    pks = [user.pk for user in found]
    queues: dict[int, list[str]] = {pk: [] for pk in pks}
    for membership in memberships.filter(user_id__in=pks):
        queues[membership.user_id].append(membership.queue.name)
    jobs = access.jobs().filter(owner_id__in=pks, state__in=OPEN_STATES).order_by()
    counts: Counter[tuple[int, bool]] = Counter()
    for owner, state, count in jobs.values_list("owner_id", "state").annotate(Count("pk")):
        counts[owner, state in WAITING] += count
    return [
        {
            "username": user.get_username(),
            "queues": queues[user.pk],
            "running_jobs": counts[user.pk, False],
            "waiting_jobs": counts[user.pk, True],
        }
        for user in found
    ]
