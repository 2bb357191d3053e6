"""Valid rows for tests, each a plain function: what a test does not care about has a sensible value.

Jobs are walked to their state by the real services, so that events, attempts and leases are as the product leaves them.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Q

from scheduler.core.model.lifecycle import HOLDING, OPEN, TERMINAL, EndCause, JobState
from scheduler.core.model.plan import WaitReason
from scheduler.core.spec.spec import JobSpec
from scheduler.models import (
    Attempt,
    Cluster,
    Event,
    Gang,
    GangMember,
    Gpu,
    Job,
    Lease,
    LeaseGpu,
    Membership,
    Queue,
    QuotaRequest,
    Round,
    Sample,
    Server,
)
from scheduler.models.job import AttemptState
from scheduler.models.queue import Role
from scheduler.models.server import ServerState
from scheduler.services.cluster.settings import cluster_row
from scheduler.services.jobs.state import job_transition

AT = datetime(2026, 3, 7, 14, 32, tzinfo=UTC)  # a Saturday
GIB = 2**30

_serial = count(1)
_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

# How a job gets to each state from queued.
WALKS: dict[JobState, tuple[JobState, ...]] = {
    JobState.QUEUED: (),
    JobState.LAUNCHING: (JobState.LAUNCHING,),
    JobState.RUNNING: (JobState.LAUNCHING, JobState.RUNNING),
    JobState.PARKED: (JobState.LAUNCHING, JobState.RUNNING, JobState.PARKED),
    JobState.PREEMPTING: (JobState.LAUNCHING, JobState.RUNNING, JobState.PREEMPTING),
    JobState.SUSPENDING: (JobState.LAUNCHING, JobState.RUNNING, JobState.SUSPENDING),
    JobState.SUSPENDED: (JobState.SUSPENDED,),
    JobState.COMPLETED: (JobState.LAUNCHING, JobState.RUNNING, JobState.COMPLETED),
    JobState.FAILED: (JobState.LAUNCHING, JobState.RUNNING, JobState.FAILED),
    JobState.CANCELLED: (JobState.CANCELLED,),
}
_CAUSES = {JobState.COMPLETED: EndCause.COMPLETED, JobState.FAILED: EndCause.EXIT_CODE}
_WANTED = {JobState.SUSPENDING: "suspend", JobState.SUSPENDED: "suspend", JobState.CANCELLED: "cancel"}


class SerialIds:
    """ULIDs that only rise, the same in every run."""

    def ulid(self, at: datetime) -> str:
        """Return the next id; its time part is ``at``."""
        return ulid_make(at)


def ulid_make(at: datetime = AT) -> str:
    """Return a new ULID."""
    value = (int(at.timestamp() * 1000) << 80) | next(_serial)
    return "".join(_CROCKFORD[(value >> shift) & 31] for shift in range(125, -1, -5))


def user_make(name: str = "", *, admin: bool = False, active: bool = True) -> User:
    """Return a new user without a password."""
    name = name or f"user{next(_serial)}"
    return User.objects.create(username=name, is_superuser=admin, is_staff=admin, is_active=active)


def queue_make(name: str = "", *, parent: Queue | None = None, quota_gpus: int = 4, **columns: Any) -> Queue:
    """Return a new queue; its colour slot follows from how many there are."""
    columns = {"color_slot": Queue.objects.count() % 8 + 1, "created_at": AT, **columns}
    return Queue.objects.create(name=name or f"queue{next(_serial)}", parent=parent, quota_gpus=quota_gpus, **columns)


def member_make(queue: Queue, role: Role = Role.MEMBER, *, user: User | None = None, name: str = "") -> User:
    """Return a user with a role in ``queue``."""
    user = user or user_make(name)
    Membership.objects.create(user=user, queue=queue, role=role)
    return user


def quota_request_make(queue: Queue, user: User, *, quota_gpus: int = 6, **columns: Any) -> QuotaRequest:
    """Return an open request for quota."""
    columns = {"asked_at": AT, "reason": "deadline", "before_gpus": queue.quota_gpus, **columns}
    return QuotaRequest.objects.create(queue=queue, asked_by=user, quota_gpus=quota_gpus, **columns)


def server_make(
    name: str = "", *, gpus: int = 4, broken: Sequence[int] = (), state: ServerState = ServerState.UP, **columns: Any
) -> Server:
    """Return a new server that has reported, with CPU slots 0 to ``gpus`` - 1; those in ``broken`` are not healthy."""
    serial = next(_serial)
    has_reported = state != ServerState.JOINING
    defaults: dict[str, Any] = {
        "id": f"s{serial:011d}",
        "number": serial,
        "name": name or f"server-{serial}",
        "state": state,
        "state_changed_at": AT,
        "num_cpus": 8,
        "memory_bytes": 32 * GIB,
        "may_mix_queues": True,
        "key_hex": f"{serial:064x}",
        "last_report_at": AT if has_reported else None,
        "acked_generation": 1 if has_reported else 0,
        "created_at": AT,
    }
    server = Server.objects.create(**{**defaults, **columns})
    Gpu.objects.bulk_create(
        Gpu(
            server=server,
            index=index,
            uuid=f"cpu-slot-{index}",
            healthy=index not in broken,
            health_reason="" if index not in broken else "fell off the bus",
            utilization_frac=0.0,
            measured_at=AT,
        )
        for index in range(gpus)
    )
    return server


def spec_make(**changes: Any) -> JobSpec:
    """Return a spec; ``changes`` are top-level keys."""
    return JobSpec.parse({"apiVersion": "v1", "name": "train", "queue": "vision", "command": ["true"], **changes})


def job_make(
    queue: Queue | None = None,
    *,
    state: JobState = JobState.QUEUED,
    owner: User | None = None,
    num_gpus: int = 1,
    server: Server | None = None,
    at: datetime = AT,
    step_s: float = 60.0,
    **columns: Any,
) -> Job:
    """Return a job that was submitted at ``at`` and moved every ``step_s`` seconds until it was in ``state``.

    Args:
        server: Where it holds, or held, its GPUs; a new one with enough GPUs by default.
        columns: Further columns of the job, written at the end.
    """
    queue = queue or queue_make()
    job = _submitted(queue, owner or user_make(), num_gpus=num_gpus, at=at, name=columns.pop("name", "train"))
    for to in WALKS[state]:
        at += timedelta(seconds=step_s)
        if to is JobState.LAUNCHING:
            attempt_make(job, server=server, at=at)
        job_move(job, to, at=at)
    columns.setdefault("wanted", _WANTED.get(state, "run"))
    Job.objects.filter(pk=job.pk).update(**columns)
    job.refresh_from_db()
    return job


def _submitted(queue: Queue, owner: User, *, num_gpus: int, at: datetime, name: str) -> Job:
    cluster = cluster_row()
    Cluster.objects.filter(pk=1).update(next_job_number=cluster.next_job_number + 1)
    spec = spec_make(name=name, queue=queue.name, resources={"gpus": num_gpus})
    job = Job.objects.create(
        id=ulid_make(at),
        number=cluster.next_job_number,
        name=name,
        queue=queue,
        owner=owner,
        spec=spec.to_json(),
        num_gpus=num_gpus,
        state=JobState.QUEUED,
        state_changed_at=at,
        event_count=1,
        wait_reason=WaitReason.NEW,
        wait_since=at,
        told_at=at,
        submitted_at=at,
    )
    Event.objects.create(
        at=at,
        kind="job_state",
        actor=owner.username,
        job=job,
        number=1,
        queue=queue,
        new_state=JobState.QUEUED,
        reason="submit",
    )
    return job


def job_move(job: Job, to: JobState, *, at: datetime, actor: str = "scheduler", reason: str = "test") -> None:
    """Move a job by the real service and bring its open attempt along."""
    changes: dict[str, Any] = {}
    open_attempt = Attempt.objects.filter(job=job).exclude(state=AttemptState.ENDED).first()
    if to in TERMINAL:
        changes["end_cause"] = _CAUSES.get(to, EndCause.CANCELLED)
    if to is JobState.RUNNING and job.first_started_at is None:
        changes["first_started_at"] = at
    if open_attempt is not None and to not in OPEN:
        start = open_attempt.created_at
        run_s = (at - start).total_seconds()
        changes["executed_s"] = job.executed_s + run_s
        changes["attained_gpu_s"] = job.attained_gpu_s + run_s * job.num_gpus
    job_transition(job=job, to=to, at=at, actor=actor, reason=reason, changes=changes)
    if open_attempt is not None:
        _follow(open_attempt, to, at=at)


def _follow(attempt: Attempt, to: JobState, *, at: datetime) -> None:
    if to is JobState.RUNNING:
        attempt.state, attempt.started_at = AttemptState.RUNNING, at
    elif to in (JobState.PREEMPTING, JobState.SUSPENDING):
        attempt.state, attempt.stop_requested_at = AttemptState.STOPPING, at
        attempt.wanted = "preempt" if to is JobState.PREEMPTING else "suspend"
    elif to is JobState.PARKED:
        attempt.state, attempt.wanted = AttemptState.PARKED, "park"
        Lease.objects.filter(attempt=attempt, closed_at__isnull=True).update(num_gpus=0, cpus=0.0)
        LeaseGpu.objects.filter(lease__attempt=attempt, released_at__isnull=True).update(released_at=at)
    elif to not in HOLDING:
        attempt.state, attempt.ended_at = AttemptState.ENDED, at
        attempt.end_cause = _CAUSES.get(to, EndCause.PREEMPTED)
        Lease.objects.filter(attempt=attempt, closed_at__isnull=True).update(closed_at=at)
        LeaseGpu.objects.filter(lease__attempt=attempt, released_at__isnull=True).update(released_at=at)
    attempt.save()


def attempt_make(job: Job, *, server: Server | None = None, at: datetime = AT) -> Attempt:
    """Return a new open attempt of ``job`` with a lease on free GPUs of ``server``."""
    server = server or server_make(gpus=job.num_gpus)
    number = Attempt.objects.filter(job=job).count() + 1
    attempt = Attempt.objects.create(
        id=ulid_make(at), job=job, number=number, num_gpus=job.num_gpus, epoch=1, round_number=1, created_at=at
    )
    lease = Lease.objects.create(
        attempt=attempt,
        server=server,
        num_gpus=job.num_gpus,
        cpus=float(job.num_gpus),
        cpu_ids=list(range(job.num_gpus)),
        memory_bytes=job.num_gpus * GIB,
        epoch=1,
        generation=server.generation,
        opened_at=at,
    )
    taken = Q(leases__released_at__isnull=True, leases__isnull=False)
    free = server.gpus.filter(healthy=True).exclude(taken).order_by("index")[: job.num_gpus]
    assert len(free) == job.num_gpus, f"{server.name} has {len(free)} free GPUs, {job.num_gpus} are needed"
    LeaseGpu.objects.bulk_create(LeaseGpu(lease=lease, gpu=gpu) for gpu in free)
    return attempt


def gang_make(attempt: Attempt, *, port: int = 20_000) -> GangMember:
    """Make an attempt a gang of two processes; return the second. The first is the attempt itself."""
    gang = Gang.objects.create(attempt=attempt, address="127.0.0.1", port=port, held_port=port, secret="0" * 32)
    gpu = LeaseGpu.objects.filter(lease__attempt=attempt)[0].gpu
    GangMember.objects.create(id=attempt.pk, gang=gang, number=0, gpu=gpu)
    return GangMember.objects.create(id=ulid_make(attempt.created_at), gang=gang, number=1, gpu=gpu)


def sample_make(scope: str, scope_id: str | int, at: datetime = AT, *, resolution_s: int = 1, **values: Any) -> Sample:
    """Return measured values of one thing."""
    return Sample.objects.create(scope=scope, scope_id=str(scope_id), at=at, resolution_s=resolution_s, values=values)


def round_make(number: int, *, at: datetime = AT, **columns: Any) -> Round:
    """Return a round that decided nothing unless told otherwise."""
    defaults: dict[str, Any] = {
        "epoch": 1,
        "trigger": "beat",
        "started_at": at,
        "duration_s": 0.01,
        "policy": "las",
        "locality": "consolidate",
        "mechanism": "tune",
        "num_jobs": 0,
        "num_running": 0,
        "num_launched": 0,
        "num_preempted": 0,
        "num_waiting": 0,
        "num_gpus": 0,
        "num_gpus_granted": 0,
        "snapshot_hash": "0" * 64,
        "plan_hash": "0" * 64,
    }
    return Round.objects.create(number=number, **{**defaults, **columns})


def full_cluster() -> tuple[Queue, User]:
    """Return a queue and its member; a job holds all GPUs and ends in about 1,000 s."""
    cluster_row()
    Cluster.objects.update(policy="fifo", policy_options={})
    server, queue = server_make("gpu-01", gpus=4), queue_make("vision", quota_gpus=4)
    owner = member_make(queue)
    job_make(
        queue, state=JobState.RUNNING, owner=owner, server=server, num_gpus=4,
        step=0, total_steps=1_000, steps_per_s=1.0,
    )  # fmt: skip
    return queue, owner
