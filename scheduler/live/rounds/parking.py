"""Jobs that take turns: asked off their GPUs, off them with their memory kept, and on again, without a restart.

Each function is one step of one transaction, guarded, with the accounting that belongs to it. While a job is on its way
off, its lease holds the GPUs; the report that it is off turns the lease into one for memory. Whether a job parks or
checkpoints and ends is decided here; whose turn it is, in the round.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Sum

from scheduler.core.model.lifecycle import JobState
from scheduler.live.attempts.leases import NewLease, generations_raise, leases_open, seconds_between, servers_of
from scheduler.live.attempts.start_stop import StopReceipt, attempt_stop
from scheduler.live.gangs.membership import gang_seat, peak_of
from scheduler.live.rounds.snapshot import LiveSnapshot
from scheduler.models import Attempt, Job, Lease, LeaseGpu, Server
from scheduler.models.job import AttemptState
from scheduler.notify import request_round, touch_cluster
from scheduler.services.jobs.state import job_transition

# Of a server's memory, what parked jobs may keep together; whoever would make it more checkpoints and ends.
PARKED_MOST_FRAC = 0.5


def has_room_to_park(attempt: Attempt) -> bool:
    """Return whether the servers of a running attempt have memory to spare for it while it waits."""
    leases = Lease.objects.filter(attempt=attempt, closed_at=None).select_related("server")
    for lease in leases:
        parked = Lease.objects.filter(server=lease.server, closed_at=None, num_gpus=0)
        kept = parked.aggregate(total=Sum("memory_bytes"))["total"] or 0
        if kept + _kept_bytes(attempt, lease) > PARKED_MOST_FRAC * lease.server.memory_bytes:
            return False
    return bool(leases)


def _kept_bytes(attempt: Attempt, lease: Lease) -> int:
    """Return what a parked attempt keeps on a server: what it used at most, and what comes to it from its GPUs."""
    is_gang = hasattr(attempt, "gang")
    peak_bytes = peak_of(attempt.pk, server_id=lease.server_id) if is_gang else attempt.peak_memory_bytes
    if peak_bytes is None:
        return lease.memory_bytes
    on_gpus = lease.gpus.aggregate(total=Sum("gpu__used_memory_bytes"))["total"] or 0
    return int(min(lease.memory_bytes, peak_bytes + on_gpus))


@transaction.atomic
def attempt_park(*, attempt_id: str, at: datetime, receipt: StopReceipt) -> list[str]:
    """Ask a running attempt off its GPUs.

    Returns:
        Ids of the servers that must be told; empty when it does not run or was asked something before.
    """
    asked = Attempt.objects.filter(pk=attempt_id, wanted="run", state=AttemptState.RUNNING).update(
        wanted="park", stop_requested_at=at, **receipt
    )
    return _retold(attempt_id) if asked else []


def _retold(attempt_id: str) -> list[str]:
    """Raise the generation of the attempt's servers and leases, for a wish that they must be told."""
    server_ids = servers_of(attempt_id)
    for server_id, generation in generations_raise(server_ids).items():
        Lease.objects.filter(attempt_id=attempt_id, server_id=server_id, closed_at=None).update(generation=generation)
    return server_ids


def attempt_parked(*, attempt: Attempt, server: Server, generation: int, at: datetime) -> None:
    """Take in that an attempt is off its GPUs on one server; once it is off all of them its job is parked.

    Args:
        generation: Of the server, that its supervisor knew of when it said so; what was said before the newest wish
            changes nothing.
    """
    lease = Lease.objects.filter(attempt=attempt, server=server, closed_at=None, num_gpus__gte=1).first()
    if attempt.wanted != "park" or lease is None or generation < lease.generation:
        return
    _close(lease, at=at)
    Lease.objects.create(
        attempt=attempt,
        server=server,
        num_gpus=0,
        cpus=0.0,
        cpu_ids=[],
        memory_bytes=_kept_bytes(attempt, lease),
        epoch=lease.epoch,
        generation=lease.generation,
        opened_at=at,
    )
    if Lease.objects.filter(attempt=attempt, closed_at=None, num_gpus__gte=1).exists():
        return
    Attempt.objects.filter(pk=attempt.pk).update(state=AttemptState.PARKED)
    attempt.state = AttemptState.PARKED
    _job_parked(attempt, lease, at=at)
    request_round("parked")
    touch_cluster()


def _close(lease: Lease, *, at: datetime) -> None:
    LeaseGpu.objects.filter(lease=lease, released_at=None).update(released_at=at)
    Lease.objects.filter(pk=lease.pk).update(closed_at=at)


def _job_parked(attempt: Attempt, lease: Lease, *, at: datetime) -> None:
    job = attempt.job
    held_s = seconds_between(lease.opened_at, at)
    run_s = seconds_between(max(lease.opened_at, attempt.started_at or at), at)
    by = attempt.preempted_by
    job_transition(
        job=job,
        to=JobState.PARKED,
        at=at,
        actor="scheduler",
        reason=attempt.preempt_rule,
        data={
            "attempt": attempt.number,
            "by_job": by.number if by else None,
            "rate": job.steps_per_s,
            "run_s": round(run_s, 3),
            "asked_s": round(seconds_between(attempt.stop_requested_at or at, at), 3),
        },
        changes={
            "attained_gpu_s": job.attained_gpu_s + held_s * attempt.num_gpus,
            "executed_s": job.executed_s + run_s,
        },
    )


@transaction.atomic
def attempt_continue(
    *,
    job: Job,
    new_leases: Sequence[NewLease],
    epoch: int,
    generations: Mapping[str, int],
    at: datetime,
    data: Mapping[str, Any],
) -> bool:
    """Give a parked job GPUs of its server again, and let it go on.

    Returns:
        False, with nothing changed, when its attempt is no longer parked.
    """
    attempt = Attempt.objects.filter(job=job, state=AttemptState.PARKED, wanted="park").first()
    if attempt is None:
        return False
    Lease.objects.filter(attempt=attempt, closed_at=None).update(closed_at=at)
    Attempt.objects.filter(pk=attempt.pk).update(
        state=AttemptState.RUNNING, wanted="run", stop_requested_at=None, preempted_by=None, preempt_rule=""
    )
    leases_open(attempt, new_leases, epoch=epoch, generations=generations, at=at)
    if hasattr(attempt, "gang"):
        gang_seat(attempt, {lease.server_id: lease.gpu_pks for lease in new_leases})
    job_transition(job=job, to=JobState.RUNNING, at=at, actor="scheduler", reason="turn", data=data)
    return True


@transaction.atomic
def parked_stop(*, job: Job, rule: str, at: datetime, data: Mapping[str, Any]) -> list[str]:
    """Let a parked job checkpoint and end, because it goes on elsewhere; return the ids of the servers to tell."""
    attempt = Attempt.objects.filter(job=job, state=AttemptState.PARKED).first()
    if attempt is None:
        return []
    tell = attempt_stop(attempt_id=attempt.pk, wanted="preempt", at=at, receipt={"preempt_rule": rule})
    if tell:
        job_transition(job=job, to=JobState.PREEMPTING, at=at, actor="scheduler", reason=rule, data=data)
    return tell


@dataclass(frozen=True, slots=True, kw_only=True)
class Parked:
    """The parked jobs of a snapshot.

    Attributes:
        kept_bytes: What they keep, by (job row, server id).
        indexes: GPUs that they had last, by (job row, server row): a process reaches no others than it began with.
    """

    kept_bytes: dict[tuple[int, str], int]
    indexes: dict[tuple[int, int], list[int]]


def parked_read(live: LiveSnapshot) -> Parked:
    """Return what the parked jobs of a snapshot keep, and where they ran."""
    row_of = {live.attempt_pks[row]: row for row in live.parked_on}
    server_rows = {pk: row for row, pk in enumerate(live.server_pks)}
    found = Parked(kept_bytes={}, indexes={})
    for lease in Lease.objects.filter(attempt_id__in=row_of).order_by("opened_at", "pk").prefetch_related("gpus__gpu"):
        row = row_of[lease.attempt_id]
        if lease.num_gpus == 0 and lease.closed_at is None:
            found.kept_bytes[row, lease.server_id] = lease.memory_bytes
        elif lease.num_gpus > 0 and lease.server_id in server_rows:
            indexes = sorted(held.gpu.index for held in lease.gpus.all())
            found.indexes[row, server_rows[lease.server_id]] = indexes
    return found
