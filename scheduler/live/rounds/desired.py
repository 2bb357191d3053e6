"""Sends each server its whole desired state as a signed message, again until its agent works on it.

Repeats also renew the leases. A lost message is no error: the next renewal says the same.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import get_args

from django.conf import settings
from django.db import transaction
from django.db.models import F, Prefetch

from agents.protocol.ports import Transport
from agents.protocol.signing import MAX_MESSAGE_BYTES, AttemptWanted, DesiredState, Stamp, Wanted, seal
from scheduler.core.spec.spec import JobSpec
from scheduler.live.gangs.membership import gang_order, members_on, membership_of
from scheduler.live.steps import for_each
from scheduler.models import Attempt, Lease, LeaseGpu, Server
from scheduler.models.gang import GangMember
from scheduler.models.job import AttemptState
from scheduler.services.cluster.settings import cluster_row

log = logging.getLogger(__name__)

# Kept of each attempt's log; older output is dropped.
LOG_BYTES = 64 * 1024**2
# Limit for files in one message; launches beyond it follow in later messages.
FILES_MOST_BYTES = MAX_MESSAGE_BYTES // 2
WANTED: dict[str, Wanted] = {word: word for word in get_args(Wanted)}


def desired_send(server_ids: Iterable[str], *, transport: Transport, at: datetime) -> None:
    """Send the servers their desired state; one that misses it reports an old generation and gets it again.

    Raises the first failure when all servers have been tried.
    """

    def send(server_id: str) -> None:
        message = desired_message(server_id, at=at)
        try:
            if message is not None:
                transport.send_desired(server_id, message)
        except ConnectionError as error:
            log.warning("desired_state_not_sent", extra={"server": server_id, "error": str(error)})

    for_each(sorted(set(server_ids)), send)


@transaction.atomic
def desired_message(server_id: str, *, at: datetime) -> str | None:
    """Return the sealed desired state of one server, with the next sequence; None when there is no such server.

    In one transaction, so that the generation and the leases belong together.
    """
    # Locks the row first: a generation is raised and its leases are changed in one transaction.
    if not Server.objects.filter(pk=server_id).update(sent_sequence=F("sent_sequence") + 1):
        return None
    server = Server.objects.get(pk=server_id)
    desired = DesiredState(
        lease_ttl_s=settings.LEASE_TTL_S,
        acknowledged_sequence=server.report_sequence,
        attempts=tuple(_attempts(server_id)),
    )
    return seal(
        key=bytes.fromhex(server.key_hex),
        direction="desired",
        server=server_id,
        stamp=Stamp(
            epoch=cluster_row().epoch,
            generation=server.generation,
            sequence=server.sent_sequence,
        ),
        now_s=at.timestamp(),
        body=desired.to_json(),
    )


def _attempts(server_id: str) -> list[AttemptWanted]:
    """Return the open attempts of a server, oldest first, as far as their files fit."""
    leases = (
        Lease.objects.filter(server_id=server_id, closed_at=None)
        .select_related("attempt__job", "attempt__measurement")
        .prefetch_related(Prefetch("gpus", LeaseGpu.objects.select_related("gpu").order_by("gpu__index")))
        .order_by("attempt_id")
    )
    wanted: list[AttemptWanted] = []
    files_bytes = 0
    for attempt in _orders(leases, members_on(server_id)):
        files_bytes += sum(len(text.encode()) for text in attempt.files.values())
        # Launches that do not fit have not started, so leaving them out stops nothing; they follow when the others run.
        # Oldest first, so that a launch that was sent is never left out again.
        if not attempt.files or files_bytes <= FILES_MOST_BYTES or not any(other.files for other in wanted):
            wanted.append(attempt)
    return wanted


def _orders(leases: Iterable[Lease], gangs: Mapping[str, Sequence[GangMember]]) -> Iterator[AttemptWanted]:
    """Yield what the server runs: one order per lease, for a gang one per process."""
    for lease in leases:
        members = gangs.get(lease.attempt_id)
        if not hasattr(lease.attempt, "gang"):
            yield _attempt(lease)
        elif members:
            yield from _members(_attempt(lease), lease, members)


def _members(whole: AttemptWanted, lease: Lease, members: Sequence[GangMember]) -> Iterator[AttemptWanted]:
    """Yield the order of each process of a gang on one server; they share cores and bytes evenly."""
    membership = membership_of(members[0].gang)
    size, cores = len(members), whole.cpu_ids
    for place, member in enumerate(members):
        own = cores[place * len(cores) // size : (place + 1) * len(cores) // size]
        is_leader = member.pk == lease.attempt_id
        yield replace(
            whole,
            attempt_id=member.pk,
            gpu_indexes=(member.gpu.index,) if whole.gpu_indexes else (),  # while it is parked it has none
            gpu_uuids=(member.gpu.uuid,) if whole.gpu_indexes else (),
            cpu_ids=own or cores[place % max(1, len(cores)) :][:1],
            memory_bytes=whole.memory_bytes // size,
            files=whole.files if member.started_at is None else {},
            # The leader hands what it resumed to the others.
            resume_attempt_id=whole.resume_attempt_id if is_leader else "",
            resume_name=whole.resume_name if is_leader else "",
            gang=gang_order(member, membership),
        )


def _measure_above(attempt: Attempt) -> int | None:
    """Return the cores above which to measure the attempt; None when not, or already measured."""
    measurement = getattr(attempt, "measurement", None)  # the other side of a one-to-one: missing for most
    return measurement.above_cpus if measurement is not None and measurement.measured_at is None else None


def _memory_limit_bytes(lease: Lease) -> int:
    """Return the memory limit: for a parked attempt that of its last run, as a checkpoint needs more than it keeps."""
    if lease.num_gpus:
        return lease.memory_bytes
    ran = Lease.objects.filter(attempt=lease.attempt_id, server=lease.server_id, num_gpus__gte=1)
    limits = ran.order_by("-opened_at", "-pk").values_list("memory_bytes", flat=True)
    return max(lease.memory_bytes, limits.first() or 0)


def _attempt(lease: Lease) -> AttemptWanted:
    attempt = lease.attempt
    spec = JobSpec.parse(attempt.job.spec)
    gpus = [held.gpu for held in lease.gpus.all()]
    return AttemptWanted(
        attempt_id=attempt.id,
        job_id=attempt.job_id,
        queue_id=attempt.job.queue_id,
        wanted=WANTED[attempt.wanted],
        generation=lease.generation,
        gpu_indexes=tuple(gpu.index for gpu in gpus),
        gpu_uuids=tuple(gpu.uuid for gpu in gpus),
        cpu_ids=tuple(lease.cpu_ids),
        memory_bytes=_memory_limit_bytes(lease),
        disk_bytes=spec.resources.disk_bytes,
        log_bytes=LOG_BYTES,
        command=spec.command,
        env=dict(spec.env),
        # Written to its directory when it starts.
        files=dict(spec.files) if attempt.state == AttemptState.LAUNCHING or hasattr(attempt, "gang") else {},
        grace_s=spec.checkpoint.grace_s,
        max_duration_s=spec.schedule.max_duration_s,
        stall_s=spec.progress.stall_s,
        resume_attempt_id=attempt.resume_attempt_id,
        resume_name=attempt.resume_name,
        measure_above=_measure_above(attempt),
    )
