"""Estimates of starts over weeks of Philly, replayed: what each job is told first, and when it really starts.

The estimator is the product's own. It knows neither what will be submitted nor, of the jobs that tell nothing, how long
they run; the others report how much is left, as a job that reports its steps does.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from itertools import groupby
from pathlib import Path

import numpy as np

from scheduler.core.model.changes import placements
from scheduler.core.model.tables import FloatArray, IntArray, QueueTable, ServerTable, Snapshot
from scheduler.core.operations.start_calibration import LATE_FRAC, bound_s, level_next, ratio, stretch
from scheduler.core.round.config import SchedulerConfig
from scheduler.simulator.forecasts.futures import Outlook, Submitted, outlook, quantile
from scheduler.simulator.forecasts.run_times import Ended
from scheduler.simulator.jobs import SimJob
from scheduler.simulator.replay.engine import simulate
from scheduler.simulator.replay.replay import Replay
from scheduler.simulator.replay.saving import States, load
from scheduler.simulator.state.columns import Columns
from scheduler.simulator.state.tally import Tally
from scheduler.simulator.state.world import World
from scheduler.simulator.study.cluster import Cluster, QueueSpec, ServerGroup, queue_table, server_table
from scheduler.simulator.traces import open_trace
from scheduler.simulator.traces import trace as cut

MONTH = Path(__file__).resolve().parents[3] / "fixtures" / "traces" / "philly_2017-10.csv.gz"
# Three virtual clusters of Philly that keep the servers below busy.
QUEUES_OF_PHILLY = ("11cb48", "103959", "e13805")
CLUSTER = Cluster(groups=(ServerGroup(count=4, gpus=8, cpus=24, memory_bytes=5e11),), queues=(QueueSpec(name="all"),))
SERVERS: ServerTable = server_table(CLUSTER)
QUEUES: QueueTable = queue_table(CLUSTER.queues, cluster_gpus=CLUSTER.num_gpus)
DAY_S = 86_400.0
# As the product has them: time between rounds, how much of the past it looks at, how many futures, how far.
ROUND_S = 300.0
MOST_ENDED, MOST_LATELY = 2_000, 2_000
LATELY_S = 7 * DAY_S
FUTURES, HORIZON_S = 24, 7 * DAY_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """A job without GPUs, from its submission or from the end of a stay to its next start; moments of the replay."""

    row: int
    since_s: float
    start_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What was said first of a wait; +inf where that many futures did not start it."""

    wait: Wait
    at_s: float
    p50_s: float
    p90_s: float

    @property
    def took_s(self) -> float:
        """Return how long after it was told the job really started, seconds."""
        return self.wait.start_s - self.at_s


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
        path: A file to work with; what it holds is the state of an earlier moment.
        tell_every: One job in so many tells how much of it is left; 0 for none.
    """
    before = path if path.exists() else None
    simulate(Replay(jobs, SERVERS, QUEUES, config, until_s=at_s), states=States(save_to=path, continue_from=before))
    columns = Columns(jobs)
    tally = Tally(SERVERS, columns.queue, num_queues=1, wants_series=False, wants_stays=False)
    world = World(jobs, tally=tally, columns=columns)
    load(path, world, setting={}, waits=None)
    rows = columns.active
    table, held = columns.table(rows, world.now_s), placements(world.seats)
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
            held=replace(held, job=np.searchsorted(rows, held.job)),
        ),
        columns,
    )


def look(snapshot: Snapshot, columns: Columns, config: SchedulerConfig, *, of: IntArray | None = None) -> Outlook:
    """Return the estimates that a live cluster would make of the state, or of these rows of its waiting jobs."""
    over = np.flatnonzero(columns.ended)
    over = over[np.argsort(columns.end_s[over], kind="stable")][-MOST_ENDED:]
    lately = np.flatnonzero(columns.arrived & (columns.arrival_s >= snapshot.now_s - LATELY_S))[-MOST_LATELY:]
    return outlook(
        snapshot,
        config,
        owner=snapshot.jobs.owner,
        ended=Ended(queue=columns.queue[over], owner=columns.owner[over], run_s=columns.run_s[over]),
        submitted=Submitted(
            over_s=max(DAY_S, snapshot.now_s - columns.arrival_s[lately[0]]),
            queue=columns.queue[lately],
            owner=columns.owner[lately],
            num_gpus=columns.num_gpus[lately],
            max_servers=columns.max_servers[lately],
            min_gpus=columns.min_gpus[lately],
            max_gpus=columns.max_gpus[lately],
        ),
        futures=FUTURES,
        horizon_s=HORIZON_S,
        of=of,
    )


def waits_of(jobs: Sequence[SimJob], config: SchedulerConfig) -> list[Wait]:
    """Return the waits of a replay that a round sees, in the order in which it sees them.

    Args:
        jobs: The workload.
        config: How rounds decide.
    """
    stays = simulate(Replay(jobs, SERVERS, QUEUES, config, keep_stays=True)).stays
    assert stays is not None
    left_s = {row: job.arrival_s for row, job in enumerate(jobs)}
    waits = []
    for row, begin_s, end_s in sorted(
        zip(stays.job.tolist(), stays.begin_s.tolist(), stays.end_s.tolist(), strict=True)
    ):
        if begin_s > round_after(left_s[row]):
            waits.append(Wait(row=row, since_s=left_s[row], start_s=begin_s))
        left_s[row] = max(end_s, left_s[row])
    return sorted(waits, key=lambda wait: (wait.since_s, wait.row))


def round_after(at_s: float) -> float:
    """Return when the first round after a moment is, as the product makes them where nothing else is set."""
    return (math.floor(at_s / ROUND_S) + 1) * ROUND_S


def told(
    jobs: Sequence[SimJob], waits: Sequence[Wait], config: SchedulerConfig, path: Path, *, tell_every: int = 0
) -> Iterator[Told]:
    """Yield what each wait is told after its first round, by the futures alone.

    Args:
        jobs: The workload.
        waits: Some of the waits of its replay, in their order.
        config: How rounds decide.
        path: A file to work with, which is not there yet.
        tell_every: One job in so many tells how much of it is left; 0 for none.
    """
    for at_s, group in groupby(waits, key=lambda wait: round_after(wait.since_s)):
        snapshot, columns = state_at(at_s, jobs, config, path, tell_every=tell_every)
        seen = list(group)
        rows = np.searchsorted(snapshot.jobs.job_id, [wait.row for wait in seen])
        assert not snapshot.jobs.running[rows].any()
        found = look(snapshot, columns, config, of=rows)
        for wait, starts_s in zip(seen, found.starts_s, strict=True):
            yield Told(wait=wait, at_s=at_s, p50_s=quantile(starts_s, 0.5), p90_s=quantile(starts_s, 0.9))


def bounds_said(waits: Sequence[Told]) -> FloatArray:
    """Return (n,) seconds by which each job was to start, as the product would have said it when it was told."""
    said = np.full(len(waits), np.inf)
    level = LATE_FRAC
    ratios: list[float] = []
    counted: set[int] = set()
    moments = [(one.at_s, "told", row) for row, one in enumerate(waits)]
    heapify(moments)
    while moments:
        _, what, row = heappop(moments)
        one = waits[row]
        if what == "told":
            said[row] = bound_s(one.p90_s, stretch(ratios, level), horizon_s=HORIZON_S)
            heappush(moments, (one.wait.start_s, "started", row))
            if said[row] < one.took_s:
                heappush(moments, (one.at_s + said[row], "late", row))
            continue
        if math.isfinite(one.p90_s) and row not in counted:
            counted.add(row)
            level = level_next(level, late=said[row] < one.took_s)
        if what == "started" and math.isfinite(one.p90_s):
            ratios.append(ratio(took_s=one.took_s, simulated_s=one.p90_s))
    return said
