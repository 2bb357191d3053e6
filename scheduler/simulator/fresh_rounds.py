"""A planner for one queue that may hold everything under a policy whose order moves: it is made anew in each round.

Who sits where is kept, nobody's rights have to be asked for, and the walk looks at few (``FreshWalk``). Same plans.
"""

import math
from typing import cast

import numpy as np

from scheduler.core.changes import Changes, Grant
from scheduler.core.config import ChangesBySelf, Leases, SchedulerConfig
from scheduler.core.feasible import Shapes, gangs_of
from scheduler.core.packing.fresh import FreshWalk, Places
from scheduler.core.packing.shelf import Shelf
from scheduler.core.packing.short import Moves
from scheduler.core.tables import BoolArray, IntArray, QueueTable, ServerTable, Snapshot
from scheduler.simulator.columns import Columns, cells
from scheduler.simulator.leased import Leased
from scheduler.simulator.planning import amend_overdue, granted
from scheduler.simulator.queue_rounds import Glance
from scheduler.simulator.world import World


class FreshRounds:
    """Rounds from a new order and seats that are kept.

    Attributes:
        unsettled: As of a ``Planner``.
    """

    def __init__(
        self,
        columns: Columns,
        servers: ServerTable,
        queues: QueueTable,
        config: SchedulerConfig,
        shelf: Shelf,
        shapes: Shapes,
    ) -> None:
        """Begin with nobody; ``shapes`` are those of the whole workload."""
        self.unsettled = False
        self._columns, self._servers, self._queues, self._shelf = columns, servers, queues, shelf
        policy = config.policy
        self._policy, self._changes = policy, policy if isinstance(policy, ChangesBySelf) else None
        self._key = np.zeros(len(columns))
        self._places = Places(cells(self._key), cells(columns.first_start_s), cells(columns.arrival_s))
        self._walk = FreshWalk(
            servers,
            config.locality,
            shape=shapes.shape,
            gangs=gangs_of(columns.look(np.arange(len(columns)), 0.0), shapes),
            possible=shapes.possible,
            preemptive=policy.preemptive and config.preempt,
            places=self._places,
        )
        lease_s = policy.lease_s if isinstance(policy, Leases) else 0.0
        self._leased = Leased(lease_s) if lease_s else None
        self._active: IntArray = np.zeros(0, dtype=np.int64)  # rows, ascending
        self._waiting: set[int] = set()
        self._overdue: dict[int, Grant] = {}

    def plan(self, world: World) -> Changes:
        """Return what the round changes."""
        walk, moves = self._walk, Moves()
        for row in world.released:
            walk.release(row)
            self._shelf.leave(row)
            if self._leased:
                self._leased.leave(row)
        self._follow(world)
        if walk.num_waiting or world.arrived:
            if self._leased:
                self._line_up_leased(world, self._leased)
            else:
                rows, running = self._in_order(world, self._active)
                walk.line_up(rows[~running], lambda: rows[running][::-1].tolist())
            moves = walk.walk(world.now_s, _no_keys)
            if self._leased:
                self._seat(moves, self._leased, world.now_s)
        world.arrived.clear()
        world.released.clear()
        changes = granted(moves, walk, self._shelf)
        if self._overdue:
            amend_overdue(changes, self._overdue, world)
            self._overdue = {}
        self.unsettled = bool(changes.started or changes.stopped)
        return changes

    def _line_up_leased(self, world: World, leased: Leased) -> None:
        """Make the order of those who wait; that of those whose leases end when somebody asks for it."""

        def weakest_first() -> list[int]:
            rows, _ = self._in_order(world, np.array(sorted(leased.ending(world.now_s, world.round_s)), dtype=np.int64))
            weakest: list[int] = rows[::-1].tolist()
            return weakest

        waiting, _ = self._in_order(world, np.array(sorted(self._waiting)))
        self._walk.line_up(waiting, weakest_first)

    def _in_order(self, world: World, rows: IntArray) -> tuple[IntArray, BoolArray]:
        """Return the rows, strongest first, and which of them run."""
        glance = cast(Snapshot, Glance(world, self._servers, self._queues, rows))  # it has all that is looked at
        jobs = glance.jobs
        keys = self._key[rows] = self._policy.priority(glance)
        order = np.lexsort((jobs.arrival_s, jobs.first_start_s, keys))  # by row on ties, as they ascend
        return rows[order], jobs.running[order]

    def _follow(self, world: World) -> None:
        """Note who is there."""
        if self._leased:
            self._waiting.update(world.arrived)
            return
        columns, active = self._columns, self._active
        if world.released:
            active = active[columns.arrived[active] & ~columns.ended[active]]
        if world.arrived:
            arrived = np.sort(np.array(world.arrived))
            later = not len(active) or arrived[0] > active[-1]
            active = np.concatenate((active, arrived)) if later else np.union1d(active, arrived)
        self._active = active

    def _seat(self, moves: Moves, leased: Leased, now_s: float) -> None:
        """Note who sits and who waits after a walk."""
        for row in moves.displaced:
            leased.leave(row)
        self._waiting.update(moves.displaced)
        for row in moves.started:
            leased.sit(row, now_s)
        self._waiting.difference_update(moves.started)

    def rests_s(self, world: World) -> float:
        """Return for how long the order stays as it is, seconds; +inf while nobody waits or nobody runs."""
        if self._changes is None or not self._walk.num_waiting or not world.seats:
            return math.inf
        rows = np.array(sorted(self._waiting)) if self._leased else self._active
        jobs = self._columns.look(rows, world.now_s)
        return float(self._changes.next_change_s(jobs).min(initial=math.inf))

    def restore(self, world: World) -> None:
        """Take up a state: ``world`` has the seats, and those who wait as arrived."""
        seats = {row: tuple(seat[:2] for seat in grant) for row, grant in world.seats.items()}
        for row, at in seats.items():
            self._walk.occupy(self._places.of(row), at)
            if self._leased:
                self._leased.sit(row, float(self._columns.held_at_s[row]))
        self._active = self._columns.active
        self._waiting = set(self._active.tolist()).difference(seats)
        grants = self._shelf.sit(seats, (), self._walk.space.free)
        self._overdue = {row: grant for row, grant in grants.items() if grant != world.seats[row]}


def _no_keys(rows: object) -> list[float]:
    raise AssertionError(f"all keys are known, {rows} are asked for")
