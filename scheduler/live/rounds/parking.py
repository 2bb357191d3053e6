"""Parks jobs that take turns: off their GPUs with their memory kept, and later on again without a restart.

Each function is one guarded step of one transaction. A job keeps its GPU lease until its agent reports that it is off;
then the lease becomes one for memory. Decides whether a job parks or checkpoints and ends; the round decides whose turn
it is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Sum

from scheduler.core.model.lifecycle import JobState
from scheduler.live.attempts.leases import NewLease, attempt_retell, leases_open
from scheduler.live.attempts.start_stop import StopReceipt, attempt_stop
from scheduler.live.gangs.membership import gang_seat, peak_of
from scheduler.live.rounds.snapshot import LiveSnapshot
from scheduler.models import Attempt, Job, Lease, LeaseGpu, Server
from scheduler.models.job import AttemptState
from scheduler.notify import request_round, touch_cluster
from scheduler.selectors.times import seconds_between
from scheduler.services.jobs.state import job_transition

# Share of a server's memory for parked jobs together; a job beyond it checkpoints and ends.
PARKED_MOST_FRAC = 0.5


def has_room_to_park(attempt: Attempt) -> bool:
    """Return whether the servers of a running attempt have memory to park it."""
    leases = Lease.objects.filter(attempt=attempt, closed_at=None).select_related("server")
    for lease in leases:
        parked = Lease.objects.filter(server=lease.server, closed_at=None, num_gpus=0)
        kept = parked.aggregate(total=Sum("memory_bytes"))["total"] or 0
        if kept + _kept_bytes(attempt, lease) > PARKED_MOST_FRAC * lease.server.memory_bytes:
            return False
    return bool(leases)


def _kept_bytes(attempt: Attempt, lease: Lease) -> int:
    """Return the memory of an attempt parked on a server: its peak plus what comes from its GPUs."""
    is_gang = hasattr(attempt, "gang")
    peak_bytes = peak_of(attempt.pk, server_id=lease.server_id) if is_gang else attempt.peak_memory_bytes
    if peak_bytes is None:
        return lease.memory_bytes
    on_gpus = lease.gpus.aggregate(total=Sum("gpu__used_memory_bytes"))["total"] or 0
    return int(min(lease.memory_bytes, peak_bytes + on_gpus))


@transaction.atomic
def attempt_park(*, attempt_id: str, at: datetime, receipt: StopReceipt) -> list[str]:
    """Ask a running attempt to leave its GPUs and stay in memory.

    Returns:
        Ids of the servers to tell; empty when it does not run or was asked something before.
    """
    asked = Attempt.objects.filter(pk=attempt_id, wanted="run", state=AttemptState.RUNNING).update(
        wanted="park", stop_requested_at=at, **receipt
    )
    return attempt_retell(attempt_id) if asked else []


def attempt_parked(*, attempt: Attempt, server: Server, generation: int, at: datetime) -> None:
    """Record that an attempt is off its GPUs on one server; its job is parked once it is off all of them.

    Args:
        generation: Server generation of the report; one older than the request to park changes nothing.
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
    """Give a parked job GPUs of its servers again, and continue it.

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
    """Ask a parked job to checkpoint and end, to resume elsewhere; return the ids of servers to tell."""
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
        kept_bytes: Memory kept, by (job row, server id).
        indexes: Their last GPUs, by (job row, server row): a process reaches only the GPUs it started with.
    """

    kept_bytes: dict[tuple[int, str], int]
    indexes: dict[tuple[int, int], list[int]]


def parked_read(live: LiveSnapshot) -> Parked:
    """Return the kept memory and last GPUs of the parked jobs of a snapshot."""
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
