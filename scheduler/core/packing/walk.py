"""Which jobs run and on which servers: one walk over the jobs, strongest claim first.

A running job keeps its seats unless a stronger job needs them and could not sit anywhere else. A waiting job takes
free GPUs, else the GPUs of the least important work that makes enough room, else it waits; weaker jobs then fill what
it left. Nobody is moved unless the job that asked for it takes the seat. Jobs that keep their seats cost nothing: the
walk stops only at those that claim some.
"""

from collections.abc import Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush

import numpy as np

from scheduler.core.model.queue_tree import QueueTree
from scheduler.core.model.tables import NO_ROW, IntArray
from scheduler.core.packing.board import Board
from scheduler.core.packing.claims import NO_TURN, Claims, Part
from scheduler.core.packing.committed_gpus import Firm
from scheduler.core.packing.draft import Seats
from scheduler.core.packing.free_gpus import FreeGpus, with_fits
from scheduler.core.packing.locality import Locality
from scheduler.core.packing.preemption_search import CandidateGroup, DisplaceableRows, PreemptionSearch
from scheduler.core.packing.selection import Crew, Refusal, Selection


class Walk:
    """One walk over all claims; it moves the rows of the board."""

    def __init__(self, board: Board, crew: Crew, claims: Claims, tree: QueueTree, locality: Locality) -> None:
        """Prepare to walk."""
        self._board, self._crew, self._claims, self._tree, self._locality = board, crew, claims, tree, locality
        self._row: list[int] = crew.rows.tolist()
        self._shape, self._limits = crew.shape, crew.limits
        self._num_jobs = len(self._row)
        self._leaving = [row for row in range(len(crew.shape), len(board.num_gpus)) if row in board.seats]
        self._firm = Firm(board, tree, crew.limits, crew.rows)
        self._within = tree.within
        self._total = sum(board.space.topology.gpus)
        self._open = self._total  # GPUs that no firm row holds
        self._turn = 0
        self._before: dict[int, Seats] = {}  # by row, of those who left their seats
        self._sat: dict[int, int] = {}  # jobs that took seats, by row
        self._displaced: dict[int, int] = {}
        self._reclaimed: set[int] = set()
        self._on_free: set[int] = set()
        self._refusals: dict[int, Refusal] = {}
        self._refusal = Refusal(full_queue=NO_ROW, open_gpus=0, starved=False)
        self._first_waiting: dict[int, int] = {}  # by queue, where jobs have to keep their line
        # Displaced jobs whose turn is to come: (turn, job, whether it would have become firm then). Of those whose turn
        # comes among the others their positions among the displaceable rows.
        self._back: list[tuple[int, int, bool]] = []
        self._later: list[int] = []
        self._in_quota = True
        self._groups: dict[tuple[int, int], CandidateGroup] = {}
        # Of the present claim: whether it found room by GPUs alone. And for shapes that found no free seats: how many
        # had left by then, and the same.
        self._starved = False
        self._shut: dict[int, tuple[int, bool]] = {}

    def select(self) -> Selection:
        """Walk over the claims and return who runs where."""
        claims, place = self._claims, self._claims.place
        late = np.array(self._take_turns(claims.covered), dtype=np.int64)
        self._back = self._late_turns()
        self._in_quota = False
        self._take_turns(_joined(claims.others, late, place[late]))
        seats, before = self._board.seats, self._before
        return Selection(
            started={job: seats[row] for row, job in self._sat.items() if before.get(row) != seats[row]},
            displaced=self._displaced,
            reclaimed=self._reclaimed,
            on_free=self._on_free,
            refusals=self._refusals,
        )

    def _late_turns(self) -> list[tuple[int, int, bool]]:
        """Return a heap of the displaced jobs whose turn comes among the others."""
        if not self._later:
            return []
        displaceable, at = self._movables(), np.array(self._later)
        job = np.array(displaceable.job)[at]
        columns = (self._claims.place[job], job, ~displaceable.locked[at])
        back = [*zip(*(column.tolist() for column in columns), strict=True)]
        heapify(back)
        return back

    def undo(self) -> None:
        """Put everybody back to where they sat before the walk."""
        for row in self._sat:
            self._board.leave(row)
        for row, seats in self._before.items():
            self._board.sit(row, seats)

    def _take_turns(self, part: Part) -> list[int]:
        """Let the jobs of a part claim seats one after another; return those that got none."""
        firm, back, row_of = self._firm, self._back, self._row
        firm.begin(part)
        self._groups.clear()
        self._first_waiting.clear()
        self._displaceable: DisplaceableRows | None = None
        refused = []
        turns, jobs = part.waiting_turn.tolist(), part.waiting.tolist()
        at_once = not self._claims.in_line and not any(self._crew.limits)
        for at, (turn, job, passed) in enumerate(zip(turns, jobs, firm.come_past(part.waiting_turn), strict=True)):
            while back and back[0][0] < turn:
                refused += self._come_back()
            self._turn, self._open = turn, self._total - firm.gpus - passed
            if not self._open and at_once:
                refused += self._refuse_all(jobs[at:])
                break
            if not self._claim(job, row_of[job]):
                refused.append(job)
        while back:
            refused += self._come_back()
        firm.end()
        return refused

    def _refuse_all(self, jobs: list[int]) -> list[int]:
        """Refuse these jobs and those whose turn is to come again: nothing is open, and less of it never helps."""
        jobs += [job for _, job, _ in self._back]
        num_gpus, row_of = self._board.num_gpus, self._row
        self._firm.gpus -= sum([num_gpus[row_of[job]] for _, job, counted in self._back if counted])
        self._back.clear()
        self._refusals.update(dict.fromkeys(jobs, Refusal(full_queue=NO_ROW, open_gpus=0, starved=False)))
        return jobs

    def _come_back(self) -> list[int]:
        """Let a displaced job have its turn; return it if it gets no seats."""
        turn, job, counted = heappop(self._back)
        row, firm = self._row[job], self._firm
        self._turn = turn
        self._open = self._total - firm.gpus - firm.passed(turn)
        sits = self._claim(job, row)
        if counted:
            firm.add(row, -1)
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
        if self._first_waiting and queue in self._first_waiting:
            return self._refuse_behind(job, self._first_waiting[queue])
        full = NO_ROW
        for node in self._limits[queue]:
            if self._firm.in_queue(node, self._turn) + gpus > cap[node]:
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
            seats = (row in self._before and self._home(row)) or self._choose_free(row)
        if seats:
            return self._sit(job, row, seats, ())
        scope = self._scope(job, gpus, queue)
        if scope is not None:
            seats, victims = self._room(row, scope)
            if seats:
                return self._sit(job, row, seats, victims)
        return self._refuse(job, row)

    def _claim_in_full_queue(self, job: int, row: int, full: int, scope: int | None) -> bool:
        """Seat a job of a queue that may hold no more: somebody weaker of that queue has to leave for it."""
        board, path = self._board, self._board.path(row)
        if scope is None:
            return self._refuse(job, row, full_queue=full)
        if scope == NO_ROW or path.index(full) < path.index(scope):
            scope = full
        seats, victims = self._room(row, scope)
        if not seats:
            seats, victims = self._choose(board.space, row), []
        if not seats:
            return self._refuse(job, row)
        gpus = board.num_gpus[row]
        missing = max(min(gpus, board.held_gpus[node] + gpus - self._tree.cap[node]) for node in path)
        displaceable = self._movables()
        missing -= sum(board.num_gpus[displaceable.row[at]] for at in victims if displaceable.job[at] < self._num_jobs)
        for at in np.flatnonzero(self._group(row, scope).among).tolist():
            if missing <= 0:
                break
            may_move = displaceable.there[at] and displaceable.turn[at] > self._turn
            if may_move and at not in victims and displaceable.job[at] < self._num_jobs:
                victims.append(at)
                missing -= board.num_gpus[displaceable.row[at]]
        return self._refuse(job, row, full_queue=full) if missing > 0 else self._sit(job, row, seats, victims)

    def _home(self, row: int) -> Seats:
        """Return the seats a displaced job had at the start when they are free again."""
        board, seats = self._board, self._before[row]
        for server, gpus in seats:
            if board.space.free[server] < gpus or not board.fits_after(row, server, gpus, ()):
                return ()
        return seats

    def _choose_free(self, row: int) -> Seats:
        """Return seats on free GPUs. What a job could not get, no other of its shape gets until somebody leaves."""
        board, shape = self._board, self._shape[row]
        departures, starved = self._shut.get(shape, (-1, False))
        if departures == board.departures:
            self._starved |= starved
            return ()
        seats = self._choose(board.space, row)
        if not seats:
            self._shut[shape] = (board.departures, self._starved)
        return seats

    def _choose(self, space: FreeGpus, row: int) -> Seats:
        gang, board = self._crew.gangs[self._crew.shape[row]], self._board
        if not board.tight:
            return self._locality.seats(space, gang)
        seats = self._locality.seats(space, with_fits(gang, board.fits(row)))
        self._starved |= not seats and bool(self._locality.seats(space, gang))
        return seats

    def _room(self, row: int, scope: int) -> tuple[Seats, list[int]]:
        """Return seats that are free once some rows inside ``scope`` have left, and those rows; nothing if none are.

        The rows are given as positions among the displaceable ones.
        """
        group, board, turn = self._group(row, scope), self._board, self._turn
        if group.last_turn <= turn:
            return (), []
        if board.num_gpus[row] == 1 and not board.tight and not board.space.total:
            at = group.weakest(turn)
            if at == NO_ROW:
                return (), []
            victim = group.displaceable.row[at]
            seats = board.seats[victim]
            return seats if board.num_gpus[victim] == 1 else ((seats[0][0], 1),), [at]
        shape = self._shape[row]
        gang = self._crew.gangs[shape]
        search = group.searches.get(shape)
        if search is None:
            search = PreemptionSearch(board, group, num_gpus=gang.num_gpus)
            group.searches[shape] = search
        server = search.one_server(row, turn)
        if server != NO_ROW:
            return ((server, gang.num_gpus),), search.victims(row, server, gang.num_gpus)
        seats = ()
        if gang.num_gpus > 1 and gang.max_servers != 1:
            seats = search.several_servers(
                row, lambda space, fits: self._locality.seats(space, with_fits(gang, fits) if fits else gang)
            )
        self._starved |= search.starved
        victims = [victim for server, count in seats for victim in search.victims(row, server, count)]
        return seats, list(dict.fromkeys(victims))

    def _movables(self) -> DisplaceableRows:
        if self._displaceable is None:
            claims = self._claims
            spare = (claims.covered if self._in_quota else claims.others).spare()
            leaving = [row for row in self._leaving if row in self._board.seats]
            self._displaceable = DisplaceableRows(spare, self._crew.rows[spare.job], self._board, leaving)
        return self._displaceable

    def _group(self, row: int, scope: int) -> CandidateGroup:
        """Return the rows that the job may displace inside ``scope``.

        Locked jobs of its own queue are not among them: inside a queue only the order counts, and it may not stop them.
        """
        own = self._board.queue[row]
        group = self._groups.get((scope, own))
        if group is None:
            displaceable = self._movables()
            name = (scope, own if own in displaceable.locked_queues else NO_ROW)
            group = self._groups[scope, own] = self._groups.get(name) or self._new_group(displaceable, *name)
            self._groups[name] = group
        return group

    def _new_group(self, displaceable: DisplaceableRows, scope: int, locked_in: int) -> CandidateGroup:
        may = np.ones(len(displaceable.row), dtype=np.bool_)
        if scope != NO_ROW:
            may &= self._within[scope, displaceable.queue]
        if locked_in != NO_ROW:
            may &= ~(displaceable.locked & (displaceable.queue == locked_in))
        may |= displaceable.queue == NO_ROW
        return CandidateGroup(displaceable, may)

    def _sit(self, job: int, row: int, seats: Seats, victims: Sequence[int]) -> bool:
        board, before, displaced = self._board, self._before, self._displaced
        if not victims:
            board.sit(row, seats)
        else:
            displaceable = self._movables()
            first = displaceable.row[victims[0]]
            if len(victims) == 1 and board.seats[first] == seats:
                board.hand_over(first, row)
                self._note_departure(displaceable, victims[0], seats, job, row)
            else:
                for at in victims:
                    self._note_departure(displaceable, at, board.leave(displaceable.row[at]), job, row)
                board.sit(row, seats)
        self._firm.add(row)
        self._sat[row] = job
        self._refusals.pop(job, None)
        if row not in before:
            if not victims:
                self._on_free.add(job)
            return True
        if job in displaced:
            self._spare_a_move(job, row)
            seats = board.seats[row]
        if before[row] == seats:
            # It never moved after all: whoever took its seats makes do with those of the jobs that left for it.
            taker = displaced.pop(job)
            displaced.update({victim: taker for victim, by_job in displaced.items() if by_job == job})
        elif not victims and job not in displaced:
            self._on_free.add(job)
        return True

    def _note_departure(self, displaceable: DisplaceableRows, at: int, seats: Seats, by_job: int, by_row: int) -> None:
        """Note that the displaceable row at a position left its seats for a job."""
        queue = self._board.queue
        victim, row, turn = displaceable.job[at], displaceable.row[at], displaceable.turn[at]
        displaceable.leave(at, seats)
        self._before[row] = seats
        if victim >= self._num_jobs:
            return
        self._displaced[victim] = by_job
        if self._in_quota and queue[row] != queue[by_row]:
            self._reclaimed.add(victim)
        if turn != NO_TURN:
            heappush(self._back, (turn, victim, True))
        else:
            self._later.append(at)

    def _spare_a_move(self, job: int, row: int) -> None:
        """Let a displaced job that found other seats go home, and the job that sits there take those seats instead."""
        board, home, shape = self._board, self._before[row], self._crew.shape
        taker = self._displaced[job]
        taker_row = self._row[taker]
        if shape[row] == shape[taker_row] and board.seats[taker_row] == home and taker not in self._displaced:
            board.swap(row, taker_row)

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
