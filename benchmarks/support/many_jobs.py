"""A database with many jobs, as a cluster has them after months: nearly all ended, some wait, a few run.

The first ten thousand are written with their attempts, leases and events; more are copies of the ended ones, which the
database makes by itself.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db import connection, models
from django.utils import timezone

from scheduler.core.model.lifecycle import JobState
from scheduler.models import Attempt, Cluster, Event, Gpu, Job, Lease, LeaseGpu, Queue
from scheduler.services.cluster.settings import cluster_row
from tests.support.rows.factories import (
    member_make,
    queue_make,
    round_make,
    sample_make,
    server_make,
    spec_make,
    ulid_make,
    user_make,
)

FIRST = 10_000
ENDED = 9_000  # of the first
SERVERS = 8
RUNNING = 8 * SERVERS
TEAMS = 8
MODELS = ("resnet", "bert", "gpt", "vit", "unet", "lstm", "dlrm")
ENDS = (JobState.COMPLETED, JobState.COMPLETED, JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class People:
    """The viewers: an admin, and a member who sees one team of eight."""

    admin: User
    member: User


def fill() -> People:
    """Write servers, teams and the first jobs."""
    now = timezone.now()
    org = queue_make("org", quota_gpus=64)
    teams = [queue_make(f"org/team-{number}", parent=org, quota_gpus=8) for number in range(TEAMS)]
    owners = [[member_make(team, name=f"{team.name[4:]}-user-{n}") for n in range(5)] for team in teams]
    for number in range(SERVERS):
        server_make(f"server-{number:02d}", gpus=8, last_report_at=now)
    jobs = [_job(number, teams, owners, now) for number in range(1, FIRST + 1)]
    Job.objects.bulk_create(jobs, batch_size=500)
    _history(jobs)
    cluster_row()
    Cluster.objects.update(round_number=200, round_finished_at=now, next_job_number=FIRST + 1)
    for number in range(1, 201):
        round_make(number, at=now - timedelta(seconds=10 * (200 - number)), num_gpus=64, num_gpus_granted=64)
        values = {"num_gpus": 64, "allocated_gpus": 64, "busy_gpus": 50, "broken_gpus": 0, "waiting_jobs": 936}
        sample_make("cluster", 1, now - timedelta(minutes=200 - number), **values)
    return People(admin=user_make("admin", admin=True), member=owners[0][0])


def _job(number: int, teams: list[Queue], owners: list[list[User]], now: datetime) -> Job:
    team = number % TEAMS
    state = JobState.RUNNING if number > FIRST - RUNNING else JobState.QUEUED
    if number <= ENDED:
        state = ENDS[number % len(ENDS)]
    at = now - timedelta(minutes=FIRST - number)
    name, waits = f"{MODELS[number % len(MODELS)]}-{number % 400}", state == JobState.QUEUED
    spec = spec_make(name=name, queue=teams[team].name, resources={"gpus": 1})
    columns: dict[str, Any] = {"first_started_at": at + timedelta(seconds=30)} if not waits else {}
    if number <= ENDED:
        columns |= {"ended_at": at + timedelta(minutes=20), "end_cause": "completed", "attained_gpu_s": 1200.0}
    if waits:
        columns |= {"wait_since": at, "wait_position": number - ENDED, "wait_round": 200}
        columns |= {"wait_evidence": {"needed_gpus": 1, "free_gpus": 0}}
    return Job(
        id=ulid_make(at), number=number, name=name, queue=teams[team], owner=owners[team][number % 5],
        spec=spec.to_json(), num_gpus=1, priority=number % 100, state=state, state_changed_at=at, event_count=2,
        wait_reason="no_capacity" if waits else "", submitted_at=at, **columns,
    )  # fmt: skip


def _history(jobs: list[Job]) -> None:
    """Write attempts, leases and events of the jobs that were started."""
    gpus = list(Gpu.objects.order_by("server_id", "index"))
    attempts, leases, held, events = [], [], [], []
    for job in jobs:
        events.append(Event(at=job.submitted_at, kind="job_state", actor=job.owner.username, job=job, number=1,
                            queue=job.queue, new_state=JobState.QUEUED, reason="submit"))  # fmt: skip
        if job.first_started_at is None:
            continue
        runs = job.ended_at is None
        attempts.append(Attempt(id=ulid_make(job.submitted_at), job=job, number=1, num_gpus=1, epoch=1, round_number=1,
                                state="running" if runs else "ended", created_at=job.first_started_at,
                                started_at=job.first_started_at, ended_at=job.ended_at))  # fmt: skip
        gpu = gpus[job.number % RUNNING]
        leases.append(Lease(attempt=attempts[-1], server_id=gpu.server_id, num_gpus=1, cpus=1.0, memory_bytes=2**30,
                            epoch=1, generation=1, opened_at=job.first_started_at, closed_at=job.ended_at))  # fmt: skip
        if runs:
            held.append(LeaseGpu(lease=leases[-1], gpu=gpu))
        events.append(Event(at=job.first_started_at, kind="job_state", actor="scheduler", job=job, number=2,
                            queue=job.queue, new_state=job.state, reason="round"))  # fmt: skip
    Attempt.objects.bulk_create(attempts, batch_size=500)
    Lease.objects.bulk_create(leases, batch_size=500)
    LeaseGpu.objects.bulk_create(held)
    Event.objects.bulk_create(events, batch_size=500)


def copy_ended(times: int) -> None:
    """Add ``times`` copies of the ended ones of the first jobs, with what belongs to them."""
    marks = "ABCDEFGHJKMNPQRS"
    for number in range(times):
        mark = f"'{marks[number]}' || substr({{}}, 2)"
        newer = str(FIRST * (number + 1))
        ended = f"SELECT id FROM {Job._meta.db_table} WHERE number <= {ENDED}"
        _copy(Job, {"id": mark.format("id"), "number": f"number + {newer}"}, f"number <= {ENDED}")
        changes = {"id": mark.format("id"), "job_id": mark.format("job_id")}
        _copy(Attempt, changes, f"job_id IN ({ended})")
        own = f"SELECT id FROM {Attempt._meta.db_table} WHERE job_id IN ({ended})"
        _copy(Lease, {"attempt_id": mark.format("attempt_id")}, f"attempt_id IN ({own})")
        _copy(Event, {"job_id": mark.format("job_id")}, f"job_id IN ({ended})")
    Cluster.objects.update(next_job_number=FIRST * (times + 1) + 1)


def _copy(model: type[models.Model], changes: dict[str, str], where: str) -> None:
    """Copy rows of a table, some columns by an expression; a number that the database gives is given anew."""
    columns = [str(field.column) for field in model._meta.concrete_fields]
    if "id" not in changes:
        columns.remove("id")
    picked = ", ".join(changes.get(column, f'"{column}"') for column in columns)
    names = ", ".join(f'"{column}"' for column in columns)
    table = model._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO {table} ({names}) SELECT {picked} FROM {table} WHERE {where}")
