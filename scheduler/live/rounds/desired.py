"""Sends each server its whole desired state as a signed message, again until its agent works on it.

Repeats also renew the leases. A lost message is no error: the next renewal says the same.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import get_args

from django.conf import settings
from django.db import transaction
from django.db.models import F, Prefetch

from agents.protocol.ports import Transport
from agents.protocol.signing import MAX_MESSAGE_BYTES, AttemptWanted, DesiredState, Stamp, Wanted, seal
from scheduler.core.spec.spec import JobSpec
from scheduler.live.gangs.membership import gang_order, members_by_server, memberships_of
from scheduler.live.steps import for_each, is_away
from scheduler.models import Attempt, Lease, LeaseGpu, Server
from scheduler.models.gang import GangMember
from scheduler.models.job import AttemptState
from scheduler.services.cluster.settings import cluster_row

log = logging.getLogger(__name__)

# Kept of each attempt's log; older output is dropped.
LOG_BYTES = 64 * 1024**2
# Limit for files in one message; launches beyond it follow in later messages.
FILES_MOST_BYTES = MAX_MESSAGE_BYTES // 2
SERVERS_AT_ONCE = 50  # read in one transaction, which keeps their reports waiting
WANTED: dict[str, Wanted] = {word: word for word in get_args(Wanted)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOrders:
    """What one server is to run, as read in one transaction with its stamp.

    Attributes:
        server: The row, with the sequence of this message.
        leases: Open ones, oldest first, with attempt, job and GPUs.
        gangs: The processes of each gang that belong here, in the order of joining.
        memberships: Ids of all processes of each of these gangs, the leader first.
        ran_bytes: Memory of the last runs of parked attempts, by attempt and server.
    """

    server: Server
    epoch: int
    leases: Sequence[Lease]
    gangs: Mapping[str, Sequence[GangMember]]
    memberships: Mapping[str, tuple[str, ...]]
    ran_bytes: Mapping[tuple[str, str], int]


def desired_send(server_ids: Iterable[str], *, transport: Transport, at: datetime) -> None:
    """Send the servers their desired state; one that misses it reports an old generation and gets it again.

    Raises the first failure when all servers have been tried.
    """

    def send(orders: ServerOrders) -> None:
        message = desired_message(orders, at=at)
        try:
            transport.send_desired(orders.server.pk, message)
        except ConnectionError as error:
            log.warning("desired_state_not_sent", extra={"server": orders.server.pk, "error": str(error)})

    def send_batch(ids: Sequence[str]) -> None:
        try:
            batch = orders_read(ids)
        except Exception as error:
            if len(ids) == 1 or is_away(error):
                raise
            for_each([[server_id] for server_id in ids], send_batch)  # one that cannot be read keeps back no other
        else:
            for_each(batch, send)

    ids = sorted(set(server_ids))
    for_each([ids[start : start + SERVERS_AT_ONCE] for start in range(0, len(ids), SERVERS_AT_ONCE)], send_batch)


@transaction.atomic
def orders_read(server_ids: Sequence[str]) -> list[ServerOrders]:
    """Return what servers are to run, with the next sequence of each; a server that is gone is left out.

    In one transaction, so that the generation and the leases belong together.
    """
    # Locks the rows first: a generation is raised and its leases are changed in one transaction.
    servers = list(Server.objects.select_for_update().filter(pk__in=server_ids).order_by("pk"))
    Server.objects.filter(pk__in=server_ids).update(sent_sequence=F("sent_sequence") + 1)
    leases: dict[str, list[Lease]] = defaultdict(list)
    rows = (
        Lease.objects.filter(server__in=server_ids, closed_at=None)
        .select_related("attempt__job", "attempt__measurement", "attempt__gang")
        .prefetch_related(Prefetch("gpus", LeaseGpu.objects.select_related("gpu").order_by("gpu__index")))
        .order_by("attempt_id")
    )
    for lease in rows:
        leases[lease.server_id].append(lease)
    gangs = members_by_server(server_ids)
    memberships = memberships_of({gang_id for own in gangs.values() for gang_id in own})
    ran_bytes = _ran_bytes([lease.attempt_id for lease in rows if not lease.num_gpus])
    epoch = cluster_row().epoch
    for server in servers:
        server.sent_sequence += 1
    return [
        ServerOrders(
            server=server,
            epoch=epoch,
            leases=leases[server.pk],
            gangs=gangs.get(server.pk, {}),
            memberships=memberships,
            ran_bytes=ran_bytes,
        )
        for server in servers
    ]


def desired_message(orders: ServerOrders, *, at: datetime) -> str:
    """Return the sealed desired state of one server."""
    server = orders.server
    desired = DesiredState(
        lease_ttl_s=settings.LEASE_TTL_S,
        acknowledged_sequence=server.report_sequence,
        attempts=tuple(_attempts(orders)),
    )
    return seal(
        key=bytes.fromhex(server.key_hex),
        direction="desired",
        server=server.pk,
        stamp=Stamp(epoch=orders.epoch, generation=server.generation, sequence=server.sent_sequence),
        now_s=at.timestamp(),
        body=desired.to_json(),
    )


def _ran_bytes(attempt_ids: Sequence[str]) -> dict[tuple[str, str], int]:
    """Return the memory of the last run of parked attempts, by attempt and server."""
    ran = Lease.objects.filter(attempt__in=attempt_ids, num_gpus__gte=1).order_by("opened_at", "pk")
    rows = ran.values_list("attempt_id", "server_id", "memory_bytes")
    return {(attempt_id, server_id): memory_bytes for attempt_id, server_id, memory_bytes in rows}


def _attempts(orders: ServerOrders) -> list[AttemptWanted]:
    """Return the open attempts of a server, oldest first, as far as their files fit."""
    wanted: list[AttemptWanted] = []
    files_bytes = 0
    for attempt in _orders(orders):
        files_bytes += sum(len(text.encode()) for text in attempt.files.values())
        # Launches that do not fit have not started, so leaving them out stops nothing; they follow when the others run.
        # Oldest first, so that a launch that was sent is never left out again.
        if not attempt.files or files_bytes <= FILES_MOST_BYTES or not any(other.files for other in wanted):
            wanted.append(attempt)
    return wanted


def _orders(orders: ServerOrders) -> Iterator[AttemptWanted]:
    """Yield what the server runs: one order per lease, for a gang one per process."""
    for lease in orders.leases:
        # Of a parked attempt that of its last run: a checkpoint needs more than it keeps.
        limit_bytes = max(lease.memory_bytes, orders.ran_bytes.get((lease.attempt_id, lease.server_id), 0))
        whole = _attempt(lease, memory_bytes=limit_bytes)
        if not hasattr(lease.attempt, "gang"):
            yield whole
        elif members := orders.gangs.get(lease.attempt_id):
            yield from _members(whole, lease, members, orders.memberships[lease.attempt_id])


def _members(
    whole: AttemptWanted, lease: Lease, members: Sequence[GangMember], membership: Sequence[str]
) -> Iterator[AttemptWanted]:
    """Yield the order of each process of a gang on one server; they share cores and bytes evenly."""
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


def _attempt(lease: Lease, *, memory_bytes: int) -> AttemptWanted:
    attempt = lease.attempt
    spec = JobSpec.parse(attempt.job.spec)
    gpus = [held.gpu for held in lease.gpus.all()]
    return AttemptWanted(
        attempt_id=attempt.id,
        job_id=attempt.job_id,
        number=attempt.number,
        queue_id=attempt.job.queue_id,
        wanted=WANTED[attempt.wanted],
        generation=lease.generation,
        gpu_indexes=tuple(gpu.index for gpu in gpus),
        gpu_uuids=tuple(gpu.uuid for gpu in gpus),
        cpu_ids=tuple(lease.cpu_ids),
        memory_bytes=memory_bytes,
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
