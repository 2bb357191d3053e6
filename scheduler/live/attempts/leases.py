"""Leases of an attempt, and the generations of its servers.

Raising a server's generation and writing its leases belong to one transaction: the agent acts on the newest generation
only, so no GPU is used by two attempts. Held right by the constraints of ``LeaseGpu`` and by ``tests/faults``.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import F

from scheduler.models import Attempt, Lease, LeaseGpu, Server
from scheduler.selectors.times import seconds_between


def generations_raise(server_ids: Iterable[str]) -> dict[str, int]:
    """Raise the generation of the servers by one and return the new ones by server id."""
    ids = sorted(set(server_ids))
    if not ids:
        return {}
    Server.objects.filter(pk__in=ids).update(generation=F("generation") + 1)
    return dict(Server.objects.filter(pk__in=ids).values_list("pk", "generation"))


def servers_of(attempt_id: str) -> list[str]:
    """Return the ids of the servers on which the attempt has an open lease."""
    return list(
        Lease.objects.filter(attempt_id=attempt_id, closed_at=None)
        .order_by("server_id")
        .values_list("server_id", flat=True)
    )


def attempt_retell(attempt_id: str) -> list[str]:
    """Raise the generation of the attempt's servers and open leases; return the ids of the servers to tell."""
    server_ids = servers_of(attempt_id)
    for server_id, generation in generations_raise(server_ids).items():
        Lease.objects.filter(attempt_id=attempt_id, server_id=server_id, closed_at=None).update(generation=generation)
    return server_ids


@dataclass(frozen=True, slots=True, kw_only=True)
class NewLease:
    """What an attempt gets on one server, before it is a row.

    Attributes:
        gpu_pks: Rows of ``Gpu``, at least one.
        cpus: Cores; ``cpu_ids`` are the logical CPUs they are pinned to.
        slot: Place on the GPUs: 1 for the guest of a packed pair, else 0.
    """

    server_id: str
    gpu_pks: tuple[int, ...]
    cpus: float
    cpu_ids: tuple[int, ...]
    memory_bytes: int
    slot: int = 0


def leases_open(
    attempt: Attempt, leases: Iterable[NewLease], *, epoch: int, generations: Mapping[str, int], at: datetime
) -> None:
    """Give an attempt its GPUs, cores and bytes."""
    leases_create([(attempt, new, epoch, generations[new.server_id]) for new in leases], at=at)


def leases_create(given: Sequence[tuple[Attempt, NewLease, int, int]], *, at: datetime) -> None:
    """Write leases, each with its attempt, epoch and generation of the server, and their GPUs."""
    rows = Lease.objects.bulk_create(
        Lease(
            attempt=attempt,
            server_id=new.server_id,
            num_gpus=len(new.gpu_pks),
            cpus=new.cpus,
            cpu_ids=list(new.cpu_ids),
            memory_bytes=new.memory_bytes,
            epoch=epoch,
            generation=generation,
            opened_at=at,
        )
        for attempt, new, epoch, generation in given
    )
    LeaseGpu.objects.bulk_create(
        LeaseGpu(lease=lease, gpu_id=pk, slot=new.slot)
        for lease, (_, new, _, _) in zip(rows, given, strict=True)
        for pk in new.gpu_pks
    )


def service_of(attempt: Attempt, *, at: datetime) -> tuple[float, float]:
    """Return how long it has held its present GPUs and how long it has run on them, seconds."""
    leases = Lease.objects.filter(attempt=attempt, closed_at=None, num_gpus__gte=1)
    opened_at = leases.order_by("opened_at").values_list("opened_at", flat=True).first()
    if opened_at is None:
        return 0.0, 0.0
    used_s = seconds_between(max(opened_at, attempt.started_at), at) if attempt.started_at else 0.0
    return seconds_between(opened_at, at), used_s
