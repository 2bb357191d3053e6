"""A planner for one queue that may hold everything under a policy whose order moves: it is made anew in each round.

Who sits where is kept, nobody's rights have to be asked for, and the walk looks at few (``FreshWalk``). Same plans.
"""

import math
from typing import cast

import numpy as np

from scheduler.core.changes import Changes, Grant
from scheduler.core.config import ChangesBySelf, SchedulerConfig
from scheduler.core.feasible import Shapes, gangs_of
from scheduler.core.packing.fresh import FreshWalk, Places
from scheduler.core.packing.shelf import Shelf
from scheduler.core.packing.short import Moves
from scheduler.core.tables import IntArray, QueueTable, ServerTable, Snapshot
from scheduler.simulator.columns import Columns, cells
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
        self._active: IntArray = np.zeros(0, dtype=np.int64)  # rows, ascending
        self._overdue: dict[int, Grant] = {}

    def plan(self, world: World) -> Changes:
        """Return what the round changes."""
        walk, moves = self._walk, Moves()
        for row in world.released:
            walk.release(row)
            self._shelf.leave(row)
        self._follow(world)
        if walk.num_waiting or world.arrived:
            rows = self._active
            glance = cast(Snapshot, Glance(world, self._servers, self._queues, rows))  # it has all that is looked at
            jobs = glance.jobs
            keys = self._key[rows] = self._policy.priority(glance)
            order = np.lexsort((jobs.arrival_s, jobs.first_start_s, keys))  # by row on ties, as they ascend
            walk.line_up(rows[order], jobs.running[order])
            moves = walk.walk(world.now_s, _no_keys)
        world.arrived.clear()
        world.released.clear()
        changes = granted(moves, walk, self._shelf)
        if self._overdue:
            amend_overdue(changes, self._overdue, world)
            self._overdue = {}
        self.unsettled = bool(changes.started or changes.stopped)
        return changes

    def _follow(self, world: World) -> None:
        """Note who is there."""
        columns, active = self._columns, self._active
        if world.released:
            active = active[columns.arrived[active] & ~columns.ended[active]]
        if world.arrived:
            arrived = np.sort(np.array(world.arrived))
            later = not len(active) or arrived[0] > active[-1]
            active = np.concatenate((active, arrived)) if later else np.union1d(active, arrived)
        self._active = active

    def rests_s(self, world: World) -> float:
        """Return for how long the order stays as it is, seconds; +inf while nobody waits or nobody runs."""
        if self._changes is None or not self._walk.num_waiting or not world.seats:
            return math.inf
        jobs = self._columns.look(self._active, world.now_s)
        return float(self._changes.next_change_s(jobs).min(initial=math.inf))

    def restore(self, world: World) -> None:
        """Take up a state: ``world`` has the seats, and those who wait as arrived."""
        seats = {row: tuple(seat[:2] for seat in grant) for row, grant in world.seats.items()}
        for row, at in seats.items():
            self._walk.occupy(self._places.of(row), at)
        self._active = self._columns.active
        grants = self._shelf.sit(seats, (), self._walk.space.free)
        self._overdue = {row: grant for row, grant in grants.items() if grant != world.seats[row]}


def _no_keys(rows: object) -> list[float]:
    raise AssertionError(f"all keys are known, {rows} are asked for")
