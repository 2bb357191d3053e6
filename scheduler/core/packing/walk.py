"""Which jobs run and on which servers: one walk over the jobs, strongest claim first.

A running job keeps its seats unless a stronger job needs them and could not sit anywhere else. A waiting job takes
free GPUs, else the GPUs of the least important work that makes enough room, else it waits; weaker jobs then fill what
it left. A job loses its seats only to a job that takes them. Jobs that keep their seats cost no time: the walk stops
only at those that claim some. tests/property/test_plan_oracle.py and tests/oracle check the outcome.
"""

from collections.abc import Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush

import numpy as np

from scheduler.core.model.queue_tree import QueueTree
from scheduler.core.model.tables import NO_ROW, IntArray
from scheduler.core.packing.board import Board
from scheduler.core.packing.claims import NO_TURN, Claims, Part
from scheduler.core.packing.committed_gpus import CommittedGpus
from scheduler.core.packing.draft import Seats
from scheduler.core.packing.locality import Locality
from scheduler.core.packing.preemption.displaceable_rows import DisplaceableRows
from scheduler.core.packing.preemption.room import PreemptionRoom
from scheduler.core.packing.seating import Seating
from scheduler.core.packing.selection import Demands, Refusal, Selection


class Walk:
    """One walk over all claims; it moves the rows of the board."""

    def __init__(self, board: Board, demands: Demands, claims: Claims, tree: QueueTree, locality: Locality) -> None:
        """Prepare to walk."""
        self._board, self._demands, self._claims, self._tree, self._locality = board, demands, claims, tree, locality
        self._row: list[int] = demands.rows.tolist()
        self._shape, self._limits = demands.shape, demands.limits
        self._num_jobs = len(self._row)
        self._leaving = [row for row in range(len(demands.shape), len(board.num_gpus)) if row in board.seats]
        self._committed = CommittedGpus(board, tree, demands.limits, demands.rows)
        self._total = sum(board.space.topology.gpus)
        self._open = self._total  # GPUs that no committed row holds
        self._turn = 0
        self._last_departure = -1
        self._seating = Seating(board, demands.shape)
        self._job: dict[int, int] = {}  # jobs that took or left seats, by row
        self._reclaimed: set[int] = set()
        self._refusals: dict[int, Refusal] = {}
        self._refusal = Refusal(full_queue=NO_ROW, open_gpus=0, starved=False)
        self._first_waiting: dict[int, int] = {}  # by queue in which no job may overtake another
        # Displaced jobs that claim seats again. In this part of the walk: a heap of (turn, job, whether it counts as
        # committed from its turn on). In the second part: their positions among the displaceable rows.
        self._back: list[tuple[int, int, bool]] = []
        self._later: list[int] = []
        self._in_quota = True
        self._preemption = self._preemption_in(claims.covered)
        # Whether the present claim found enough GPUs but not their cores or memory. And for each shape that found no
        # free seats: the board's departures at that time, and whether it was starved.
        self._starved = False
        self._shut: dict[int, tuple[int, bool]] = {}

    def select(self) -> Selection:
        """Walk over the claims and return what changes."""
        claims, place = self._claims, self._claims.place
        late = np.array(self._take_turns(claims.covered), dtype=np.int64)
        self._back = self._late_turns()
        self._in_quota = False
        self._preemption = self._preemption_in(claims.others)
        self._take_turns(_joined(claims.others, late, place[late]))
        seating, job = self._seating, self._job
        return Selection(
            started={job[row]: seats for row, seats in seating.started().items()},
            displaced={job[row]: job[by_row] for row, by_row in seating.displaced.items() if row in job},
            reclaimed=self._reclaimed,
            on_free={job[row] for row in seating.on_free},
            refusals=self._refusals,
            last_departure=self._last_departure,
        )

    def _preemption_in(self, part: Part) -> PreemptionRoom:
        return PreemptionRoom(self._board, self._demands, part, self._tree.within, self._leaving, self._locality)

    def _late_turns(self) -> list[tuple[int, int, bool]]:
        """Return a heap of the displaced jobs whose turn comes among the others."""
        if not self._later:
            return []
        displaceable, at = self._preemption.rows(), np.array(self._later)
        job = np.array(displaceable.job)[at]
        columns = (self._claims.place[job], job, ~displaceable.locked[at])
        back = [*zip(*(column.tolist() for column in columns), strict=True)]
        heapify(back)
        return back

    def undo(self) -> None:
        """Put every job back to where it sat before the walk."""
        self._seating.undo()

    def _take_turns(self, part: Part) -> list[int]:
        """Let the jobs of a part claim seats one after another; return those that got none."""
        committed, back, row_of = self._committed, self._back, self._row
        committed.begin(part)
        self._first_waiting.clear()
        refused = []
        turns, jobs = part.waiting_turn.tolist(), part.waiting.tolist()
        at_once = not self._claims.in_line and not any(self._demands.limits)
        for at, (turn, job, passed) in enumerate(zip(turns, jobs, committed.by_turns(part.waiting_turn), strict=True)):
            while back and back[0][0] < turn:
                refused += self._come_back()
            self._turn, self._open = turn, self._total - committed.gpus - passed
            if not self._open and at_once:
                refused += self._refuse_all(jobs[at:])
                break
            if not self._claim(job, row_of[job]):
                refused.append(job)
        while back:
            refused += self._come_back()
        committed.end()
        return refused

    def _refuse_all(self, jobs: list[int]) -> list[int]:
        """Refuse these jobs and those whose turn is to come again: nothing is open, and less of it never helps."""
        jobs += [job for _, job, _ in self._back]
        num_gpus, row_of = self._board.num_gpus, self._row
        self._committed.gpus -= sum([num_gpus[row_of[job]] for _, job, counted in self._back if counted])
        self._back.clear()
        self._refusals.update(dict.fromkeys(jobs, Refusal(full_queue=NO_ROW, open_gpus=0, starved=False)))
        return jobs

    def _come_back(self) -> list[int]:
        """Let a displaced job have its turn; return it if it gets no seats."""
        turn, job, counted = heappop(self._back)
        row, committed = self._row[job], self._committed
        self._turn = turn
        self._open = self._total - committed.gpus - committed.by_turn(turn)
        sits = self._claim(job, row)
        if counted:
            committed.add(row, -1)
        return [] if sits else [job]

    def _scope(self, job: int, gpus: int, queue: int) -> int | None:
        """Return the queue inside which a job may displace others; NO_ROW for everywhere, None for nowhere.

        A covered job may take from outside a queue only while that queue holds less than its quota: else it takes the
        place of a weaker job of the same queue.
        """
        if not self._in_quota:
            return NO_ROW
        held, quota, path = self._board.held_gpus, self._tree.quota, self._tree.paths[queue]
        cover = self._claims.cover.item(job)
        for above in path if cover == path[0] else path[path.index(cover) :]:
            if held[above] + gpus > quota[above]:
                return above
        return NO_ROW if self._claims.may_reclaim.item(job) else None

    def _claim(self, job: int, row: int) -> bool:
        """Seat a job that does not sit, if it can be done within the rules; note the refusal otherwise."""
        board, cap = self._board, self._tree.cap
        gpus, queue = board.num_gpus[row], board.queue[row]
        if (
            self._first_waiting
            and queue in self._first_waiting
            and all(cap[node] >= gpus for node in self._limits[queue])
        ):
            return self._refuse_behind(job, self._first_waiting[queue])
        full = NO_ROW
        for node in self._limits[queue]:
            if self._committed.in_queue(node, self._turn) + gpus > cap[node]:
                return self._refuse(job, row, full_queue=node)
            if full == NO_ROW and board.held_gpus[node] + gpus > cap[node]:
                full = node  # the nearest full queue: room made inside it is room in all above it
        self._starved = False
        if self._open < gpus:
            return self._refuse(job, row)
        if full != NO_ROW:
            return self._claim_in_full_queue(job, row, full, self._scope(job, gpus, queue))
        seats: Seats = ()
        if board.space.total >= gpus:
            if row in self._seating.before:
                seats = self._seating.home(row, board.fits(row))
            seats = seats or self._choose_free(row)
        if seats:
            return self._sit(job, row, seats, ())
        scope = self._scope(job, gpus, queue)
        if scope is not None:
            seats, victims = self._room(row, scope)
            if seats:
                return self._sit(job, row, seats, victims)
        return self._refuse(job, row)

    def _claim_in_full_queue(self, job: int, row: int, full: int, scope: int | None) -> bool:
        """Seat a job of a queue that may hold no more: a weaker job of that queue has to leave for it."""
        board, path = self._board, self._board.path(row)
        if scope is None:
            return self._refuse(job, row, full_queue=full)
        if scope == NO_ROW or path.index(full) < path.index(scope):
            scope = full
        seats, victims = self._room(row, scope)
        if not seats:
            seats, victims = self._choose(row), []
        if not seats:
            return self._refuse(job, row)
        gpus = board.num_gpus[row]
        missing = max(min(gpus, board.held_gpus[node] + gpus - self._tree.cap[node]) for node in path)
        displaceable = self._preemption.rows()
        missing -= sum(board.num_gpus[displaceable.row[at]] for at in victims if displaceable.job[at] < self._num_jobs)
        for at in np.flatnonzero(self._preemption.group(row, scope).among).tolist():
            if missing <= 0:
                break
            may_move = displaceable.there[at] and displaceable.turn[at] > self._turn
            if may_move and at not in victims and displaceable.job[at] < self._num_jobs:
                victims.append(at)
                missing -= board.num_gpus[displaceable.row[at]]
        return self._refuse(job, row, full_queue=full) if missing > 0 else self._sit(job, row, seats, victims)

    def _choose_free(self, row: int) -> Seats:
        """Return seats on free GPUs. What a job could not get, no other of its shape gets until a job leaves."""
        board, shape = self._board, self._shape[row]
        departures, starved = self._shut.get(shape, (-1, False))
        if departures == board.departures:
            self._starved |= starved
            return ()
        seats = self._choose(row)
        if not seats:
            self._shut[shape] = (board.departures, self._starved)
        return seats

    def _choose(self, row: int) -> Seats:
        gang, board = self._demands.gangs[self._demands.shape[row]], self._board
        space = board.space
        if not board.tight:
            return self._locality.seats(space, gang)
        seats = self._locality.seats(space, replace(gang, fits=board.fits(row))) if board.may_fit(row) else ()
        self._starved |= not seats and bool(self._locality.seats(space, gang))
        return seats

    def _room(self, row: int, scope: int) -> tuple[Seats, list[int]]:
        """Return seats that come free by preemption inside ``scope``, and the victims."""
        seats, victims, starved = self._preemption.room(row, scope, self._turn)
        self._starved |= starved
        return seats, victims

    def _sit(self, job: int, row: int, seats: Seats, victims: Sequence[int]) -> bool:
        """Seat a job after its victims, positions among the displaceable rows, have left."""
        self._job[row] = job
        if victims:
            if not self._in_quota:
                self._last_departure = self._turn
            displaceable = self._preemption.rows()
            self._seating.take(row, seats, [displaceable.row[at] for at in victims])
            for at in victims:
                self._note_departure(displaceable, at, row)
        else:
            self._seating.take(row, seats, ())
        self._committed.add(row)
        self._refusals.pop(job, None)
        return True

    def _note_departure(self, displaceable: DisplaceableRows, at: int, by_row: int) -> None:
        """Note that the displaceable row at a position left its seats for another row."""
        queue = self._board.queue
        victim, row, turn = displaceable.job[at], displaceable.row[at], displaceable.turn[at]
        displaceable.leave(at, self._seating.before[row])
        if victim >= self._num_jobs:
            return
        self._job[row] = victim
        if self._in_quota and turn == NO_TURN and queue[row] != queue[by_row]:
            self._reclaimed.add(victim)
        if turn != NO_TURN:
            heappush(self._back, (turn, victim, True))
        else:
            self._later.append(at)

    def _refuse(self, job: int, row: int, *, full_queue: int = NO_ROW) -> bool:
        last, starved = self._refusal, self._starved
        if last.open_gpus != self._open or last.full_queue != full_queue or last.starved != starved:
            last = Refusal(full_queue=full_queue, open_gpus=self._open, starved=starved)
            self._refusal = last  # many jobs in a row are refused for the same cause
        self._refusals[job] = last
        if self._claims.in_line:
            board, gpus = self._board, self._board.num_gpus[row]
            if all(self._tree.cap[node] >= gpus for node in board.path(row)):
                self._first_waiting.setdefault(board.queue[row], job)
        return False

    def _refuse_behind(self, job: int, first: int) -> bool:
        self._refusals[job] = Refusal(full_queue=NO_ROW, open_gpus=self._open, starved=False, behind=first)
        return False


def _joined(part: Part, late: IntArray, turns: IntArray) -> Part:
    """Return the part with more jobs that wait."""
    if not len(late):
        return part
    turn = np.concatenate((part.waiting_turn, turns))
    by_turn = turn.argsort()
    waiting = np.concatenate((part.waiting, late))[by_turn]
    return replace(part, waiting=waiting, waiting_turn=turn[by_turn])
