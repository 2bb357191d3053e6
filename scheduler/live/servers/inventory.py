"""Writes what a server's agent reports of its devices, cores and memory, and the server's state.

Decides when a server is up: when its agent works on the present desired state. What it reports is written as it is, but
for a size that grew too far: that waits for an admin.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypedDict

from agents.protocol.signing import DeviceReport, ServerReport
from scheduler.models import Event, Gpu, Server
from scheduler.models.server import ServerState
from scheduler.notify import request_round, touch_cluster
from scheduler.services.many_rows import RowChange, rows_update

WAS_DRAINING = "draining before it was lost"
NOT_REPORTED = "no longer reported by the server"
# Columns of a server and of its GPUs that a report fills under the same names.
OFFERED = ("device_kind", "num_cpus", "memory_bytes", "isolation", "agent_version", "address", "python")
IDENTITY = ("uuid", "model", "memory_bytes", "healthy", "health_reason")
MEASURED = ("utilization_frac", "used_memory_bytes", "temperature_c")
NVML_IDS = ("GPU-", "MIG-")  # an id with this beginning is that of one device in the world
MOST_GROWTH = 2  # times the size that is trusted; more waits for an admin


class Size(TypedDict):
    """How large a server is; ``gpu_memory_bytes`` is of its largest device."""

    num_cpus: int
    memory_bytes: int
    num_gpus: int
    gpu_memory_bytes: int


def server_move(server: Server, *, to: ServerState, at: datetime, actor: str, reason: str, detail: str = "") -> None:
    """Write a server's state with its event."""
    before = server.state
    server.state, server.state_reason, server.state_changed_at = to, detail[:500], at
    server.save(update_fields=["state", "state_reason", "state_changed_at"])
    Event.objects.create(
        at=at,
        kind="server_state",
        actor=actor,
        server=server,
        old_state=before,
        new_state=to,
        reason=reason,
        data={"detail": detail} if detail else {},
    )
    request_round("server")
    touch_cluster()


def server_is_back(server: Server, *, at: datetime) -> None:
    """Set a joining or lost server up: its agent works on the present desired state."""
    if server.state not in (ServerState.JOINING, ServerState.LOST):
        return
    was_draining = server.state_reason.startswith(WAS_DRAINING)
    to = ServerState.DRAINING if was_draining else ServerState.UP
    server_move(server, to=to, at=at, actor=f"agent {server.name}", reason="reported")


def size_said(report: ServerReport) -> Size:
    """Return how large a server says it is."""
    return {
        "num_cpus": report.num_cpus,
        "memory_bytes": report.memory_bytes,
        "num_gpus": len(report.devices),
        "gpu_memory_bytes": max((device.memory_bytes for device in report.devices), default=0),
    }


def size_of(server: Server) -> Size:
    """Return how large a server is believed to be."""
    memories = list(server.gpus.values_list("memory_bytes", flat=True))
    return {
        "num_cpus": server.num_cpus,
        "memory_bytes": server.memory_bytes,
        "num_gpus": len(memories),
        "gpu_memory_bytes": max(memories, default=0),
    }


def is_trusted(server: Server, report: ServerReport) -> bool:
    """Return whether a server's size is believed: at most twice what it reported first or an admin confirmed."""
    said, trusted = size_said(report), server.trusted_size
    return (
        bool(trusted)
        and said["num_cpus"] <= MOST_GROWTH * trusted["num_cpus"]
        and said["memory_bytes"] <= MOST_GROWTH * trusted["memory_bytes"]
        and said["num_gpus"] <= MOST_GROWTH * trusted["num_gpus"]
        and said["gpu_memory_bytes"] <= MOST_GROWTH * trusted["gpu_memory_bytes"]
    )


def inventory_update(server: Server, report: ServerReport, *, at: datetime) -> None:
    """Write capacity and measured values; ask for a round when the capacity changed.

    Of a size that is not believed only what shrank is written: work that does not fit must not be placed, and a forged
    or wrong report must not draw work to a server.
    """
    if not server.trusted_size:
        server.trusted_size = size_of(server) if server.num_cpus else size_said(report)
        server.save(update_fields=["trusted_size"])
    claimed = None if is_trusted(server, report) else size_said(report)
    if claimed != server.claimed_size:
        _claimed_write(server, claimed, at=at)
    if claimed is not None:
        report = _no_larger(server, report)
    report = replace(report, devices=_offered_once(server, report.devices))
    changed = offered_changes(server, report)
    if changed:
        for name in changed:
            setattr(server, name, getattr(report, name))
        server.save(update_fields=changed)
    if _devices_update(server, report.devices, at=at) or changed:
        request_round("server")
        touch_cluster()


def offered_changes(server: Server, report: ServerReport) -> list[str]:
    """Return the columns of a server that a report changes."""
    return [name for name in OFFERED if getattr(server, name) != getattr(report, name)]


def _claimed_write(server: Server, claimed: Size | None, *, at: datetime) -> None:
    """Keep the size that waits for an admin, or forget it; a new one is an event."""
    is_new = claimed is not None and server.claimed_size is None
    server.claimed_size = claimed
    server.save(update_fields=["claimed_size"])
    touch_cluster()
    if is_new:
        data = {"believed": size_of(server), "claimed": claimed}
        Event.objects.create(
            at=at, kind="server_size", actor=f"agent {server.name}", server=server, reason="claimed", data=data
        )


def _no_larger(server: Server, report: ServerReport) -> ServerReport:
    """Return the report with nothing in it larger than what is known of the server."""
    known = {gpu.index: gpu.memory_bytes for gpu in server.gpus.all()}
    devices = tuple(
        replace(device, memory_bytes=min(device.memory_bytes, known[device.index]))
        for device in report.devices
        if device.index in known
    )
    return replace(
        report,
        num_cpus=min(report.num_cpus, server.num_cpus),
        memory_bytes=min(report.memory_bytes, server.memory_bytes),
        devices=devices,
    )


def _offered_once(server: Server, devices: tuple[DeviceReport, ...]) -> tuple[DeviceReport, ...]:
    """Return the devices, those unhealthy that another server offers too, or two jobs would be given one GPU.

    The server that offered it first keeps it. A server that is lost, or says that its device is broken, offers nothing.
    """
    ids = [device.uuid for device in devices if device.healthy and device.uuid.startswith(NVML_IDS)]
    others = Gpu.objects.filter(uuid__in=ids, healthy=True, server__removed_at=None).exclude(server=server)
    offers = others.exclude(server__state=ServerState.LOST) if ids else Gpu.objects.none()
    name_of = dict(offers.values_list("uuid", "server__name"))
    return tuple(
        replace(device, healthy=False, health_reason=f"{name_of[device.uuid]} offers the same GPU")
        if device.healthy and device.uuid in name_of
        else device
        for device in devices
    )


def _devices_update(server: Server, devices: tuple[DeviceReport, ...], *, at: datetime) -> bool:
    """Write the devices; return whether one came, went, or changed its health or kind."""
    known = {gpu.index: gpu for gpu in server.gpus.all()}
    measured: list[RowChange] = []
    is_changed = False
    for device in devices:
        if device.index in known and known[device.index].uuid != device.uuid:
            # Two devices may have swapped indexes: free the unique ids first.
            Gpu.objects.filter(pk=known[device.index].pk).update(uuid=f"was-{known[device.index].pk}")
    for device in devices:
        gpu = known.pop(device.index, None)
        if gpu is None:
            Gpu.objects.create(server=server, index=device.index, **_identity(device), **_measures(device, at))
            is_changed = True
            continue
        if any(getattr(gpu, name) != value for name, value in _identity(device).items()):
            Gpu.objects.filter(pk=gpu.pk).update(**_identity(device))
            is_changed = True
        if _is_measured_anew(gpu, device):
            measured.append((gpu.pk, _measures(device, at)))
    rows_update(Gpu, measured)
    gone = [gpu.pk for gpu in known.values() if gpu.healthy]
    if gone:
        Gpu.objects.filter(pk__in=gone).update(healthy=False, health_reason=NOT_REPORTED)
    return is_changed or bool(gone)


def measures_only(known: Mapping[int, Gpu], devices: Sequence[DeviceReport], *, at: datetime) -> list[RowChange] | None:
    """Return the measured values to write; None where a device came, went, or changed in more than these."""
    told = {device.index for device in devices}
    if any(gpu.healthy for index, gpu in known.items() if index not in told):
        return None
    changes: list[RowChange] = []
    for device in devices:
        gpu = known.get(device.index)
        if gpu is None or any(getattr(gpu, name) != getattr(device, name) for name in IDENTITY):
            return None
        if _is_measured_anew(gpu, device):
            changes.append((gpu.pk, _measures(device, at)))
    return changes


def _is_measured_anew(gpu: Gpu, device: DeviceReport) -> bool:
    return any(getattr(gpu, name) != getattr(device, name) for name in MEASURED)


def _identity(device: DeviceReport) -> dict[str, Any]:
    return {name: getattr(device, name) for name in IDENTITY}


def _measures(device: DeviceReport, at: datetime) -> dict[str, Any]:
    return {name: getattr(device, name) for name in MEASURED} | {"measured_at": at}
