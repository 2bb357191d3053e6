"""A planner for one queue without limits under a steady order: it looks only at jobs that arrived, ended or moved.

About a hundredth of the work of ``plan_round``; tests/property/test_simulator_short_rounds.py holds the plans equal.
"""

import math
from collections.abc import Sequence

import numpy as np

from scheduler.core.model.changes import Changes, Grant
from scheduler.core.model.tables import BoolArray, FloatArray, IntArray, Snapshot
from scheduler.core.packing.seating import GpuBoard
from scheduler.core.round.capabilities import (
    ByRemaining,
    ChangesBySelf,
    FillsGroups,
    MayBackfill,
    Steady,
    StepsByService,
)
from scheduler.core.round.config import Policy, SharePolicy
from scheduler.simulator.incremental.orders.service_steps import ServiceSteps
from scheduler.simulator.incremental.planner import amend_overdue, granted
from scheduler.simulator.incremental.planner_input import PlannerInput, seat_board, why_order_is_not_all
from scheduler.simulator.incremental.walks.group_filling_walk import GroupFillingWalk
from scheduler.simulator.incremental.walks.preemption_candidates import Key
from scheduler.simulator.incremental.walks.single_queue_walk import SingleQueueWalk
from scheduler.simulator.state.columns import cells
from scheduler.simulator.state.world import World

# Up to so many rows, a loop is faster than columns.
_FEW_ROWS = 64


def single_queue_rounds(given: PlannerInput) -> "SingleQueueRounds | str":
    """Return the planner, or why it does not apply."""
    config, columns, policy = given.config, given.columns, given.config.policy
    if isinstance(policy, SharePolicy):
        return f"{policy.name} chooses how many GPUs each job gets"
    if why := why_order_is_not_all(given):
        return why
    demands, preemptive = given.demands, policy.preemptive and config.preempt
    snapshot = Snapshot(now_s=0.0, jobs=given.jobs, servers=given.servers, queues=given.queues)
    filling = policy.filling(snapshot) if isinstance(policy, FillsGroups) else None
    board = seat_board(given)
    if filling is not None and not preemptive and filling.sums_are_exact() and isinstance(board, GpuBoard):
        walk: SingleQueueWalk = GroupFillingWalk(
            board,
            config.locality,
            shape=demands.shape,
            gangs=demands.gangs,
            possible=demands.shapes.possible.tolist(),
            filling=filling,
        )
        # Jobs that can never run still count for the jobs behind them in their group.
        return SingleQueueRounds(given, walk, lines_up=np.ones(len(columns), dtype=np.bool_))
    if why := why_order_moves(policy):
        return why
    steps = None
    if preemptive and isinstance(policy, StepsByService):
        steps = ServiceSteps(columns, *policy.service_steps())
    walk = SingleQueueWalk(
        board,
        config.locality,
        shape=demands.shape,
        gangs=demands.gangs,
        preemptive=preemptive,
        ceilings=steps.ceilings if steps else None,
        in_line=isinstance(policy, MayBackfill) and not policy.backfill,
    )
    return SingleQueueRounds(given, walk, lines_up=demands.shapes.possible, steps=steps)


def why_order_moves(policy: Policy) -> str:
    """Return why jobs may pass each other while nothing happens to them; empty where they cannot."""
    if not (isinstance(policy, Steady) and policy.steady):
        return f"what places a job in the order of {policy.name} changes while it waits or runs"
    if isinstance(policy, ChangesBySelf) and not isinstance(policy, StepsByService):
        return f"the order of {policy.name} changes with time"
    return ""


class SingleQueueRounds:
    """Rounds planned from what changed since the round before."""

    def __init__(
        self,
        given: PlannerInput,
        walk: SingleQueueWalk,
        *,
        lines_up: BoolArray,
        steps: ServiceSteps | None = None,
    ) -> None:
        """Begin with no jobs; ``lines_up`` (n,) are the jobs that stand in line while they wait."""
        columns, policy = given.columns, given.config.policy
        self._columns, self._policy, self._ledger, self._walk, self._steps = columns, policy, given.ledger, walk, steps
        self._by_remaining = isinstance(policy, ByRemaining) and policy.by_remaining
        self._servers, self._queues, self._now_s = given.servers, given.queues, 0.0
        self._lines_up: list[bool] = lines_up.tolist()
        self._first_key: list[float] = self._keys(np.arange(len(columns))).tolist()
        self._first_start_s, self._arrival_s = cells(columns.first_start_s), cells(columns.arrival_s)
        self._change_at_s = math.inf
        self._overdue: dict[int, Grant] = {}

    @property
    def unsettled(self) -> bool:
        """Return whether the next round may change something although nothing arrives or ends before it."""
        return self._walk.unsettled

    def plan(self, world: World) -> Changes:
        """Return what the round changes."""
        walk, now_s = self._walk, world.now_s
        self._now_s = now_s
        was_empty = not walk.num_waiting  # while no job waits, changes of the order are not followed
        for row in world.released:
            walk.release(row)
            self._ledger.leave(row)
            if self._steps:
                self._steps.leave(row)
        world.released.clear()
        for row in world.arrived:
            if self._lines_up[row]:
                walk.wait(self._key(row))
        world.arrived.clear()
        # Policies round up to whole seconds, so the order may be another up to a second before.
        if now_s >= self._change_at_s - 1.0 or walk.unsettled or was_empty:
            walk.reopen()
        if self._steps and walk.num_waiting:
            for row, key in self._steps.passed(now_s):
                walk.move(row, key)
        moves = walk.walk(now_s, self._present_keys)
        if self._steps:
            for row in moves.displaced:
                self._steps.leave(row)
            for row in moves.started:
                self._steps.sit(row, now_s)
        changes = granted(moves, walk, self._ledger)
        amend_overdue(changes, self._overdue, world)
        self._change_at_s = -math.inf  # until rests_s() is called
        return changes

    def _key(self, row: int) -> Key:
        first_start_s = self._first_start_s[row]
        key = self._first_key[row] if first_start_s == math.inf else float(self._keys(np.array([row]))[0])
        return key, first_start_s, self._arrival_s[row], row

    def restore(self, world: World) -> None:
        """Go on from a state: ``world`` has the seats, and waiting jobs as arrived."""
        self._now_s = world.now_s
        seats = {row: tuple(seat[:2] for seat in grant) for row, grant in world.seats.items()}
        for row, at in seats.items():
            self._walk.occupy(self._key(row), at)
        grants = self._ledger.sit(seats, (), self._walk.space.free)
        self._overdue = {row: grant for row, grant in grants.items() if grant != world.seats[row]}
        if self._steps:
            for row in seats:
                self._steps.sit(row, world.now_s)

    def rests_s(self, world: World) -> float:
        """Return for how long the order stays as it is, seconds; +inf while it makes no difference."""
        self._change_at_s = math.inf
        if not self._steps or not self._walk.num_waiting:
            return math.inf
        self._change_at_s = self._steps.next_inside_s(world.now_s, self._walk.strongest_key())
        return min(self._change_at_s, self._steps.next_tier_s(world.now_s)) - world.now_s

    def _present_keys(self, rows: Sequence[int]) -> list[float]:
        if self._steps:
            return self._steps.keys(rows, self._now_s)
        if self._by_remaining and len(rows) <= _FEW_ROWS:
            return self._columns.remaining_s(rows, self._now_s)
        keys: list[float] = self._keys(np.array(rows)).tolist()
        return keys

    def _keys(self, rows: IntArray) -> FloatArray:
        jobs = self._columns.look(rows, self._now_s)
        snapshot = Snapshot(now_s=self._now_s, jobs=jobs, servers=self._servers, queues=self._queues)
        return self._policy.priority(snapshot)
