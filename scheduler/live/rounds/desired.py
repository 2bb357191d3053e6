"""Sends each server its whole desired state as a signed message, again until its agent works on it.

Repeats also renew the leases. A lost message is no error: the next renewal says the same.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import get_args

from django.conf import settings
from django.db import transaction
from django.db.models import F, Prefetch

from agents.protocol.environments import KINDS, MOST_ENVIRONMENTS, PACKED_CHARS, EnvironmentWanted, files_pack
from agents.protocol.job_secret import JobSecret
from agents.protocol.ports import Transport
from agents.protocol.sealing import secrets_seal
from agents.protocol.signing import MAX_MESSAGE_BYTES, AttemptWanted, DesiredState, Stamp, Wanted, seal
from scheduler.core.spec.spec import JobSpec
from scheduler.live.gangs.membership import gang_order, members_by_server, memberships_of
from scheduler.live.steps import for_each
from scheduler.models import Attempt, Job, Lease, LeaseGpu, Server, ServerEnvironment
from scheduler.models.gang import GangMember
from scheduler.models.job import AttemptState
from scheduler.models.server import EnvironmentState
from scheduler.services.cluster.settings import cluster_row
from scheduler.services.failures import is_away
from scheduler.services.secrets.crypt import SecretUnreadable
from scheduler.services.secrets.use import secrets_of_jobs, secrets_open

log = logging.getLogger(__name__)

# Kept of each attempt's log; older output is dropped.
LOG_BYTES = 64 * 1024**2
# Limit for files and secrets in one message; launches beyond it follow in later messages.
LARGE_MOST_BYTES = MAX_MESSAGE_BYTES // 2
SERVERS_AT_ONCE = 50  # read in one transaction, which keeps their reports waiting
SENT_CHARS = 1024**2  # messages are sent together once they are longer than this
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
        secrets: Values for attempts that may still start, by attempt; None where they cannot be had any more.
        environments: Those that it is to have, oldest request first.
    """

    server: Server
    epoch: int
    leases: Sequence[Lease]
    gangs: Mapping[str, Sequence[GangMember]]
    memberships: Mapping[str, tuple[str, ...]]
    ran_bytes: Mapping[tuple[str, str], int]
    secrets: Mapping[str, tuple[JobSecret, ...] | None] = field(default_factory=dict, repr=False)
    environments: Sequence[ServerEnvironment] = ()


def desired_send(server_ids: Iterable[str], *, transport: Transport, at: datetime) -> None:
    """Send the servers their desired state; one that misses it reports an old generation and gets it again.

    Raises the first failure when all servers have been tried.
    """

    def send_batch(ids: Sequence[str]) -> None:
        try:
            batch = orders_read(ids)
        except Exception as error:
            if len(ids) == 1 or is_away(error):
                raise
            for_each([[server_id] for server_id in ids], send_batch)  # singly: a bad one stops no other
        else:
            _send(batch, transport=transport, at=at)

    ids = sorted(set(server_ids))
    for_each([ids[start : start + SERVERS_AT_ONCE] for start in range(0, len(ids), SERVERS_AT_ONCE)], send_batch)


def _send(batch: Sequence[ServerOrders], *, transport: Transport, at: datetime) -> None:
    messages: dict[str, str] = {}

    def flush() -> None:
        try:
            transport.send_desired(messages)
        except ConnectionError as error:
            log.warning("desired_states_not_sent", extra={"servers": sorted(messages), "error": str(error)})
        messages.clear()

    def add(orders: ServerOrders) -> None:
        messages[orders.server.pk] = desired_message(orders, at=at)
        if sum(map(len, messages.values())) > SENT_CHARS:
            flush()

    try:
        for_each(batch, add)
    finally:  # one that cannot be told keeps back no other
        flush()


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
    secrets = _secrets([lease.attempt for lease in rows])
    environments: dict[str, list[ServerEnvironment]] = defaultdict(list)
    wanted = ServerEnvironment.objects.filter(server__in=server_ids, is_wanted=True)
    for row in wanted.exclude(state=EnvironmentState.FAILED).select_related("environment").order_by("pk"):
        environments[row.server_id].append(row)
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
            secrets=secrets,
            environments=environments[server.pk],
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
        environments=tuple(_environments(orders.environments)),
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
    """Return the open attempts of a server, oldest first, as far as their files and secrets fit."""
    wanted: list[AttemptWanted] = []
    large_bytes = 0
    for attempt in _orders(orders):
        large_bytes += len(attempt.sealed) + sum(len(text.encode()) for text in attempt.files.values())
        # Launches that do not fit have not started, so leaving them out stops nothing; they follow when the others run.
        # Oldest first, so that a launch that was sent is never left out again.
        is_small = not (attempt.files or attempt.sealed)
        if is_small or large_bytes <= LARGE_MOST_BYTES or not any(other.files or other.sealed for other in wanted):
            wanted.append(attempt)
    return wanted


def _environments(rows: Sequence[ServerEnvironment]) -> Iterator[EnvironmentWanted]:
    """Yield what a server is to have, with the files of what it does not have yet as far as these fit."""
    packed_chars = 0
    for row in rows[:MOST_ENVIRONMENTS]:
        packed = "" if row.state == EnvironmentState.READY else files_pack(row.environment.files)
        packed_chars += len(packed)
        if not packed or packed_chars <= PACKED_CHARS:  # the rest follows when environments before it are built
            yield EnvironmentWanted(
                digest=row.environment_id,
                ask=row.pk,
                queue_id=row.environment.queue_id,
                kind=KINDS[KINDS.index(row.environment.kind)],
                packed=packed,
            )


def _orders(orders: ServerOrders) -> Iterator[AttemptWanted]:
    """Yield what the server runs: one order per lease, for a gang one per process."""
    for lease in orders.leases:
        # A parked attempt may use what its last run might: writing a checkpoint takes more memory than its lease keeps.
        limit_bytes = max(lease.memory_bytes, orders.ran_bytes.get((lease.attempt_id, lease.server_id), 0))
        whole = _attempt(lease, memory_bytes=limit_bytes)
        secrets = orders.secrets.get(lease.attempt_id, ())
        if secrets is None:
            continue  # gone since the attempt was opened: it is not confirmed, and its next start says why
        if not hasattr(lease.attempt, "gang"):
            yield _sealed(whole, secrets, server=orders.server)
        elif members := orders.gangs.get(lease.attempt_id):
            starting = {member.pk for member in members if member.started_at is None}
            for one in _members(whole, lease, members, orders.memberships[lease.attempt_id]):
                yield _sealed(one, secrets if one.attempt_id in starting else (), server=orders.server)


def _sealed(order: AttemptWanted, secrets: tuple[JobSecret, ...], *, server: Server) -> AttemptWanted:
    if not secrets:
        return order
    key = bytes.fromhex(server.key_hex)
    return replace(order, sealed=secrets_seal(key=key, server=server.pk, attempt_id=order.attempt_id, secrets=secrets))


def _secrets(attempts: Sequence[Attempt]) -> dict[str, tuple[JobSecret, ...] | None]:
    """Return the secrets of attempts that may still start; of those that run the agent needs none."""
    starting = [
        attempt
        for attempt in attempts
        if attempt.job.names_secrets and (attempt.state == AttemptState.LAUNCHING or hasattr(attempt, "gang"))
    ]
    if not starting:
        return {}
    jobs = Job.objects.select_related("owner", "queue").filter(pk__in=[attempt.job_id for attempt in starting])
    found = secrets_of_jobs(list(jobs))
    opened: dict[str, tuple[JobSecret, ...] | None] = {}
    for attempt in starting:
        try:
            opened[attempt.pk] = secrets_open(found[attempt.job_id])
        except SecretUnreadable as error:
            log.warning("secret_gone", extra={"attempt": attempt.pk, "problem": str(error)})
            opened[attempt.pk] = None
    return opened


def _members(
    whole: AttemptWanted, lease: Lease, members: Sequence[GangMember], membership: Sequence[str]
) -> Iterator[AttemptWanted]:
    """Yield the order of each process of a gang on one server; they share cores and bytes evenly."""
    size, cores = len(members), whole.cpu_ids
    for place, member in enumerate(members):
        own = cores[place * len(cores) // size : (place + 1) * len(cores) // size]
        has_server = bool(member.gang.hosts)
        resumes = has_server or member.pk == lease.attempt_id  # else the leader hands over its state
        is_parked = not whole.gpu_indexes
        yield replace(
            whole,
            attempt_id=member.pk,
            gpu_indexes=whole.gpu_indexes if has_server or is_parked else (member.gpu.index,),
            gpu_uuids=whole.gpu_uuids if has_server or is_parked else (member.gpu.uuid,),
            cpu_ids=own or cores[place % max(1, len(cores)) :][:1],
            memory_bytes=whole.memory_bytes // size,
            files=whole.files if member.started_at is None else {},
            resume_attempt_id=whole.resume_attempt_id if resumes else "",
            resume_name=whole.resume_name if resumes else "",
            gang=gang_order(member, membership),
        )


def _measure_above(attempt: Attempt) -> int | None:
    """Return the cores above which to measure the attempt; None when not, or already measured."""
    measurement = getattr(attempt, "measurement", None)  # a row of its own, which most attempts lack
    return measurement.above_cpus if measurement is not None and measurement.measured_at is None else None


def array_env(job: Job, spec: JobSpec) -> dict[str, str]:
    """Return the variables that tell a job of an array which one it is."""
    if spec.array is None or job.array_index is None or job.array_number is None:
        return {}
    return spec.array.env(job.array_index, job.array_number)


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
        env=spec.env | array_env(attempt.job, spec),
        # Written to its directory when it starts.
        files=dict(spec.files) if attempt.state == AttemptState.LAUNCHING or hasattr(attempt, "gang") else {},
        grace_s=spec.checkpoint.grace_s,
        stop_signal=spec.checkpoint.signal,
        max_duration_s=spec.schedule.max_duration_s,
        warn_before_s=spec.schedule.warn_before_s or 0.0,
        stall_s=spec.progress.stall_s,
        resume_attempt_id=attempt.resume_attempt_id,
        resume_name=attempt.resume_name,
        measure_above=_measure_above(attempt),
        code=spec.code.manifest if spec.code is not None else "",
        environment=attempt.job.environment_id or "",
        venv=spec.python.venv if spec.python is not None else "",
    )
