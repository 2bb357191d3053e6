"""A planner that looks only at what happened since the round before. Same plans, a hundredth of the work.

It serves one queue that may hold everything, policies with a steady line, and mechanisms under which a server's cores
and memory depend on what sits there alone; ``plan_round`` serves everything else.
"""

import math

import numpy as np

from scheduler.core.changes import Changes
from scheduler.core.config import (
    ChangesBySelf,
    GrantsByServer,
    LooksAtSizes,
    MayBackfill,
    SchedulerConfig,
    SharePolicy,
    Steady,
)
from scheduler.core.feasible import shapes_of
from scheduler.core.needs import Needs, needs_of
from scheduler.core.packing.seniority import Seniority
from scheduler.core.packing.shelf import Shelf
from scheduler.core.packing.short import ShortWalk
from scheduler.core.packing.space import Gang
from scheduler.core.plan import PreemptRule
from scheduler.core.queues import queue_tree
from scheduler.core.tables import FloatArray, IntArray, JobTable, QueueTable, ServerTable, Snapshot
from scheduler.simulator.columns import Columns
from scheduler.simulator.world import World


def short_rounds(
    columns: Columns, servers: ServerTable, queues: QueueTable, config: SchedulerConfig
) -> "ShortRounds | None":
    """Return the planner, or None where the configuration needs whole rounds."""
    policy, locality, mechanism = config.policy, config.locality, config.mechanism
    if isinstance(policy, SharePolicy) or not (isinstance(policy, Steady) and policy.steady):
        return None
    if isinstance(locality, ChangesBySelf | LooksAtSizes) or config.introspection or config.min_run_s:
        return None
    capacity = int(servers.num_gpus.sum())
    if len(queues) != 1 or queue_tree(queues).cap[0] < capacity or queues.quota_gpus[0]:
        return None
    if not len(columns) or not len(servers) or (np.diff(servers.server_id) <= 0).any():
        return None
    jobs = columns.look(np.arange(len(columns)), 0.0)
    needs = needs_of(jobs, servers, trims=mechanism.trims, insists=mechanism.insists)
    shelf = mechanism.shelf(jobs, servers, needs) if isinstance(mechanism, GrantsByServer) else None
    if needs.tight or shelf is None:
        return None
    return ShortRounds(columns, servers, queues, config, jobs, needs, shelf)


class ShortRounds:
    """Rounds from what changed."""

    def __init__(
        self,
        columns: Columns,
        servers: ServerTable,
        queues: QueueTable,
        config: SchedulerConfig,
        jobs: JobTable,
        needs: Needs,
        shelf: Shelf,
    ) -> None:
        self._columns, self._config, self._shelf = columns, config, shelf
        self._policy = config.policy
        self._preemptive = config.policy.preemptive and config.preempt
        self._servers, self._queues, self._now_s = servers, queues, 0.0
        shapes = shapes_of(jobs, servers, needs, config.locality.kinds(jobs, 0.0))
        self._possible: list[bool] = shapes.possible.tolist()
        _, first = np.unique(shapes.shape, return_index=True)
        gangs = [
            Gang(
                num_gpus=int(jobs.num_gpus[row]),
                max_servers=int(jobs.max_servers[row]),
                least_servers=int(shapes.least_servers[row]),
                kind=shapes.kind[row],
                fits=None,
            )
            for row in first.tolist()
        ]
        in_line = isinstance(config.policy, MayBackfill) and not config.policy.backfill
        self._walk = ShortWalk(
            servers,
            config.locality,
            shape=shapes.shape.tolist(),
            gangs=gangs,
            preemptive=self._preemptive,
            in_line=in_line,
        )
        self._first_key: list[float] = self._keys(jobs).tolist()
        self._seniority = Seniority(columns.arrival_s)
        self._change_at_s = math.inf

    @property
    def unsettled(self) -> bool:
        """Return whether the next round may change something although nothing arrives or ends before it."""
        return self._walk.unsettled

    def plan(self, world: World) -> Changes:
        """Return what the round changes."""
        walk, columns = self._walk, self._columns
        self._now_s = world.now_s
        was_empty = not walk.num_waiting  # while nobody waits it is not looked at how the order changes
        for row in world.released:
            walk.release(row)
            self._shelf.leave(row)
        world.released.clear()
        for row in world.arrived:
            if self._possible[row]:
                key = self._first_key[row]
                if columns.attempts[row] or columns.first_start_s[row] < math.inf:
                    key = float(self._keys(columns.look(np.array([row]), world.now_s))[0])
                walk.wait(row, (key, float(self._seniority.rank[row]), row))
        world.arrived.clear()
        # Policies round up to whole seconds, so the order may be another up to a second before.
        if world.now_s >= self._change_at_s - 1.0 or walk.unsettled or was_empty:
            walk.reopen()
        moves = walk.walk(self._ranks)
        for row in moves.displaced:
            self._shelf.leave(row)
        for row in moves.started:
            if columns.first_start_s[row] == math.inf:
                self._seniority.start(row, world.now_s)
        changes = Changes(stopped={row: (_BY_ORDER, by_row) for row, by_row in moves.displaced.items()})
        grants = self._shelf.sit(moves.started, moves.on_free, walk.space.free)
        for row, grant in grants.items():
            if row in moves.started:
                changes.started[row] = grant
                seats = tuple((server, gpus) for server, gpus, _, _ in grant)
                if seats != tuple(sorted(moves.started[row])):
                    walk.reseat(row, seats)
            else:
                changes.amended[row] = grant
        self._change_at_s = -math.inf  # until it is asked for
        return changes

    def restore(self, world: World) -> None:
        """Take up a state: ``world`` has the seats, and those who wait as arrived."""
        seats = {row: tuple(seat[:2] for seat in grant) for row, grant in world.seats.items()}
        for row, at in seats.items():
            self._walk.occupy(row, at)
        self._shelf.sit(seats, (), self._walk.space.free)
        first_start_s = self._columns.first_start_s
        for row in np.flatnonzero(np.isfinite(first_start_s)).tolist():
            self._seniority.start(row, float(first_start_s[row]))

    def rests_s(self, world: World) -> float:
        """Return for how long the order stays as it is, seconds; +inf while it does not matter."""
        self._change_at_s = self._next_change_s()
        return self._change_at_s - world.now_s

    def _next_change_s(self) -> float:
        policy = self._config.policy
        if not self._preemptive or not self._walk.num_waiting or not isinstance(policy, ChangesBySelf):
            return math.inf
        running = self._columns.look(self._walk.running(), self._now_s)
        return self._now_s + float(policy.next_change_s(running).min(initial=math.inf))

    def _keys(self, jobs: JobTable) -> FloatArray:
        snapshot = Snapshot(now_s=self._now_s, jobs=jobs, servers=self._servers, queues=self._queues)
        return self._policy.priority(snapshot)

    def _ranks(self, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        return self._keys(self._columns.look(rows, self._now_s)), self._seniority.rank[rows]


_BY_ORDER = str(PreemptRule.POLICY_ORDER)
