"""Placements as seats and back, and which running jobs could stay on their servers before any job claims GPUs."""

from collections.abc import Mapping, Sequence

import numpy as np

from scheduler.core.model.cpu_memory_bounds import Needs, must_have
from scheduler.core.model.tables import BoolArray, FloatArray, IntArray, Placements, ServerTable, Snapshot, seat_order
from scheduler.core.packing.draft import Seats

_TOLERANCE = 1e-9


def seats_by_job(held: Placements) -> dict[int, Seats]:
    """Return the seats of every job in the table, servers ascending."""
    if (np.diff(held.job) > 0).all():  # one server each, as nearly always
        return dict(
            zip(held.job.tolist(), zip(zip(held.server.tolist(), held.num_gpus.tolist(), strict=True)), strict=True)
        )
    seats: dict[int, Seats] = {}
    by_job = seat_order(held.job, held.server)
    rows = zip(held.job[by_job].tolist(), held.server[by_job].tolist(), held.num_gpus[by_job].tolist(), strict=True)
    for job, server, gpus in rows:
        seats[job] = (*seats.get(job, ()), (server, gpus))
    return seats


def placed(seats: Mapping[int, Seats], servers: ServerTable) -> Placements:
    """Return the seats as a table, as ``placements``."""
    return placements([(job, server, gpus) for job, at in sorted(seats.items()) for server, gpus in at], servers)


def placements(rows: Sequence[tuple[int, int, int]], servers: ServerTable) -> Placements:
    """Return (job, server, GPUs) as a table, with the cores and bytes that belong to the GPUs of each server."""
    job, server, gpus = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    part: FloatArray = gpus / np.maximum(servers.num_gpus[server], 1)
    return Placements(
        job=job,
        server=server,
        num_gpus=gpus,
        cpus=part * servers.num_cpus[server],
        memory_bytes=part * servers.memory_bytes[server],
    )


def can_stay(snapshot: Snapshot, needs: Needs, order: IntArray) -> BoolArray:
    """Return (n,) running jobs whose servers are all still there and still have room for them.

    Where a server became too small for what runs on it, the jobs that the policy puts last have to leave.
    """
    jobs, held = snapshot.jobs, snapshot.held
    held_gpus = np.bincount(held.job, weights=held.num_gpus, minlength=len(jobs))
    stays: BoolArray = jobs.running & (held_gpus == jobs.num_gpus)
    for use, capacity in _uses(held, snapshot.servers, needs):
        _drop_last(stays, use, capacity, snapshot, order)
    return stays


def is_overfull(held: Placements, servers: ServerTable, needs: Needs) -> bool:
    """Return whether a server became too small for what runs on it."""
    return any(
        (np.bincount(held.server, weights=use, minlength=len(capacity)) > capacity * (1 + _TOLERANCE)).any()
        for use, capacity in _uses(held, servers, needs)
    )


def _uses(held: Placements, servers: ServerTable, needs: Needs) -> list[tuple[FloatArray, FloatArray]]:
    """Return what each placement must have of a server, and what each server has, for all that may run out."""
    uses = [(held.num_gpus.astype(np.float64), servers.num_gpus.astype(np.float64))]
    if needs.tight:
        rows, at = held.job, held.server
        cpus = must_have(needs.cpus_least[rows], needs.cpus_most[rows], needs.cpus_share[at])
        memory = must_have(needs.memory_least[rows], needs.memory_most[rows], needs.memory_share[at])
        uses += [(held.num_gpus * cpus, servers.num_cpus), (held.num_gpus * memory, servers.memory_bytes)]
    return uses


def _drop_last(stays: BoolArray, use: FloatArray, capacity: FloatArray, snapshot: Snapshot, order: IntArray) -> None:
    """Take jobs out of ``stays``, last in the order first, until no server holds more than its capacity."""
    held = snapshot.held
    counted = stays[held.job]
    total = np.bincount(held.server[counted], weights=use[counted], minlength=len(capacity))
    position = np.empty_like(order)
    position[order] = np.arange(len(order))
    for server in np.flatnonzero(total > capacity * (1 + _TOLERANCE)).tolist():
        on_server = np.flatnonzero(held.server == server)
        for row in on_server[np.argsort(-position[held.job[on_server]], kind="stable")].tolist():
            here = on_server[stays[held.job[on_server]]]
            if use[here].sum() <= capacity[server] * (1 + _TOLERANCE):
                break
            stays[held.job[row]] = False
