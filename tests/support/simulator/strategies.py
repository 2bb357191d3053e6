"""Hypothesis strategies: small clusters with queues, servers, waiting and running jobs."""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from scheduler.core.model.plan import Plan
from scheduler.core.model.profile import Profile
from scheduler.core.model.tables import NO_ROW, IntArray, JobTable, Placements, QueueTable, ServerTable, Snapshot
from scheduler.core.packing.kept_placements import placements

GIB = 2.0**30
NO_LIMIT = 1_000_000
NOW_S = 10_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """One job with defaults that do not matter to most tests; columns as in JobTable."""

    queue: int = 0
    num_gpus: int = 1
    max_servers: int = 1
    arrival_s: float = 0.0
    priority: float = 50.0
    preemptible: bool = True
    attained_gpu_s: float = 0.0
    executed_s: float = 0.0
    waited_s: float = 0.0
    first_start_s: float = float("inf")
    remaining_s: float = float("inf")
    demand_cpus: float = float("inf")
    demand_memory_bytes: float = float("inf")
    min_cpus: float = 0.0
    min_memory_bytes: float = 0.0
    held_at_s: float = 0.0  # only looked at when it has seats
    unsaved_s: float = 0.0
    owner: int = 0
    weight: float = 1.0
    total_s: float = float("inf")
    sharers: float = 1.0
    min_gpus: int | None = None  # as num_gpus
    max_gpus: int | None = None  # as num_gpus
    rate: float = float("nan")
    lent: bool = False
    profile: Profile | None = None
    seats: tuple[tuple[int, int], ...] = ()  # (server row, GPUs); a job with seats runs


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """One queue; columns as in QueueTable."""

    parent: int = NO_ROW
    quota_gpus: int = 0
    weight: float = 1.0
    may_borrow: bool = True
    max_gpus: int = NO_LIMIT


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRow:
    """One server; by default that of the Synergy paper."""

    num_gpus: int = 8
    num_cpus: float = 24.0
    memory_bytes: float = 500e9


def job_table(rows: list[JobRow]) -> JobTable:
    """Return the rows as columns; ids are 1, 2, 3 ..."""
    floats = (
        *("arrival_s", "priority", "attained_gpu_s", "executed_s", "waited_s", "first_start_s", "remaining_s"),
        *("demand_cpus", "demand_memory_bytes", "min_cpus", "min_memory_bytes", "held_at_s", "unsaved_s"),
        *("weight", "total_s", "sharers", "rate"),
    )
    # Any: the type checker cannot follow arrays into arguments by name.
    columns: dict[str, Any] = {
        name: np.array([getattr(row, name) for row in rows], dtype=np.float64) for name in floats
    }
    columns["held_at_s"] = np.where([bool(row.seats) for row in rows], columns["held_at_s"], np.inf)
    for name in ("queue", "num_gpus", "max_servers", "owner"):
        columns[name] = np.array([getattr(row, name) for row in rows], dtype=np.int64)
    for name in ("min_gpus", "max_gpus"):
        bounds = [getattr(row, name) for row in rows]
        bounds = [row.num_gpus if bound is None else bound for row, bound in zip(rows, bounds, strict=True)]
        columns[name] = np.array(bounds, dtype=np.int64)
    profiles = tuple(dict.fromkeys(row.profile for row in rows if row.profile is not None))
    columns["profile"] = np.array(
        [NO_ROW if row.profile is None else profiles.index(row.profile) for row in rows], dtype=np.int64
    )
    return JobTable(
        profiles=profiles,
        job_id=np.arange(1, len(rows) + 1, dtype=np.int64),
        preemptible=np.array([row.preemptible for row in rows], dtype=np.bool_),
        running=np.array([bool(row.seats) for row in rows], dtype=np.bool_),
        lent=np.array([row.lent for row in rows], dtype=np.bool_),
        **columns,
    )


def snapshot_of(
    jobs: list[JobRow],
    servers: list[ServerRow],
    queues: list[QueueRow] | None = None,
    *,
    now_s: float = NOW_S,
    releasing: list[tuple[int, int]] | None = None,
) -> Snapshot:
    """Return a snapshot; jobs with seats hold the GPU-proportional share. ``releasing`` is (server row, GPUs)."""
    queues = queues if queues is not None else [QueueRow()]
    table = ServerTable(
        server_id=np.arange(1, len(servers) + 1, dtype=np.int64),
        num_gpus=np.array([row.num_gpus for row in servers], dtype=np.int64),
        num_cpus=np.array([row.num_cpus for row in servers], dtype=np.float64),
        memory_bytes=np.array([row.memory_bytes for row in servers], dtype=np.float64),
        rack=np.zeros(len(servers), dtype=np.int64),
    )
    held = [(row, server, gpus) for row, job in enumerate(jobs) for server, gpus in sorted(job.seats)]
    return Snapshot(
        now_s=now_s,
        jobs=job_table(jobs),
        servers=table,
        queues=QueueTable(
            queue_id=np.arange(1, len(queues) + 1, dtype=np.int64),
            parent=np.array([row.parent for row in queues], dtype=np.int64),
            quota_gpus=np.array([row.quota_gpus for row in queues], dtype=np.int64),
            weight=np.array([row.weight for row in queues], dtype=np.float64),
            may_borrow=np.array([row.may_borrow for row in queues], dtype=np.bool_),
            max_gpus=np.array([row.max_gpus for row in queues], dtype=np.int64),
        ),
        held=placements(held, table),
        releasing=placements([(NO_ROW, server, gpus) for server, gpus in releasing or []], table),
    )


def carried_out(snapshot: Snapshot, plan: Plan, *, after_s: float = 60.0) -> Snapshot:
    """Return the snapshot some time later, when everything in the plan has happened and nothing else."""
    jobs, now_s = snapshot.jobs, snapshot.now_s
    runs = np.zeros(len(jobs), dtype=np.bool_)
    runs[plan.grants.job] = True
    kept = np.zeros(len(jobs), dtype=np.bool_)
    kept[list(plan.kept)] = True
    lent = np.zeros(len(jobs), dtype=np.bool_)
    lent[list(plan.lent)] = True
    return replace(
        snapshot,
        now_s=now_s + after_s,
        held=plan.grants,
        releasing=Placements.none(),
        jobs=replace(
            jobs,
            running=runs,
            lent=lent,
            held_at_s=np.where(runs, np.where(kept, jobs.held_at_s, now_s), np.inf),
            first_start_s=np.where(runs, np.minimum(jobs.first_start_s, now_s), jobs.first_start_s),
            waited_s=np.where(runs, 0.0, jobs.waited_s + after_s),
            executed_s=jobs.executed_s + np.where(runs, after_s, 0.0),
            attained_gpu_s=jobs.attained_gpu_s + np.where(runs, after_s * jobs.num_gpus, 0.0),
        ),
    )


@st.composite
def queue_rows(draw: st.DrawFn, capacity_gpus: int) -> list[QueueRow]:
    """A forest of one to five queues whose quotas fit the cluster."""
    rows: list[QueueRow] = []
    left = capacity_gpus
    for row in range(draw(st.integers(1, 5))):
        quota = draw(st.integers(0, left))
        left -= quota
        limit = draw(st.sampled_from([NO_LIMIT, NO_LIMIT, quota + 2]))
        rows.append(
            QueueRow(
                parent=draw(st.integers(NO_ROW, row - 1)),
                quota_gpus=quota,
                weight=draw(st.sampled_from([1.0, 1.0, 2.0, 0.5])),
                may_borrow=draw(st.sampled_from([True, True, True, False])),
                max_gpus=limit,
            )
        )
    return rows


@st.composite
def snapshots(draw: st.DrawFn, *, tight: bool = True) -> Snapshot:
    """A cluster of one to four servers with up to twelve jobs, some running; ``tight``: some insist on cores."""
    alike = draw(st.booleans())
    sizes = draw(st.lists(st.sampled_from([1, 2, 4, 8]), min_size=1, max_size=4))
    servers = [
        ServerRow(num_gpus=sizes[0] if alike else size, num_cpus=24.0 if alike else 3.0 * size, memory_bytes=256 * GIB)
        for size in sizes
    ]
    queues = draw(queue_rows(sum(server.num_gpus for server in servers)))
    free = [server.num_gpus for server in servers]
    jobs = [draw(job_rows(len(queues), free, tight=tight)) for _ in range(draw(st.integers(0, 12)))]
    releasing = []
    if draw(st.sampled_from([False, False, True])):
        server = draw(st.integers(0, len(servers) - 1))
        if free[server]:
            releasing.append((server, draw(st.integers(1, free[server]))))
    return snapshot_of(jobs, servers, queues, releasing=releasing)


@st.composite
def job_rows(draw: st.DrawFn, num_queues: int, free: list[int], *, tight: bool) -> JobRow:
    """One job; a running one takes its GPUs off ``free``."""
    gpus = draw(st.sampled_from([1, 1, 1, 2, 2, 3, 4, 8]))
    max_servers = draw(st.sampled_from([1, 1, 1, 2, 0]))
    seats: list[tuple[int, int]] = []
    if draw(st.booleans()):
        left = gpus
        for server in sorted(range(len(free)), key=lambda server: -free[server])[: max_servers or None]:
            count = min(left, free[server])
            if count:
                seats.append((server, count))
                left -= count
        seats = [] if left else seats
        for server, count in seats:
            free[server] -= count
    started = draw(st.booleans()) or bool(seats)
    insists = tight and draw(st.sampled_from([False, False, False, True]))
    demand = draw(st.sampled_from([0.5, 1.0, 3.0, 6.0, 9.0, float("inf")]))
    return JobRow(
        queue=draw(st.integers(0, num_queues - 1)),
        num_gpus=gpus,
        max_servers=max_servers,
        arrival_s=float(draw(st.integers(0, 5))) * 1_000,
        preemptible=draw(st.sampled_from([True, True, True, False])),
        attained_gpu_s=draw(st.sampled_from([0.0, 100.0, 5_000.0])) if started else 0.0,
        executed_s=100.0 if started else 0.0,
        waited_s=0.0 if seats else draw(st.sampled_from([10.0, 1_000.0])),
        first_start_s=float(draw(st.integers(0, 3))) * 1_000 if started else float("inf"),
        remaining_s=draw(st.sampled_from([60.0, 600.0, 6_000.0, float("inf")])),
        demand_cpus=demand * gpus,
        demand_memory_bytes=draw(st.sampled_from([1.0, 32.0, 100.0, float("inf")])) * GIB * gpus,
        min_cpus=draw(st.sampled_from([1.0, 4.0, 30.0])) * gpus if insists else 0.0,
        held_at_s=float(draw(st.integers(5, 9))) * 1_000,
        unsaved_s=draw(st.sampled_from([0.0, 30.0, 300.0])) if seats else 0.0,
        seats=tuple(sorted(seats)),
    )


def shuffled(snapshot: Snapshot, rng: np.random.Generator) -> Snapshot:
    """Return the same jobs, servers and seats in other rows."""
    job_at, server_at = rng.permutation(len(snapshot.jobs)), rng.permutation(len(snapshot.servers))
    job_now, server_now = np.argsort(job_at), np.argsort(server_at)

    def rows(table: Any, at: IntArray) -> Any:  # any table of columns
        columns = [field.name for field in fields(table) if field.name != "profiles"]
        return replace(table, **{name: getattr(table, name)[at] for name in columns})

    held = replace(snapshot.held, job=job_now[snapshot.held.job], server=server_now[snapshot.held.server])
    return replace(
        snapshot,
        jobs=rows(snapshot.jobs, job_at),
        servers=rows(snapshot.servers, server_at),
        held=rows(held, np.lexsort((held.server, held.job))),
        releasing=replace(snapshot.releasing, server=server_now[snapshot.releasing.server]),
    )
