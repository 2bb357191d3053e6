"""Writes what a server's agent reports of its devices, cores and memory, and the server's state.

Decides when a server is up: when its agent works on the present desired state. The report is written as it is; if it is
wrong, the agent refuses a launch.
"""

from datetime import datetime
from typing import Any

from agents.protocol.signing import DeviceReport, ServerReport
from scheduler.models import Event, Gpu, Server
from scheduler.models.server import ServerState
from scheduler.notify import request_round, touch_cluster

WAS_DRAINING = "draining before it was lost"
NOT_REPORTED = "no longer reported by the server"
# Columns of a server and of its GPUs that a report fills under the same names.
OFFERED = ("device_kind", "num_cpus", "memory_bytes", "isolation", "agent_version", "address")
IDENTITY = ("uuid", "model", "memory_bytes", "healthy", "health_reason")
MEASURED = ("utilization_frac", "used_memory_bytes", "temperature_c")


def server_move(server: Server, *, to: ServerState, at: datetime, actor: str, reason: str, detail: str = "") -> None:
    """Write a server's state with its event."""
    before = server.state
    server.state, server.state_reason, server.state_changed_at = to, detail[:200], at
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


def inventory_update(server: Server, report: ServerReport, *, at: datetime) -> None:
    """Write capacity and measured values; ask for a round when the capacity changed."""
    changed = [name for name in OFFERED if getattr(server, name) != getattr(report, name)]
    if changed:
        for name in changed:
            setattr(server, name, getattr(report, name))
        server.save(update_fields=changed)
    if _devices_update(server, report.devices, at=at) or changed:
        request_round("server")
        touch_cluster()


def _devices_update(server: Server, devices: tuple[DeviceReport, ...], *, at: datetime) -> bool:
    """Write the devices; return whether one came, went, or changed its health or kind."""
    known = {gpu.index: gpu for gpu in server.gpus.all()}
    measured, is_changed = [], False
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
        measures = _measures(device, at)
        if any(getattr(gpu, name) != value for name, value in measures.items() if name != "measured_at"):
            for name, value in measures.items():
                setattr(gpu, name, value)
            measured.append(gpu)
    if measured:
        Gpu.objects.bulk_update(measured, [*MEASURED, "measured_at"], batch_size=200)
    gone = [gpu.pk for gpu in known.values() if gpu.healthy]
    if gone:
        Gpu.objects.filter(pk__in=gone).update(healthy=False, health_reason=NOT_REPORTED)
    return is_changed or bool(gone)


def _identity(device: DeviceReport) -> dict[str, Any]:
    return {name: getattr(device, name) for name in IDENTITY}


def _measures(device: DeviceReport, at: datetime) -> dict[str, Any]:
    return {name: getattr(device, name) for name in MEASURED} | {"measured_at": at}
