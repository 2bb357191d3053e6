"""What a plan gives, and what the jobs that it keeps hold, by job and server.

Read when a plan is applied (``apply_plan.py``); nothing is written here.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from scheduler.core.model.plan import Plan
from scheduler.core.model.tables import NO_ROW
from scheduler.live.rounds.snapshot import LiveSnapshot
from scheduler.models import Lease, LeaseGpu

# Smaller changes of cores are not sent to an agent.
CPUS_STEP = 0.05


class GrantedSeat(NamedTuple):
    """What a plan gives a job on one server."""

    server_pk: str
    server: int
    num_gpus: int
    cpus: float
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptGpus:
    """GPUs of the jobs that a plan keeps; they stay whatever else happens.

    Attributes:
        indexes: GPU indexes by (job row, server row).
        slots: Place of each job on its GPUs, by job row: 1 beside a host, else 0.
    """

    indexes: dict[tuple[int, int], list[int]]
    slots: dict[int, int]


def granted_seats(live: LiveSnapshot, plan: Plan) -> dict[int, list[GrantedSeat]]:
    """Return the seats of a plan by job row."""
    seats: dict[int, list[GrantedSeat]] = defaultdict(list)
    grants = plan.grants
    for job, server, num_gpus, cpus, memory in zip(
        grants.job.tolist(),
        grants.server.tolist(),
        grants.num_gpus.tolist(),
        grants.cpus.tolist(),
        grants.memory_bytes.tolist(),
        strict=True,
    ):
        seats[job].append(
            GrantedSeat(
                server_pk=live.server_pks[server],
                server=server,
                num_gpus=num_gpus,
                cpus=cpus,
                memory_bytes=int(memory),
            )
        )
    return seats


def changed_leases(
    live: LiveSnapshot, plan: Plan, seats: Mapping[int, Sequence[GrantedSeat]]
) -> dict[tuple[int, str], Lease]:
    """Return the open leases of kept jobs that the plan gives other cores or memory, by (job row, server id)."""
    row_of = {live.attempt_pks[row]: row for row in plan.kept}
    granted = {(row, seat.server_pk): seat for row in plan.kept for seat in seats.get(row, ())}
    held = Lease.objects.filter(closed_at=None, attempt__wanted="run")
    changed = [
        pk
        for pk, attempt_pk, server_pk, cpus, memory_bytes in held.values_list(
            "pk", "attempt_id", "server_id", "cpus", "memory_bytes"
        )
        if (seat := granted.get((row_of.get(attempt_pk, NO_ROW), server_pk)))
        and is_changed(seat, cpus=cpus, memory_bytes=memory_bytes)
    ]
    leases = Lease.objects.in_bulk(changed).values()
    return {(row_of[lease.attempt_id], lease.server_id): lease for lease in leases}


def is_changed(seat: GrantedSeat, *, cpus: float, memory_bytes: int) -> bool:
    """Return whether a plan gives a job other cores or memory on a server than these."""
    return abs(seat.cpus - cpus) >= CPUS_STEP or seat.memory_bytes != memory_bytes


def kept_gpus(live: LiveSnapshot, plan: Plan) -> KeptGpus:
    """Return the GPUs of kept jobs."""
    row_of = {live.attempt_pks[row]: row for row in plan.kept}
    server_rows = {pk: row for row, pk in enumerate(live.server_pks)}
    found = KeptGpus(indexes=defaultdict(list), slots={})
    held = LeaseGpu.objects.filter(lease__attempt_id__in=row_of, released_at=None).order_by("gpu__index")
    columns = ("lease__attempt_id", "gpu__server_id", "gpu__index", "slot")
    for attempt_pk, server_pk, index, slot in held.values_list(*columns):
        found.indexes[row_of[attempt_pk], server_rows[server_pk]].append(index)
        found.slots[row_of[attempt_pk]] = slot
    return found
