"""Reads the database into the tables of one round, in a handful of queries and without an object per row.

Decides what a round sees: servers that are up and what is held on them. Leases on other servers or on broken GPUs are
left out, so that the core moves those jobs. Jobs are read in ``job_table.py``.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any

import numpy as np
from django.conf import settings
from django.db.models import Count, Q, QuerySet

from scheduler.core.model.plan import Evidence
from scheduler.core.model.tables import NO_ROW, Placements, QueueTable, ServerTable, Snapshot
from scheduler.live.environments.prepared import prepared_read
from scheduler.live.observed.held import holds_read
from scheduler.live.rounds.avoided import avoided_read
from scheduler.live.rounds.barred import barred_read
from scheduler.live.rounds.job_table import HeldLease, held_leases, job_table
from scheduler.live.rounds.trials import trials_read
from scheduler.models import Cluster, GangMember, Queue, Server
from scheduler.models.server import ServerState

NO_LIMIT_GPUS = 2**31


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSnapshot:
    """The tables of a round, and the database keys of their rows.

    Attributes:
        tables: What ``plan_round`` reads.
        job_pks: Job ULID by row.
        server_pks: Server id by row.
        attempt_pks: Row of a job that holds GPUs, or is parked, to its open attempt.
        parked_on: Row of a parked job to the servers that keep its memory.
        told: Of rows that wait for other jobs, what is known of those, for the reason.
        epoch, round_number: Of the cluster when read; the round is applied only if they are unchanged.
    """

    tables: Snapshot
    job_pks: tuple[str, ...]
    server_pks: tuple[str, ...]
    attempt_pks: dict[int, str]
    parked_on: dict[int, tuple[str, ...]]
    told: Mapping[int, Evidence]
    epoch: int
    round_number: int

    def digest(self) -> str:
        """Return a hex digest over every column; equal snapshots have equal digests."""
        digest = hashlib.sha256(repr(self.tables.now_s).encode())
        tables = self.tables
        for table in (tables.jobs, tables.servers, tables.queues, tables.held, tables.releasing):
            for field in fields(table):
                column = getattr(table, field.name)
                # Profiles are values with a complete repr; everything else is an array.
                digest.update(repr(column).encode() if field.name == "profiles" else column.tobytes())
        beside = (tables.trials, tables.avoids, tables.barred, tables.arrays, tables.after, tables.prepared)
        digest.update(repr(beside).encode())
        return digest.hexdigest()


def snapshot_read(cluster: Cluster, *, at: datetime) -> LiveSnapshot:
    """Return the snapshot of a round that begins now."""
    servers, server_pks = servers_read()
    server_rows = {pk: row for row, pk in enumerate(server_pks)}
    queues, queue_rows = _queues()
    every = held_leases(server_rows)
    held, parked = [h for h in every if h.num_gpus > 0], [h for h in every if h.num_gpus == 0]
    jobs, job_pks, attempt_pks = job_table(queue_rows, every, at=at)
    job_rows = {pk: row for row, pk in enumerate(job_pks)}
    keeping = [h for h in held if h.job_pk in job_rows and job_rows[h.job_pk] in attempt_pks]
    leaving = [h for h in held if h.job_pk not in job_rows]
    staying, going = _without_leavers(_whole_gangs(keeping))
    leaving += going
    holds = holds_read({number: row for row, number in enumerate(jobs.job_id.tolist())})
    tables = Snapshot(
        now_s=at.timestamp(),
        jobs=jobs,
        servers=_without_parked(servers, parked, server_rows),
        queues=queues,
        held=_placements([(job_rows[h.job_pk], h) for h in staying], server_rows),
        releasing=_placements([(NO_ROW, h) for h in leaving if h.server_pk in server_rows], server_rows),
        trials=trials_read(jobs),
        round_s=settings.ROUND_S,
        avoids=avoided_read(job_rows, at=at),
        barred=barred_read(),
        arrays=holds.arrays,
        after=holds.after,
        prepared=prepared_read(job_rows),
    )
    parked_on: dict[int, tuple[str, ...]] = {}
    for lease in parked:
        if lease.job_pk in job_rows:
            row = job_rows[lease.job_pk]
            parked_on[row] = (*parked_on.get(row, ()), lease.server_pk)
    return LiveSnapshot(
        tables=tables,
        job_pks=tuple(job_pks),
        server_pks=tuple(server_pks),
        attempt_pks=attempt_pks,
        parked_on=parked_on,
        told=holds.told,
        epoch=cluster.epoch,
        round_number=cluster.round_number,
    )


def servers_read(*, drained: bool = False) -> tuple[ServerTable, list[str]]:
    """Return the servers that are up, or also those that drain, with their working GPUs; and their keys."""
    states = (ServerState.UP, *((ServerState.DRAINING,) if drained else ()))
    return server_table_read(Server.objects.filter(state__in=states))


def server_table_read(servers: QuerySet[Server]) -> tuple[ServerTable, list[str]]:
    """Return some servers with their working GPUs, and their keys."""
    racks: dict[str, int] = {}
    rows = list(
        servers.annotate(healthy=Count("gpus", filter=Q(gpus__healthy=True)))
        .order_by("number")
        .values_list("pk", "number", "healthy", "num_cpus", "memory_bytes", "rack")
    )
    table = ServerTable(
        server_id=np.array([row[1] for row in rows], dtype=np.int64),
        num_gpus=np.array([row[2] for row in rows], dtype=np.int64),
        num_cpus=np.array([row[3] for row in rows], dtype=np.float64),
        memory_bytes=np.array([row[4] for row in rows], dtype=np.float64),
        rack=np.array([racks.setdefault(row[5], len(racks)) for row in rows], dtype=np.int64),
    )
    return table, [row[0] for row in rows]


def _without_parked(servers: ServerTable, parked: list[HeldLease], server_rows: dict[str, int]) -> ServerTable:
    """Return the servers less the memory of parked jobs."""
    memory_bytes = servers.memory_bytes.copy()
    for lease in parked:
        if lease.server_pk in server_rows:
            memory_bytes[server_rows[lease.server_pk]] -= lease.memory_bytes
    return replace(servers, memory_bytes=np.maximum(memory_bytes, 0.0))


def _queues() -> tuple[QueueTable, dict[int, int]]:
    """Return the tree, parents before children, and the row of each queue."""
    rows = list(
        Queue.objects.order_by("pk").values_list(
            "pk", "parent_id", "quota_gpus", "weight", "may_borrow", "max_gpus", "user_max_gpus"
        )
    )
    children: dict[int | None, list[tuple[Any, ...]]] = defaultdict(list)  # rows of the query
    for row in rows:
        children[row[1]].append(row)
    ordered = list(children[None])
    for row in ordered:  # grows while it is walked
        ordered += children[row[0]]
    row_of = {row[0]: index for index, row in enumerate(ordered)}
    table = QueueTable(
        queue_id=np.array([row[0] for row in ordered], dtype=np.int64),
        parent=np.array([NO_ROW if row[1] is None else row_of[row[1]] for row in ordered], dtype=np.int64),
        quota_gpus=np.array([row[2] for row in ordered], dtype=np.int64),
        weight=np.array([row[3] for row in ordered], dtype=np.float64),
        may_borrow=np.array([row[4] for row in ordered], dtype=np.bool_),
        max_gpus=np.array([NO_LIMIT_GPUS if row[5] is None else row[5] for row in ordered], dtype=np.int64),
        user_max_gpus=np.array([row[6] or 0 for row in ordered], dtype=np.int64),
    )
    return table, row_of


def _whole_gangs(held: list[HeldLease]) -> list[HeldLease]:
    """Leave out gangs that lost a server or GPU: they have no seats to keep."""
    torn = {h.attempt_pk for h in held if not h.is_whole}
    return [h for h in held if h.attempt_pk not in torn]


def _without_leavers(held: list[HeldLease]) -> tuple[list[HeldLease], list[HeldLease]]:
    """Return what gangs keep and, separately, what leaving processes still hold.

    Otherwise a round in between could keep a gang on a server without its leader.
    """
    members = GangMember.objects.filter(leaving=True, ended_at=None, gang__attempt__ended_at=None)
    leavers = Counter(members.values_list("gang_id", "gpu__server_id"))
    if not leavers:
        return held, []
    staying: list[HeldLease] = []
    going: list[HeldLease] = []
    for lease in held:
        count = min(leavers[lease.attempt_pk, lease.server_pk], lease.num_gpus)
        for part, num_gpus in ((staying, lease.num_gpus - count), (going, count)):
            if num_gpus:
                frac = num_gpus / lease.num_gpus
                memory_bytes = int(lease.memory_bytes * frac)
                part.append(replace(lease, num_gpus=num_gpus, cpus=lease.cpus * frac, memory_bytes=memory_bytes))
    return staying, going


def _placements(rows: list[tuple[int, HeldLease]], server_rows: dict[str, int]) -> Placements:
    rows = sorted(rows, key=lambda pair: (pair[0], server_rows[pair[1].server_pk]))
    return Placements(
        job=np.array([job for job, _ in rows], dtype=np.int64),
        server=np.array([server_rows[h.server_pk] for _, h in rows], dtype=np.int64),
        num_gpus=np.array([h.num_gpus for _, h in rows], dtype=np.int64),
        cpus=np.array([h.cpus for _, h in rows], dtype=np.float64),
        memory_bytes=np.array([h.memory_bytes for _, h in rows], dtype=np.float64),
    )
