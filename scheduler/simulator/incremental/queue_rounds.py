"""A planner for any tree of queues that keeps the board from round to round. A tenth of the work of ``plan_round``.

Order, admission and walk are those of ``plan_round`` (``seat_jobs``); the ``RoundState`` is made once for the whole
workload, and no reasons of waiting are found. tests/property/test_simulator_queue_rounds.py holds the plans equal.
"""

import math
from dataclasses import replace
from typing import cast

import numpy as np

from scheduler.core.model.changes import Changes, Grant
from scheduler.core.model.queue_tree import queue_tree
from scheduler.core.model.tables import IntArray, Snapshot
from scheduler.core.packing.draft import Seats
from scheduler.core.packing.selection import Selection
from scheduler.core.round.admission import Standing
from scheduler.core.round.capabilities import ChangesBySelf, FillsQueues, Promotes, Steady
from scheduler.core.round.claim_order import Line, by_keys, displaced_by, policy_order
from scheduler.core.round.config import Policy, SharePolicy
from scheduler.core.round.round_state import round_state
from scheduler.core.round.seat_jobs import seat_jobs
from scheduler.simulator.incremental.lazy_snapshot import LazySnapshot
from scheduler.simulator.incremental.orders.overtaking import Overtaking
from scheduler.simulator.incremental.orders.queue_shares import QueueShares
from scheduler.simulator.incremental.orders.waiting_lines import KeptLines, keeps_lines
from scheduler.simulator.incremental.planner import amend_overdue, promote, until_rights_change_s
from scheduler.simulator.incremental.planner_input import PlannerInput
from scheduler.simulator.incremental.side_by_side import SideBySide, stand_side_by_side
from scheduler.simulator.state.world import World

# Tries with more and more jobs of each line, before a round is made with all jobs.
_TRIES = 3


def queue_rounds(given: PlannerInput) -> "QueueRounds | str":
    """Return the planner, or why it does not apply."""
    policy = given.config.policy
    if isinstance(policy, SharePolicy):
        return f"{policy.name} chooses how many GPUs each job gets"
    return QueueRounds(given, policy)


class QueueRounds:
    """Rounds on one board. Its rows are those of the workload.

    Attributes:
        unsettled: See ``Planner``.
    """

    def __init__(self, given: PlannerInput, policy: Policy) -> None:
        servers, queues, demands = given.servers, given.queues, given.demands
        self.unsettled = False
        self._columns, self._servers, self._queues = given.columns, servers, queues
        self._config, self._ledger = given.config, given.ledger
        # isinstance with a protocol takes as long as a walk, so it is asked once.
        steady = isinstance(policy, Steady) and policy.steady  # then waiting moves no job to the top
        self._promotes = policy if isinstance(policy, Promotes) and not steady else None
        self._changes_by_self = policy if isinstance(policy, ChangesBySelf) else None
        self._tree = queue_tree(queues)
        self._overtaking = Overtaking(policy, servers, queues)
        self._possible, self._shape, self._gangs = demands.shapes.possible, demands.shape, demands.gangs
        empty = Snapshot(now_s=0.0, jobs=given.jobs, servers=servers, queues=queues)
        every = np.arange(len(given.jobs))
        self._state = round_state(empty, given.config, self._tree, demands, order=every)
        self._board = self._state.board
        self._jobs_wait = False
        self._lines = KeptLines(given, policy, num_queues=len(queues)) if keeps_lines(given, policy) else None
        self._shares: QueueShares | None = None
        if self._lines is not None and isinstance(policy, FillsQueues):
            self._shares = QueueShares(given, policy, self._board, self._lines)
        self._side_by_side: SideBySide | None = None
        if self._lines is not None and stand_side_by_side(given, self._tree):
            self._side_by_side = SideBySide(given, self._tree, self._board, self._lines, self._shares)
        self._overdue: dict[int, Grant] = {}

    def plan(self, world: World) -> Changes:
        """Return what the round changes."""
        policy, columns = self._promotes, self._columns
        if policy is not None and (self._jobs_wait or world.arrived):
            rows = columns.active
            promote(columns, rows[policy.promoted(columns.look(rows, world.now_s))], world.now_s)
        for row in world.released:
            self._board.leave(row)
            self._ledger.leave(row)
        if self._lines is not None:
            self._lines.follow(world.arrived, world.now_s)
        changes = None if self._jobs_wait else self._lone_claim(world)
        world.arrived.clear()
        world.released.clear()
        if changes is None:
            changes = self._fewest(world)
        if self._lines is not None:
            self._lines.note(changes)
        if self._side_by_side is not None:
            self._side_by_side.start(changes.started)
        amend_overdue(changes, self._overdue, world)
        self.unsettled = bool(changes.started or changes.stopped)
        return changes

    def _lone_claim(self, world: World) -> Changes | None:
        """Return the changes of a round before which no job waited; None when it takes a whole walk.

        No job stands in the way of a single claim that the caps of its queues allow and free GPUs serve.
        """
        board = self._board
        claims = [row for row in world.arrived if row not in board.seats and not world.columns.ended[row]]
        claims = [row for row in claims if self._possible[row]]
        if len(claims) > 1:
            return None
        seats: dict[int, Seats] = {}
        for row in claims:
            gpus = board.num_gpus[row]
            if any(board.held_gpus[node] + gpus > self._tree.cap[node] for node in board.path(row)):
                return None
            gang = self._gangs[self._shape[row]]
            if board.tight:
                gang = replace(gang, fits=board.fits(row))
            seats[row] = self._config.locality.seats(board.space, gang)
            if not seats[row]:
                return None
            board.sit(row, seats[row])
        return self._granted(seats, set(seats), Changes())

    def _fewest(self, world: World) -> Changes:
        """Return the changes of a round made with as few jobs as decide it."""
        lines = self._lines
        if lines is None:
            return self._whole(world, self._columns.active)
        if self._shares:
            self._shares.begin()
        decision = self._side_by_side.decided(world.now_s) if self._side_by_side else None
        if decision is not None:
            started, on_free, stopped = decision
            num_waiting = len(lines) + len(stopped.keys() - started.keys()) - len(started.keys() - stopped.keys())
            self._jobs_wait = num_waiting > 0
            return self._granted(started, on_free, self._stopping(stopped))
        return self._with_fronts(world, lines)

    def _with_fronts(self, world: World, lines: KeptLines) -> Changes:
        """Return the changes of a round made with the first jobs of each line; see ``waiting_lines``."""
        for _ in range(_TRIES):
            rows, last, behind = lines.looked(world)
            if behind is None:
                break
            line, selection = self._seated(world, rows, behind)
            short = [row for row in last if not _all_behind_refused(line, selection, rows.searchsorted(row))]
            if not short and not line.passes_over:
                lines.relax()
                return self._changes(line, selection, rows)
            self._take_back(world, selection, rows)
            if line.passes_over:
                break
            lines.deepen(short)
        return self._whole(world, self._columns.active)

    def _take_back(self, world: World, selection: Selection, rows: IntArray) -> None:
        """Let all jobs sit where they sat before the walk."""
        number: list[int] = rows.tolist()
        started = {number[job] for job in selection.started}
        for row in started:
            self._board.leave(row)
        for row in sorted(started | {number[job] for job in selection.displaced}):
            if row in world.seats:
                self._board.sit(row, tuple(seat[:2] for seat in world.seats[row]))

    def _whole(self, world: World, rows: IntArray) -> Changes:
        """Order all jobs and walk over their claims."""
        return self._changes(*self._seated(world, rows), rows)

    def _seated(self, world: World, rows: IntArray, behind: IntArray | None = None) -> tuple[Line, Selection]:
        """Order some jobs and seat those that find room; for ``behind`` see ``admit``."""
        # It has all of a snapshot that is looked at.
        snapshot = cast(Snapshot, LazySnapshot(world, self._servers, self._queues, rows))
        return seat_jobs(
            snapshot,
            self._config,
            self._state,
            rows=rows,
            order=self._order(snapshot, behind),
            possible=self._possible[rows],
            seated=snapshot.jobs.running,
            behind=behind,
        )

    def _order(self, snapshot: Snapshot, behind: IntArray | None) -> IntArray:
        """Return the jobs in the order of the policy; for ``behind`` see ``admit``."""
        shares, lines, jobs = self._shares, self._lines, snapshot.jobs
        if behind is None or shares is None or lines is None:
            return policy_order(snapshot, self._config)
        keys = self._config.policy.priority(snapshot)
        for at in np.flatnonzero(~jobs.running).tolist():  # jobs that are left out count for them
            row = jobs.job_id.item(at)
            keys[at] = shares.key(jobs.queue.item(at), lines.key(row))[0]
        return by_keys(jobs, keys)

    def _changes(self, line: Line, selection: Selection, rows: IntArray) -> Changes:
        """Return what a walk changed."""
        self._jobs_wait = bool(selection.refusals)
        number: list[int] = rows.tolist()
        changes = self._stopping(_stopped(line, selection, number))
        started = {number[job]: seats for job, seats in selection.started.items()}
        return self._granted(started, {number[job] for job in selection.on_free}, changes)

    def _stopping(self, stopped: dict[int, tuple[str, int]]) -> Changes:
        for row in stopped:
            self._ledger.leave(row)
        return Changes(stopped=stopped)

    def _granted(self, started: dict[int, Seats], on_free: set[int], changes: Changes) -> Changes:
        """Return the changes with the cores and memory of jobs that start and of their neighbours."""
        # Twin: mechanism.grant in plan_round; tests/property/test_simulator_queue_rounds.py holds both equal.
        board = self._board
        grants: dict[int, Grant] = self._ledger.sit(started, on_free, board.space.free)
        for row, grant in grants.items():
            if row not in started:
                changes.amended[row] = grant
                continue
            changes.started[row] = grant
            given = tuple((server, gpus) for server, gpus, _, _ in grant)
            if given != board.seats[row]:  # the mechanism found a better server
                board.leave(row)
                board.sit(row, given)
        return changes

    def rests_s(self, world: World) -> float:
        """Return for how long the order stays as it is, seconds; +inf while no job waits or none runs."""
        config = self._config
        if not self._jobs_wait or not world.seats:
            return math.inf
        lines = self._lines
        looked = (lambda: lines.looked(world)[0]) if lines is not None else None
        rests_s = self._overtaking.after_s(world, looked)
        if self._changes_by_self is None and not (config.min_run_s or config.reclaim_after_s):
            return rests_s
        jobs = self._columns.look(self._columns.active, world.now_s)
        rests_s = min(rests_s, until_rights_change_s(config, jobs, world.now_s))
        if self._changes_by_self is not None:
            rests_s = min(rests_s, float(self._changes_by_self.next_change_s(jobs).min(initial=math.inf)))
        return rests_s

    def restore(self, world: World) -> None:
        """Go on from a state: ``world`` has the seats, and waiting jobs as arrived."""
        seats = {row: tuple(seat[:2] for seat in grant) for row, grant in world.seats.items()}
        for row, at in seats.items():
            self._board.sit(row, at)
        if self._side_by_side is not None:
            self._side_by_side.start(np.flatnonzero(np.isfinite(world.columns.first_start_s)).tolist())
        grants = self._ledger.sit(seats, (), self._board.space.free)
        self._overdue = {row: grant for row, grant in grants.items() if grant != world.seats[row]}
        self._jobs_wait = True  # maybe; the next round finds out


def _all_behind_refused(line: Line, selection: Selection, last: np.intp) -> bool:
    """Return whether jobs that stand behind a job, in its queue and asking for the same, are refused as it is."""
    is_beyond = line.admission.standing[last] == Standing.BEYOND
    return bool(is_beyond and line.claims.place[last] > selection.last_departure and int(last) in selection.refusals)


def _stopped(line: Line, selection: Selection, number: list[int]) -> dict[int, tuple[str, int]]:
    """Return the jobs that leave, in the order of the policy, with the rule and the job that takes their GPUs."""
    return {
        number[job]: (str(displaced_by(line, selection, job, by_job)), number[by_job])
        for job, by_job in sorted(selection.displaced.items(), key=lambda pair: line.position.item(pair[0]))
    }
