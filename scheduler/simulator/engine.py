"""Replays a workload through the same ``plan_round`` that decides on the live cluster. Deterministic."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.core.config import ChangesBySelf, Promotes, SchedulerConfig
from scheduler.core.metrics import Spread, spread
from scheduler.core.round import plan_round
from scheduler.core.tables import QueueTable, ServerTable
from scheduler.simulator.world import SimJob, World


class SimulationStuckError(Exception):
    """Jobs are left that nothing will ever start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """What became of one job. Times in seconds."""

    arrival_s: float
    first_start_s: float
    end_s: float
    queueing_s: float
    num_gpus: int
    preemptions: int

    @property
    def jct_s(self) -> float:
        """Completion time minus submission time."""
        return self.end_s - self.arrival_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A replayed workload.

    Attributes:
        records: One per job, in the order of the workload.
        jct: Distribution of completion times.
        makespan_s: Last completion minus first submission.
        rounds: Plans made.
        plan_hashes: Digest of each plan; equal histories give equal ones.
    """

    records: list[JobRecord]
    jct: Spread
    makespan_s: float
    rounds: int
    plan_hashes: list[str]


def simulate(
    jobs: Sequence[SimJob],
    servers: ServerTable,
    queues: QueueTable,
    config: SchedulerConfig,
    *,
    round_s: float | None = None,
    restart_s: float = 0.0,
) -> Outcome:
    """Return what happens to the jobs.

    Args:
        jobs: The workload.
        servers: The cluster.
        queues: Its queues.
        config: How rounds decide.
        round_s: Seconds between rounds, counted from 0; None for a round whenever something changes.
        restart_s: Seconds that every start after a job's first costs.

    Raises:
        SimulationStuckError: If jobs are left and nothing will change any more.
    """
    world = World(jobs, servers, queues, restart_s=restart_s)
    hashes: list[str] = []
    next_round_s = _on_grid(world.now_s, round_s)
    while math.isfinite(next_round_s):
        while (end_s := world.next_end_s()) < next_round_s:
            world.advance(end_s)
        world.advance(next_round_s)
        rests_s = _round(world, config, hashes)
        next_round_s = _next_round(world, round_s, rests_s)
    if np.isinf(world.end_s).any():
        raise SimulationStuckError(f"{int(np.isinf(world.end_s).sum())} of {len(jobs)} jobs never ran to their end")
    records = _records(jobs, world)
    return Outcome(
        records=records,
        jct=spread([record.jct_s for record in records]),
        makespan_s=max((r.end_s for r in records), default=0.0) - min((r.arrival_s for r in records), default=0.0),
        rounds=len(hashes),
        plan_hashes=hashes,
    )


def _round(world: World, config: SchedulerConfig, hashes: list[str]) -> float:
    """Plan and carry out; return for how long policy and locality decide the same, seconds."""
    snapshot, rows = world.snapshot()
    if isinstance(config.policy, Promotes):
        world.promote(rows[config.policy.promoted(snapshot.jobs)])
        snapshot, rows = world.snapshot()
    plan = plan_round(snapshot, config)
    hashes.append(plan.plan_hash)
    world.carry_out(plan, rows)
    changing = [part for part in (config.policy, config.locality) if isinstance(part, ChangesBySelf)]
    if not changing:
        return math.inf
    jobs = world.snapshot()[0].jobs
    return min(float(part.next_change_s(jobs).min(initial=math.inf)) for part in changing)


def _next_round(world: World, round_s: float | None, rests_s: float) -> float:
    if round_s is None:
        return min(world.next_arrival_s(), world.next_end_s(), world.now_s + rests_s)
    if not len(world.active):
        return _on_grid(world.next_arrival_s(), round_s)
    if math.isinf(world.next_end_s()) and math.isinf(world.next_arrival_s()) and math.isinf(rests_s):
        return math.inf
    return world.now_s + round_s


def _on_grid(time_s: float, round_s: float | None) -> float:
    """Return the first round at or after a time."""
    return time_s if round_s is None or math.isinf(time_s) else math.ceil(time_s / round_s - 1e-9) * round_s


def _records(jobs: Sequence[SimJob], world: World) -> list[JobRecord]:
    return [
        JobRecord(
            arrival_s=job.arrival_s,
            first_start_s=float(world.first_start_s[row]),
            end_s=float(world.end_s[row]),
            queueing_s=float(world.queueing_s[row]),
            num_gpus=job.num_gpus,
            preemptions=int(world.preemptions[row]),
        )
        for row, job in enumerate(jobs)
    ]
