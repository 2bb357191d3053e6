"""Reads of servers and their GPUs; no row holds a server's key.

Every signed-in user sees the servers. The job on a GPU is named only to users who may see the job.
"""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Exists, OuterRef, Q, QuerySet, Sum
from django.utils import timezone

from scheduler.core.model.errors import NotFound
from scheduler.models import Gpu, Lease, LeaseGpu, Server
from scheduler.models.server import ServerState
from scheduler.selectors.cluster.rows import GpuRow, HolderRow, ServerDetailRow, ServerRow
from scheduler.selectors.evidence import ANOTHER_QUEUE
from scheduler.selectors.times import iso
from scheduler.selectors.visibility import Access, Actor, access_of

FRESH_AT_LEAST_S = 5.0  # a report comes each second


@dataclass(slots=True, kw_only=True)
class _Holders:
    """The jobs on one GPU as the reader may see them."""

    job: HolderRow | None
    queue: str
    color_slot: int
    guest: HolderRow | None = None


def fresh_from(at: datetime) -> datetime:
    """Return from when on a report still tells how the GPUs of its server are used: for a third of a lease."""
    return at - timedelta(seconds=max(FRESH_AT_LEAST_S, settings.LEASE_TTL_S / 3))


def silent_s(server: Server, at: datetime) -> int | None:
    """Return the age of a server's newest report where that is no longer fresh; None also before the first one."""
    told_at = server.last_report_at
    return int((at - told_at).total_seconds()) if told_at and told_at < fresh_from(at) else None


def server_list(user: Actor, at: datetime | None = None) -> list[ServerRow]:
    """Return every server as a row with its GPUs, in the order in which they were added."""
    if not (user.is_authenticated and user.is_active):
        return []
    return _rows(list(Server.objects.defer("key_hex").order_by("number")), access_of(user), at)


def device_kinds(user: Actor) -> list[str]:
    """Return the device kinds of the servers that have reported, each once, by one query."""
    if not (user.is_authenticated and user.is_active):
        return []
    reported = Server.objects.exclude(last_report_at=None).order_by("device_kind")
    return list(reported.values_list("device_kind", flat=True).distinct())


def gpu_count() -> int:
    """Return how many GPUs the servers have, in whatever state they are, by one query."""
    return Gpu.objects.filter(server__removed_at=None).count()


def servers_in_short(user: Actor) -> list[Server]:
    """Return every server with its name, device kind, claimed size and whether it is simulated, by one query."""
    if not (user.is_authenticated and user.is_active):
        return []
    return list(
        Server.objects.only("name", "device_kind", "agent_version", "claimed_size", "last_report_at").order_by("number")
    )


def gpu_map(user: Actor, at: datetime | None = None) -> list[ServerRow]:
    """Return every server with its GPUs and the jobs on them: the rows of ``server_list``."""
    return server_list(user, at)


def server_detail(user: Actor, server_id: str, at: datetime | None = None) -> ServerDetailRow:
    """Return one server by id or name, with the cores and bytes that open leases hold.

    Raises:
        NotFound: There is none, or ``user`` is not signed in.
    """
    is_reader = user.is_authenticated and user.is_active
    named = Q(pk=server_id) | Q(name=server_id)
    server = Server.objects.defer("key_hex").filter(named).first() if is_reader and "\x00" not in server_id else None
    if server is None:
        raise NotFound(f"There is no server {server_id[:63]!r}.")
    given = Lease.objects.filter(server=server, closed_at__isnull=True).aggregate(
        cpus=Sum("cpus"), memory_bytes=Sum("memory_bytes")
    )
    return {
        **_rows([server], access_of(user), at)[0],
        "allocated_cpus": given["cpus"] or 0.0,
        "allocated_memory_bytes": given["memory_bytes"] or 0,
        "generation": server.generation,
        "acked_generation": server.acked_generation,
        "rejected_reports": server.rejected_reports,
        "claimed_size": server.claimed_size,
        "other_servers_up": _offered().exclude(pk=server.pk).count(),
        "created_at": iso(server.created_at),
    }


def _offered() -> QuerySet[Server]:
    """Return the servers on which rounds may start jobs."""
    works = Gpu.objects.filter(server=OuterRef("pk"), healthy=True)
    return Server.objects.filter(Exists(works), state=ServerState.UP)


def _rows(servers: list[Server], access: Access, at: datetime | None) -> list[ServerRow]:
    """Return the rows by two more queries, however many servers there are."""
    silent = {server.pk: silent_s(server, at or timezone.now()) for server in servers}
    pks = [server.pk for server in servers]
    holders = _holders(pks, access)
    gpus: dict[str, list[GpuRow]] = defaultdict(list)
    for gpu in Gpu.objects.filter(server_id__in=pks).order_by("server_id", "index"):
        gpus[gpu.server_id].append(_gpu_row(gpu, holders.get(gpu.pk), is_fresh=silent[gpu.server_id] is None))
    return [_row(server, gpus[server.pk], silent[server.pk]) for server in servers]


def _holders(server_pks: list[str], access: Access) -> dict[int, _Holders]:
    """Return the job on each GPU and the guest that shares it, by GPU; jobs that may not be seen are None."""
    open_leases = LeaseGpu.objects.filter(released_at__isnull=True, gpu__server_id__in=server_pks)
    found = open_leases.values_list(
        "gpu_id",
        "lease__attempt__job_id",
        "lease__attempt__job__number",
        "lease__attempt__job__name",
        "lease__attempt__job__owner__username",
        "lease__attempt__job__queue_id",
        "lease__attempt__job__queue__name",
        "lease__attempt__job__queue__color_slot",
        "slot",
    )
    holders: dict[int, _Holders] = {}
    for gpu_pk, job_pk, number, name, owner, queue_pk, queue, color_slot, slot in found.order_by("slot"):
        job: HolderRow | None = None
        if access.sees(queue_pk):
            job = {"id": job_pk, "number": number, "name": name, "owner": owner}
        if slot > 0 and gpu_pk in holders:
            holders[gpu_pk].guest = job
        elif job:
            holders[gpu_pk] = _Holders(job=job, queue=queue, color_slot=color_slot)
        else:
            holders[gpu_pk] = _Holders(job=None, queue=ANOTHER_QUEUE, color_slot=0)
    return holders


def _gpu_row(gpu: Gpu, held: _Holders | None, *, is_fresh: bool) -> GpuRow:
    return {
        "index": gpu.index,
        "model": gpu.model,
        "memory_bytes": gpu.memory_bytes,
        "healthy": gpu.healthy,
        "health_reason": gpu.health_reason,
        "allocated": held is not None,
        "utilization_frac": gpu.utilization_frac if is_fresh else None,
        "used_memory_bytes": gpu.used_memory_bytes if is_fresh else None,
        "temperature_c": gpu.temperature_c if is_fresh else None,
        "job": held.job if held else None,
        "guest": held.guest if held else None,
        "queue": held.queue if held else None,
        "color_slot": held.color_slot if held else None,
    }


def _row(server: Server, gpus: list[GpuRow], silent: int | None) -> ServerRow:
    is_drained = server.state == ServerState.DRAINING and not any(gpu["allocated"] for gpu in gpus)
    return {
        "id": server.pk,
        "number": server.number,
        "name": server.name,
        "rack": server.rack,
        "labels": server.labels,
        "state": server.state,
        "phase": "drained" if is_drained else server.state,
        "state_reason": server.state_reason,
        "state_changed_at": iso(server.state_changed_at),
        "device_kind": server.told_device_kind,
        "simulated": server.is_simulated,
        "num_cpus": server.num_cpus,
        "memory_bytes": server.memory_bytes,
        "isolation": server.isolation,
        "may_mix_queues": server.may_mix_queues,
        "agent_version": server.agent_version,
        "last_report_at": iso(server.last_report_at),
        "silent_s": silent,
        "num_gpus": len(gpus),
        "allocated_gpus": sum(gpu["allocated"] for gpu in gpus),
        "broken_gpus": sum(not gpu["healthy"] for gpu in gpus),
        "gpus": gpus,
    }
