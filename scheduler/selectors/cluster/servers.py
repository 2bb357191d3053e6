"""Reads of servers and their GPUs. A server's key is in none of them.

Everybody who is signed in sees the machines; whose job holds a GPU only those who see the job.
"""

from collections import defaultdict
from typing import Any

from django.db.models import Q, Sum

from scheduler.core.model.errors import NotFound
from scheduler.models import Gpu, Lease, LeaseGpu, Server
from scheduler.selectors.evidence import ANOTHER_QUEUE
from scheduler.selectors.times import iso
from scheduler.selectors.visibility import Access, Actor, access_of

Row = dict[str, Any]  # JSON


def server_list(user: Actor) -> list[Row]:
    """Return every server as a row with its GPUs, in the order in which they were added."""
    if not (user.is_authenticated and user.is_active):
        return []
    return _rows(list(Server.objects.defer("key_hex").order_by("number")), access_of(user))


def device_kinds(user: Actor) -> list[str]:
    """Return the device kind of every server, in the order in which they were added, by one query."""
    return [server.device_kind for server in servers_in_short(user)]


def servers_in_short(user: Actor) -> list[Server]:
    """Return every server with what kind it is and whether it is simulated alone, by one query."""
    if not (user.is_authenticated and user.is_active):
        return []
    return list(Server.objects.only("device_kind", "agent_version").order_by("number"))


def gpu_map(user: Actor) -> list[Row]:
    """Return every server with its GPUs and who holds them: the rows of ``server_list``."""
    return server_list(user)


def server_detail(user: Actor, server_id: str) -> Row:
    """Return one server by id or name, with the cores and bytes that are given.

    Raises:
        NotFound: There is none, or nobody is signed in.
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
        **_rows([server], access_of(user))[0],
        "allocated_cpus": given["cpus"] or 0.0,
        "allocated_memory_bytes": given["memory_bytes"] or 0,
        "generation": server.generation,
        "acked_generation": server.acked_generation,
        "rejected_reports": server.rejected_reports,
        "created_at": iso(server.created_at),
    }


def _rows(servers: list[Server], access: Access) -> list[Row]:
    """Return the rows by two more queries, however many servers there are."""
    pks = [server.pk for server in servers]
    holders = _holders(pks, access)
    gpus: dict[str, list[Row]] = defaultdict(list)
    for gpu in Gpu.objects.filter(server_id__in=pks).order_by("server_id", "index"):
        gpus[gpu.server_id].append(_gpu_row(gpu, holders.get(gpu.pk)))
    return [_row(server, gpus[server.pk]) for server in servers]


def _holders(server_pks: list[str], access: Access) -> dict[int, Row]:
    """Return who holds each GPU, by its row, and who shares it as a guest; who may not be seen has no name."""
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
    holders: dict[int, Row] = {}
    for gpu_pk, job_pk, number, name, owner, queue_pk, queue, color_slot, slot in found.order_by("slot"):
        job = {"id": job_pk, "number": number, "name": name, "owner": owner} if access.sees(queue_pk) else None
        if slot > 0 and gpu_pk in holders:
            holders[gpu_pk]["guest"] = job
            continue
        seen = {"queue": queue, "color_slot": color_slot} if job else {"queue": ANOTHER_QUEUE, "color_slot": 0}
        holders[gpu_pk] = {"job": job, "guest": None, **seen}
    return holders


def _gpu_row(gpu: Gpu, holder: Row | None) -> Row:
    return {
        "index": gpu.index,
        "model": gpu.model,
        "memory_bytes": gpu.memory_bytes,
        "healthy": gpu.healthy,
        "health_reason": gpu.health_reason,
        "allocated": holder is not None,
        "utilization_frac": gpu.utilization_frac,
        "used_memory_bytes": gpu.used_memory_bytes,
        "temperature_c": gpu.temperature_c,
        **(holder or {"job": None, "guest": None, "queue": None, "color_slot": None}),
    }


def _row(server: Server, gpus: list[Row]) -> Row:
    return {
        "id": server.pk,
        "number": server.number,
        "name": server.name,
        "rack": server.rack,
        "state": server.state,
        "state_reason": server.state_reason,
        "state_changed_at": iso(server.state_changed_at),
        "device_kind": server.device_kind,
        "simulated": server.is_simulated,
        "num_cpus": server.num_cpus,
        "memory_bytes": server.memory_bytes,
        "isolation": server.isolation,
        "agent_version": server.agent_version,
        "last_report_at": iso(server.last_report_at),
        "num_gpus": len(gpus),
        "allocated_gpus": sum(gpu["allocated"] for gpu in gpus),
        "broken_gpus": sum(not gpu["healthy"] for gpu in gpus),
        "gpus": gpus,
    }
