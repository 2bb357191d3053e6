"""What is free on the servers right now, while a plan is applied.

A plan counts the GPUs of leaving jobs as free; here they are free only once those jobs are gone. Decides which logical
CPUs a lease is pinned to: its own for whole cores, the least used one for a part of a core.
"""

from collections import Counter
from dataclasses import dataclass, field

from scheduler.models import Gpu, Lease, LeaseGpu, Server
from scheduler.models.server import ServerState

SLACK = 1e-6


@dataclass(slots=True)
class ServerRoom:
    """What is free on one server that is up.

    Attributes:
        device_kind: ``gpu`` or ``cpu_slot``.
        num_cpus: Logical CPUs on offer, numbered from 0.
        free_cpus, free_memory_bytes: In no open lease.
        gpus: Primary key of each healthy GPU by index.
        free_gpus: Indexes of healthy GPUs in no open lease.
        pinned: How many open leases are pinned to each logical CPU.
    """

    device_kind: str
    num_cpus: int
    free_cpus: float
    free_memory_bytes: float
    gpus: dict[int, int] = field(default_factory=dict)
    free_gpus: set[int] = field(default_factory=set)
    pinned: Counter[int] = field(default_factory=Counter)

    def has(self, *, cpus: float, memory_bytes: float) -> bool:
        """Return whether so much is free now."""
        return cpus <= self.free_cpus + SLACK and memory_bytes <= self.free_memory_bytes + SLACK

    def take(self, *, cpus: float, memory_bytes: float, keep: tuple[int, ...] = ()) -> tuple[int, ...]:
        """Take cores and bytes and return the logical CPUs, of which those in ``keep`` come first."""
        self.free_cpus -= cpus
        self.free_memory_bytes -= memory_bytes
        count = min(self.num_cpus, max(1, int(cpus + SLACK)))
        own = [cpu for cpu in keep if cpu < self.num_cpus][:count]
        others = sorted(set(range(self.num_cpus)) - set(own), key=lambda cpu: (self.pinned[cpu], cpu))
        chosen = tuple(sorted(own + others[: count - len(own)]))
        self.pinned.update(chosen)
        return chosen

    def give_back(self, *, cpus: float, memory_bytes: float, cpu_ids: tuple[int, ...]) -> None:
        """Return the cores and bytes of one lease."""
        self.free_cpus += cpus
        self.free_memory_bytes += memory_bytes
        self.pinned.subtract(cpu_ids)


def room_read() -> dict[str, ServerRoom]:
    """Return what is free on every server that is up, by server id."""
    rooms = {
        pk: ServerRoom(
            device_kind=device_kind,
            num_cpus=num_cpus,
            free_cpus=float(num_cpus),
            free_memory_bytes=float(memory_bytes),
        )
        for pk, device_kind, num_cpus, memory_bytes in Server.objects.filter(state=ServerState.UP)
        .order_by("number")
        .values_list("pk", "device_kind", "num_cpus", "memory_bytes")
    }
    for pk, server_id, index in Gpu.objects.filter(healthy=True, server_id__in=rooms).values_list(
        "pk", "server_id", "index"
    ):
        rooms[server_id].gpus[index] = pk
        rooms[server_id].free_gpus.add(index)
    leases = Lease.objects.filter(closed_at=None, server_id__in=rooms)
    for server_id, cpus, memory_bytes, cpu_ids in leases.values_list("server_id", "cpus", "memory_bytes", "cpu_ids"):
        rooms[server_id].free_cpus -= cpus
        rooms[server_id].free_memory_bytes -= memory_bytes
        rooms[server_id].pinned.update(cpu_ids)
    held = LeaseGpu.objects.filter(released_at=None, gpu__server_id__in=rooms)
    for server_id, index in held.values_list("gpu__server_id", "gpu__index"):
        rooms[server_id].free_gpus.discard(index)
    return rooms
