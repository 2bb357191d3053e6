"""What a plan gives, and what the jobs that it keeps hold, by job and server.

Read when a plan is applied (``apply_plan.py``); nothing is written here.
"""

from collections import defaultdict
from dataclasses import dataclass

from scheduler.core.model.plan import Plan
from scheduler.live.rounds.snapshot import LiveSnapshot
from scheduler.models import Lease, LeaseGpu


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantedSeat:
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


def kept_leases(live: LiveSnapshot, plan: Plan) -> dict[tuple[int, str], Lease]:
    """Return the open leases of kept jobs by (job row, server id)."""
    row_of = {live.attempt_pks[row]: row for row in plan.kept}
    leases = Lease.objects.filter(closed_at=None, attempt__wanted="run")
    return {(row_of[lease.attempt_id], lease.server_id): lease for lease in leases if lease.attempt_id in row_of}


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
