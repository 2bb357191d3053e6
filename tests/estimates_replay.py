"""Estimates of starts over weeks of Philly, replayed: what each job is told first, and when it really starts.

The estimator is the product's own. It knows neither what will be submitted nor, of the jobs that tell nothing, how long
they run; the others report how much is left, as a job that reports its steps does.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from scheduler.core.config import SchedulerConfig
from scheduler.core.tables import QueueTable, ServerTable, Snapshot
from scheduler.simulator.cluster import Cluster, QueueSpec, ServerGroup, queue_table, server_table
from scheduler.simulator.columns import Columns
from scheduler.simulator.engine import simulate
from scheduler.simulator.futures import Outlook, Submitted, outlook, quantile
from scheduler.simulator.jobs import SimJob
from scheduler.simulator.planning import held_of, renumbered
from scheduler.simulator.run_times import Ended
from scheduler.simulator.saving import load
from scheduler.simulator.tally import Tally
from scheduler.simulator.traces import open_trace
from scheduler.simulator.traces import trace as cut
from scheduler.simulator.world import World

MONTH = Path(__file__).resolve().parents[1] / "fixtures" / "traces" / "philly_2017-10.csv.gz"
# Three virtual clusters of Philly that keep the servers below busy.
QUEUES_OF_PHILLY = ("11cb48", "103959", "e13805")
CLUSTER = Cluster(groups=(ServerGroup(count=4, gpus=8, cpus=24, memory_bytes=5e11),), queues=(QueueSpec(name="all"),))
SERVERS: ServerTable = server_table(CLUSTER)
QUEUES: QueueTable = queue_table(CLUSTER.queues, cluster_gpus=CLUSTER.num_gpus)
DAY_S = 86_400.0
LATELY_S = 7 * DAY_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a waiting job was told first, and what came of it; seconds from when it was told."""

    p50_s: float
    p90_s: float
    start_s: float


def workload(since: str, until: str) -> list[SimJob]:
    """Return the jobs of the virtual clusters in a part of the month, all in one queue."""
    trace = open_trace(str(MONTH))
    from_s, to_s = cut.parse_window(f"{since}:{until}", starts_at=trace.starts_at)
    owner = {trace.queues.index(name): at for at, name in enumerate(QUEUES_OF_PHILLY)}
    return [
        replace(job, queue=0, owner=owner[job.queue], max_servers=1)
        for job in cut.window(trace, from_s=from_s, to_s=to_s).jobs
        if job.queue in owner and job.num_gpus <= 8
    ]


def state_at(
    at_s: float, jobs: Sequence[SimJob], config: SchedulerConfig, path: Path, *, tell_every: int = 0
) -> tuple[Snapshot, Columns]:
    """Return the cluster as a live round would see it at a moment, and all that is known.

    Args:
        at_s: The moment.
        jobs: The workload.
        config: How rounds decide.
        path: A file to work with.
        tell_every: One job in so many tells how much of it is left; 0 for none.
    """
    simulate(jobs, SERVERS, QUEUES, config, until_s=at_s, save_to=path)
    columns = Columns(jobs)
    tally = Tally(SERVERS, columns.queue, num_queues=1, wants_series=False, wants_stays=False)
    world = World(jobs, tally=tally, columns=columns)
    load(path, world, setting={}, waits=None)
    rows = columns.active
    table, held = columns.table(rows, world.now_s), held_of(world.seats)
    tells = rows % tell_every == 0 if tell_every else np.zeros(len(rows), dtype=np.bool_)
    return (
        Snapshot(
            now_s=world.now_s,
            jobs=replace(
                table,
                remaining_s=np.where(tells, table.remaining_s, np.inf),
                total_s=np.where(tells, table.total_s, np.inf),
            ),
            servers=SERVERS,
            queues=QUEUES,
            held=renumbered(held, np.searchsorted(rows, held.job)),
        ),
        columns,
    )


def look(snapshot: Snapshot, columns: Columns, config: SchedulerConfig) -> Outlook:
    """Return the estimates that a live cluster would make of the state."""
    over = np.flatnonzero(columns.ended)
    lately = np.flatnonzero(columns.arrived & (columns.arrival_s >= snapshot.now_s - LATELY_S))
    return outlook(
        snapshot,
        config,
        owner=snapshot.jobs.owner,
        ended=Ended(queue=columns.queue[over], owner=columns.owner[over], run_s=columns.run_s[over]),
        submitted=Submitted(
            over_s=min(LATELY_S, snapshot.now_s - columns.arrival_s[0]),
            queue=columns.queue[lately],
            owner=columns.owner[lately],
            num_gpus=columns.num_gpus[lately],
        ),
        futures=24,
        horizon_s=30 * DAY_S,
    )


def told_first(
    jobs: Sequence[SimJob], config: SchedulerConfig, path: Path, *, tell_every: int, every_s: float
) -> list[Told]:
    """Return what each job that waits at one of many moments is told, from the third day on.

    Args:
        jobs: The workload.
        config: How rounds decide.
        path: A file to work with.
        tell_every: One job in so many tells how much of it is left; 0 for none.
        every_s: Mean time between two moments.
    """
    stays = simulate(jobs, SERVERS, QUEUES, config, stays=True).stays
    assert stays is not None
    told: dict[int, Told] = {}
    chance = np.random.default_rng(1)
    at_s = jobs[0].arrival_s + 2 * DAY_S
    while at_s < jobs[-1].arrival_s:
        snapshot, columns = state_at(at_s, jobs, config, path, tell_every=tell_every)
        if set(snapshot.jobs.job_id[~snapshot.jobs.running].tolist()) - set(told):
            seen = look(snapshot, columns, config)
            for row, starts_s in zip(snapshot.jobs.job_id[seen.rows].tolist(), seen.starts_s, strict=True):
                own = stays.begin_s[(stays.job == row) & (stays.begin_s > snapshot.now_s)]
                new = Told(
                    p50_s=quantile(starts_s, 0.5), p90_s=quantile(starts_s, 0.9), start_s=own.min() - snapshot.now_s
                )
                told.setdefault(row, new)
        at_s += every_s * chance.uniform(0.5, 1.5)
    return list(told.values())
