"""Which jobs run and on which servers: one walk over the jobs, strongest claim first.

A running job keeps its seats unless a stronger job needs them and could not sit anywhere else. A waiting job takes
free GPUs, else the GPUs of the least important work that makes enough room, else it waits; weaker jobs then fill what
it left. Nobody is moved unless the job that asked for it takes the seat.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scheduler.core.config import Locality
from scheduler.core.packing.board import Board
from scheduler.core.packing.draft import Seats
from scheduler.core.packing.space import Fits, Gang, Space
from scheduler.core.packing.victims import VictimSearch
from scheduler.core.queues import QueueTree
from scheduler.core.tables import NO_ROW


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """Who asks for GPUs, in which order, and whom each may displace. Jobs are rows of the JobTable.

    Attributes:
        covered: Jobs within some quota, in the order of the policy.
        others: The other jobs, strongest first.
        line: (n,) place in the line of ``others``; for covered jobs the place they take when they have to join it.
        cover: (n,) queue whose quota covers the job, NO_ROW for ``others``.
        locked: (n,) running jobs that the order may not displace.
        may_reclaim: (n,) covered jobs that may displace jobs of other queues, locked ones included.
        spare_for_covered: Running jobs that covered jobs may displace, least important first.
        spare_for_others: Running jobs that the other jobs may displace, least important first.
        max_servers: (n,) most servers of each job, 0 for any number.
        least_servers: (n,) fewest servers that could hold each job if they were empty.
        kind: (n,) what the locality said about each job.
        shape: (n,) number that is equal for jobs that ask for the same.
        in_line: Whether no job starts before one of its queue that comes first and waits.
    """

    covered: Sequence[int]
    others: Sequence[int]
    line: Sequence[int]
    cover: Sequence[int]
    locked: Sequence[bool]
    may_reclaim: Sequence[bool]
    spare_for_covered: Sequence[int]
    spare_for_others: Sequence[int]
    max_servers: Sequence[int]
    least_servers: Sequence[int]
    kind: Sequence[tuple[float, ...]]
    shape: Sequence[int]
    in_line: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a claim found no seats.

    Attributes:
        full_queue: Queue that already holds the most it may, NO_ROW when that is not the cause.
        open_gpus: GPUs that the job could have had if they were on the right servers.
        starved: Whether servers with enough GPUs had too few cores or too little memory.
        behind: Job of the same queue that has to start first, NO_ROW when that is not the cause.
    """

    full_queue: int
    open_gpus: int
    starved: bool
    behind: int = NO_ROW


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The outcome of the walk.

    Attributes:
        seats: Seats of every job that runs.
        kept: Running jobs that keep their seats.
        displaced: Running jobs that leave their seats, with the job that takes them.
        reclaimed: Those of them that a covered job of another queue displaced.
        on_free: Jobs that got new seats and displaced nobody.
        refusals: Why each other job found no seats.
        free: (m,) GPUs by server that nobody sits on after the round.
    """

    seats: dict[int, Seats]
    kept: set[int]
    displaced: dict[int, int]
    reclaimed: set[int]
    on_free: set[int]
    refusals: dict[int, Refusal]
    free: list[int]


def select(board: Board, claims: Claims, tree: QueueTree, locality: Locality, *, num_jobs: int) -> Selection:
    """Walk over the claims and return who runs where."""
    walk = _Walk(board, claims, tree, locality, num_jobs)
    walk.keep(row for row in claims.covered if claims.locked[row])
    late = walk.covered()
    walk.keep(row for row in claims.others if claims.locked[row])
    walk.others(late)
    return walk.selection()


class _Walk:
    def __init__(self, board: Board, claims: Claims, tree: QueueTree, locality: Locality, num_jobs: int) -> None:
        self._board = board
        self._claims = claims
        self._tree = tree
        self._locality = locality
        self._num_jobs = num_jobs
        self._before = self._of_jobs(board.seats)
        self._displaced: dict[int, int] = {}
        self._reclaimed: set[int] = set()
        self._on_free: set[int] = set()
        self._refusals: dict[int, Refusal] = {}
        self._refusal = Refusal(full_queue=NO_ROW, open_gpus=0, starved=False)
        self._first_waiting: dict[int, int] = {}  # by queue, where jobs have to keep their line
        self._in_quota = True
        self._spare: Sequence[int] = ()
        self._spare_of: dict[tuple[int, int], list[int]] = {}
        self._locked_in: set[int] = set()
        self._searches: dict[tuple[int, int, int], VictimSearch] = {}
        self._gangs: dict[int, Gang] = {}  # by shape
        # For shapes that found no free seats: how many had left by then, and whether cores or memory were short.
        self._shut: dict[int, tuple[int, bool]] = {}

    def keep(self, rows: Iterable[int]) -> None:
        """Let those of the rows that still sit keep their seats."""
        for row in rows:
            if row in self._board.seats:
                self._board.confirm(row)

    def covered(self) -> list[int]:
        """Seat the covered jobs; return those that have to stand in line with the others."""
        self._begin(self._claims.spare_for_covered)
        self._in_quota = True
        late = []
        board = self._board
        for row in self._claims.covered:
            if board.firm[row]:
                continue
            if row in board.seats:
                board.confirm(row)
            elif not self._claim(row):
                late.append(row)
        return late

    def others(self, late: list[int]) -> None:
        """Seat the jobs that no quota covers, after the covered ones that found nothing to take back."""
        self._begin(self._claims.spare_for_others)
        self._in_quota = False
        board = self._board
        # Two sorted runs, which is what the sort is quickest at.
        for row in sorted((*late, *self._claims.others), key=self._claims.line.__getitem__):
            if board.firm[row]:
                continue
            if row in board.seats:
                board.confirm(row)
            else:
                self._claim(row)

    def selection(self) -> Selection:
        board, before = self._board, self._before
        seats = self._of_jobs(board.seats)
        kept = set(before)
        if board.departures:
            kept = {row for row, at in before.items() if seats.get(row) == at and row not in self._displaced}
        return Selection(
            seats=seats,
            kept=kept,
            displaced=self._displaced,
            reclaimed=self._reclaimed,
            on_free=self._on_free,
            refusals=self._refusals,
            free=list(board.space.free),
        )

    def _of_jobs(self, seats: dict[int, Seats]) -> dict[int, Seats]:
        """Return a copy without the GPUs that jobs outside the table are about to leave."""
        return {row: at for row, at in seats.items() if row < self._num_jobs}

    def _begin(self, spare: Sequence[int]) -> None:
        """Start a part of the walk in which ``spare`` may be displaced, after the GPUs that are being left anyway."""
        leaving = [row for row in self._board.seats if row >= self._num_jobs]
        self._spare = (*leaving, *spare)
        self._spare_of.clear()
        self._locked_in = {self._board.path(row)[0] for row in spare if self._claims.locked[row]}
        self._searches.clear()
        self._first_waiting.clear()

    def _scope(self, row: int) -> int | None:
        """Return the queue inside which a job may displace others; NO_ROW for everywhere, None for nowhere.

        A covered job may take from outside a queue only while that queue holds less than its quota: else it takes the
        place of a weaker job of the same queue.
        """
        if not self._in_quota:
            return NO_ROW
        board, node = self._board, self._claims.cover[row]
        path = board.path(row)
        for above in path[path.index(node) :]:
            if board.held_gpus[above] + board.num_gpus[row] > self._tree.quota[above]:
                return above
        return NO_ROW if self._claims.may_reclaim[row] else None

    def _claim(self, row: int) -> bool:
        """Seat a job that does not sit, if it can be done within the rules; note the refusal otherwise."""
        board, cap = self._board, self._tree.cap
        gpus = board.num_gpus[row]
        if self._first_waiting and board.path(row)[0] in self._first_waiting:
            return self._refuse_behind(row, self._first_waiting[board.path(row)[0]])
        full = NO_ROW
        for node in board.limits(row):
            if board.firm_gpus[node] + gpus > cap[node]:
                return self._refuse(row, full_queue=node)
            if full == NO_ROW and board.held_gpus[node] + gpus > cap[node]:
                full = node  # the nearest full queue: room made inside it is room in all above it
        board.starved = False
        if board.open_gpus < gpus:
            return self._refuse(row)
        if full != NO_ROW:
            return self._claim_in_full_queue(row, full, self._scope(row))
        seats = (row in self._before and self._home(row)) or self._choose_free(row)
        if seats:
            return self._sit(row, seats, ())
        scope = self._scope(row)
        if scope is not None:
            seats, victims = self._room(row, scope)
            if seats:
                return self._sit(row, seats, victims)
        return self._refuse(row)

    def _claim_in_full_queue(self, row: int, full: int, scope: int | None) -> bool:
        """Seat a job of a queue that may hold no more: somebody weaker of that queue has to leave for it."""
        board, path = self._board, self._board.path(row)
        if scope is None:
            return self._refuse(row, full_queue=full)
        if scope == NO_ROW or path.index(full) < path.index(scope):
            scope = full
        seats, victims = self._room(row, scope)
        if not seats:
            seats, victims = self._choose(board.space, row, board.fits(row)), []
        if not seats:
            return self._refuse(row)
        gpus = board.num_gpus[row]
        missing = max(min(gpus, board.held_gpus[node] + gpus - self._tree.cap[node]) for node in path)
        missing -= sum(board.num_gpus[victim] for victim in victims if victim < self._num_jobs)
        for other in self._spare_for(row, scope)[1]:
            if missing <= 0:
                break
            if other in board.seats and not board.firm[other] and other not in victims and other < self._num_jobs:
                victims.append(other)
                missing -= board.num_gpus[other]
        return self._refuse(row, full_queue=full) if missing > 0 else self._sit(row, seats, victims)

    def _home(self, row: int) -> Seats:
        """Return the seats a displaced job had at the start when they are free again."""
        board, seats = self._board, self._before[row]
        for server, gpus in seats:
            if board.space.free[server] < gpus or not board.fits_after(row, server, gpus, ()):
                return ()
        return seats

    def _choose_free(self, row: int) -> Seats:
        """Return seats on free GPUs. What a job could not get, no other of its shape gets until somebody leaves."""
        board, shape = self._board, self._claims.shape[row]
        departures, starved = self._shut.get(shape, (-1, False))
        if departures == board.departures:
            board.starved |= starved
            return ()
        seats = self._choose(board.space, row, board.fits(row))
        if not seats:
            self._shut[shape] = (board.departures, board.starved)
        return seats

    def _choose(self, space: Space, row: int, fits: Fits | None) -> Seats:
        claims = self._claims
        gang = self._gangs.get(claims.shape[row])
        if gang is None or fits is not None:
            gang = Gang(
                num_gpus=self._board.num_gpus[row],
                max_servers=claims.max_servers[row],
                least_servers=claims.least_servers[row],
                kind=claims.kind[row],
                fits=fits,
            )
            if fits is None:
                self._gangs[claims.shape[row]] = gang
        return self._locality.seats(space, gang)

    def _room(self, row: int, scope: int) -> tuple[Seats, list[int]]:
        """Return seats that are free once some rows inside ``scope`` have left, and those rows; nothing if none are."""
        board, gpus = self._board, self._board.num_gpus[row]
        name, spare = self._spare_for(row, scope)
        key = (*name, self._claims.shape[row])
        search = self._searches.get(key)
        if search is None:
            search = VictimSearch(board, order=spare, num_gpus=gpus)
            self._searches[key] = search
        server = search.one_server(row)
        if server != NO_ROW:
            return ((server, gpus),), search.victims(row, server, gpus)
        seats: Seats = ()
        if gpus > 1 and self._claims.max_servers[row] != 1:
            seats = search.several_servers(row, lambda space, fits: self._choose(space, row, fits))
        board.starved |= search.starved
        victims = [victim for server, count in seats for victim in search.victims(row, server, count)]
        return seats, list(dict.fromkeys(victims))

    def _spare_for(self, row: int, scope: int) -> tuple[tuple[int, int], Sequence[int]]:
        """Return a name for, and the rows that the job may displace inside ``scope``, least important first.

        Locked jobs of its own queue are not among them: inside a queue only the order counts, and it may not stop them.
        """
        board, locked, last = self._board, self._claims.locked, self._num_jobs
        own = board.path(row)[0]
        name = (scope, own if own in self._locked_in else NO_ROW)
        if name == (NO_ROW, NO_ROW):
            return name, self._spare
        if name not in self._spare_of:
            self._spare_of[name] = [
                other
                for other in self._spare
                if other >= last
                or (
                    (scope == NO_ROW or scope in board.path(other))
                    and not (locked[other] and board.path(other)[0] == name[1])
                )
            ]
        return name, self._spare_of[name]

    def _sit(self, row: int, seats: Seats, victims: Sequence[int]) -> bool:
        board = self._board
        for victim in victims:
            for server, _ in board.leave(victim):
                for search in self._searches.values():
                    search.notice(server)
            if victim < self._num_jobs:
                self._displaced[victim] = row
                if self._in_quota and board.path(victim) != board.path(row):
                    self._reclaimed.add(victim)
        board.sit(row, seats)
        self._refusals.pop(row, None)
        if not victims and row not in self._before:
            self._on_free.add(row)
            return True
        if row in self._displaced:
            self._spare_a_move(row)
            seats = board.seats[row]
        if self._before.get(row) == seats:
            # It never moved after all: whoever took its seats makes do with those of the jobs that left for it.
            taker = self._displaced.pop(row)
            self._displaced.update({victim: taker for victim, by_job in self._displaced.items() if by_job == row})
        elif not victims and row not in self._displaced:
            self._on_free.add(row)
        return True

    def _spare_a_move(self, row: int) -> None:
        """Let a displaced job that found other seats go home, and the job that sits there take those seats instead."""
        board, home = self._board, self._before[row]
        taker, seats = self._displaced[row], board.seats[row]
        alike = self._claims.shape[row] == self._claims.shape[taker]
        if alike and board.seats[taker] == home and taker not in self._displaced:
            board.seats[row], board.seats[taker] = home, seats

    def _refuse(self, row: int, *, full_queue: int = NO_ROW) -> bool:
        board, last = self._board, self._refusal
        if last.open_gpus != board.open_gpus or last.full_queue != full_queue or last.starved != board.starved:
            last = Refusal(full_queue=full_queue, open_gpus=board.open_gpus, starved=board.starved)
            self._refusal = last  # many jobs in a row are refused for the same cause
        self._refusals[row] = last
        if self._claims.in_line and all(self._tree.cap[node] >= board.num_gpus[row] for node in board.path(row)):
            self._first_waiting.setdefault(board.path(row)[0], row)
        return False

    def _refuse_behind(self, row: int, first: int) -> bool:
        self._refusals[row] = Refusal(full_queue=NO_ROW, open_gpus=self._board.open_gpus, starved=False, behind=first)
        return False
