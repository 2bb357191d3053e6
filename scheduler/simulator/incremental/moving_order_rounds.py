"""A planner for one queue without limits under a policy whose order changes with time.

The order is made anew in each round; seats are kept, admission is not needed, and the walk looks at few jobs. Plans are
held equal to those of ``plan_round`` by tests/property/test_simulator_short_rounds.py.
"""

import math
from collections.abc import Sequence
from typing import Protocol, cast

import numpy as np

from scheduler.core.model.changes import Changes, Grant
from scheduler.core.model.tables import BoolArray, FloatArray, IntArray, QueueTable, ServerTable, Snapshot
from scheduler.core.round.capabilities import ChangesBySelf, HoldsLeases, MayBackfill, Promotes
from scheduler.core.round.config import Policy, SharePolicy
from scheduler.simulator.incremental.lazy_snapshot import LazySnapshot
from scheduler.simulator.incremental.orders.lease_order import LeaseOrder
from scheduler.simulator.incremental.planner import amend_overdue, granted
from scheduler.simulator.incremental.planner_input import PlannerInput, seat_board, why_order_is_not_all
from scheduler.simulator.incremental.walks.moving_order_walk import MovingOrderWalk, WeakestFirst
from scheduler.simulator.incremental.walks.preemption_candidates import Key
from scheduler.simulator.incremental.walks.single_queue_walk import Moves
from scheduler.simulator.state.columns import Columns
from scheduler.simulator.state.world import World

_STRIDE = 16  # running jobs returned at once; doubles within a round


class Order(Protocol):
    """The order of each round."""

    def follow(self, world: World) -> None:
        """Take in arrivals and departures since the last round."""

    def waiting(self, world: World) -> list[Key]:
        """Return waiting jobs that could run, strongest first."""

    def weakest(self, world: World) -> WeakestFirst:
        """Return the running jobs that may have to leave; called after ``waiting``."""

    def seated(self, changes: Changes) -> None:
        """Take in what the round changed."""

    def restore(self, seated: Sequence[int], waiting: Sequence[int]) -> None:
        """Go on from a state."""

    def drifting(self) -> Sequence[int]:
        """Return rows among which is a job whose key changes first of all."""


class WholeOrder:
    """The order of all active jobs, made from columns."""

    def __init__(
        self, columns: Columns, servers: ServerTable, queues: QueueTable, policy: Policy, *, possible: BoolArray
    ) -> None:
        """Begin with no jobs; ``possible`` (n,) are the jobs that could run on empty servers."""
        self._columns, self._servers, self._queues, self._policy = columns, servers, queues, policy
        self._possible = possible
        self._active: IntArray = np.zeros(0, dtype=np.int64)  # rows, ascending
        self._running = Ranked(())

    def follow(self, world: World) -> None:
        """Take in arrivals and departures since the last round."""
        columns, active = self._columns, self._active
        if world.released:
            active = active[columns.arrived[active] & ~columns.ended[active]]
        if world.arrived:
            arrived = np.sort(np.array(world.arrived))
            later = not len(active) or arrived[0] > active[-1]
            active = np.concatenate((active, arrived)) if later else np.union1d(active, arrived)
        self._active = active

    def waiting(self, world: World) -> list[Key]:
        """Return waiting jobs that could run, strongest first."""
        # It has all of a snapshot that a policy looks at.
        snapshot = cast(Snapshot, LazySnapshot(world, self._servers, self._queues, self._active))
        jobs = snapshot.jobs
        keys = self._policy.priority(snapshot)
        order = np.lexsort((jobs.arrival_s, jobs.first_start_s, keys))  # by row on ties, as they ascend
        running = jobs.running[order]
        columns = (keys, jobs.first_start_s, jobs.arrival_s, self._active)
        self._running = Ranked([column[order[running][::-1]] for column in columns])
        waits = order[~running & self._possible[self._active[order]]]
        return list(zip(*(column[waits].tolist() for column in columns), strict=True))

    def weakest(self, world: World) -> "Ranked":
        """Return the running jobs that may have to leave."""
        return self._running

    def seated(self, changes: Changes) -> None:
        """Do nothing: the next order is made from the columns."""

    def restore(self, seated: Sequence[int], waiting: Sequence[int]) -> None:
        """Go on from a state."""
        self._active = np.array(sorted((*seated, *waiting)), dtype=np.int64)

    def drifting(self) -> Sequence[int]:
        """Return all active jobs."""
        return cast(Sequence[int], self._active)


class Ranked:
    """Running jobs with their keys, weakest first, evaluated lazily; a ``WeakestFirst``."""

    __slots__ = ("_at", "_columns", "_stride")

    def __init__(self, columns: Sequence[FloatArray | IntArray]) -> None:
        self._columns, self._at, self._stride = columns, 0, _STRIDE

    def more(self, key: Key) -> list[Key]:
        """Return the next jobs; empty when no other is weaker than ``key``."""
        at, end = self._at, self._at + self._stride
        batch: list[Key] = list(zip(*(column[at:end].tolist() for column in self._columns), strict=True))
        if not batch or batch[0] < key:
            return []
        self._at, self._stride = end, 2 * self._stride
        return batch


def moving_order_rounds(given: PlannerInput) -> "MovingOrderRounds | str":
    """Return the planner, or why it does not apply."""
    policy = given.config.policy
    if isinstance(policy, SharePolicy):
        return f"{policy.name} chooses how many GPUs each job gets"
    if why := why_order_is_not_all(given):
        return why
    if isinstance(policy, MayBackfill) and not policy.backfill:
        return "no job may overtake another one that waits"
    if isinstance(policy, Promotes):
        return f"{policy.name} promotes jobs that waited long"
    return MovingOrderRounds(given)


class MovingOrderRounds:
    """Rounds from a new order and kept seats.

    Attributes:
        unsettled: See ``Planner``.
    """

    def __init__(self, given: PlannerInput) -> None:
        """Begin with no jobs."""
        config, columns, servers, demands = given.config, given.columns, given.servers, given.demands
        policy, possible = config.policy, given.demands.shapes.possible
        self.unsettled = False
        self._columns, self._ledger = columns, given.ledger
        self._changes = policy if isinstance(policy, ChangesBySelf) else None
        preemptive = policy.preemptive and config.preempt
        self._walk = MovingOrderWalk(
            seat_board(given),
            config.locality,
            shape=demands.shape,
            gangs=demands.gangs,
            preemptive=preemptive,
        )
        self._order: Order
        if isinstance(policy, HoldsLeases) and policy.lease_s:
            cluster_gpus = int(servers.num_gpus.sum())
            self._order = LeaseOrder(columns, policy, cluster_gpus=cluster_gpus, possible=possible)
        else:
            self._order = WholeOrder(columns, servers, given.queues, policy, possible=possible)
        self._overdue: dict[int, Grant] = {}

    def plan(self, world: World) -> Changes:
        """Return what the round changes."""
        walk, order, moves = self._walk, self._order, Moves()
        for row in world.released:
            walk.release(row)
            self._ledger.leave(row)
        order.follow(world)
        if walk.num_waiting or world.arrived:
            walk.line_up(order.waiting(world), order.weakest(world))
            moves = walk.walk(world.now_s, _no_keys)
        world.arrived.clear()
        world.released.clear()
        changes = granted(moves, walk, self._ledger)
        amend_overdue(changes, self._overdue, world)
        order.seated(changes)
        self.unsettled = bool(changes.started or changes.stopped)
        return changes

    def rests_s(self, world: World) -> float:
        """Return for how long the order stays as it is, seconds; +inf while no job waits or none runs."""
        if self._changes is None or not self._walk.num_waiting or not world.seats:
            return math.inf
        jobs = self._columns.look(np.array(self._order.drifting(), dtype=np.int64), world.now_s)
        return float(self._changes.next_change_s(jobs).min(initial=math.inf))

    def restore(self, world: World) -> None:
        """Go on from a state: ``world`` has the seats, and waiting jobs as arrived."""
        seats = {row: tuple(seat[:2] for seat in grant) for row, grant in world.seats.items()}
        for row, at in seats.items():
            self._walk.occupy((0.0, 0.0, 0.0, row), at)
        self._order.restore(list(seats), [row for row in self._columns.active.tolist() if row not in seats])
        grants = self._ledger.sit(seats, (), self._walk.space.free)
        self._overdue = {row: grant for row, grant in grants.items() if grant != world.seats[row]}


def _no_keys(rows: object) -> list[float]:
    raise AssertionError(f"all keys are known, {rows} are asked for")
