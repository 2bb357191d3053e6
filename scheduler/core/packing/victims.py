"""Whom a job may take GPUs from, and which of them it takes: as little important work as possible.

A search goes through the jobs that may be moved, least important first, and adds up what each server would have free
without them; the first server that is good enough is the one whose most important victim is the least important. A
search is kept for the next job that asks for the same and goes on from there, so all jobs together cost one pass over
the running ones, which is made over columns.
"""

from collections.abc import Callable, Sequence

import numpy as np

from scheduler.core.packing.board import Board
from scheduler.core.packing.claims import NO_TURN, Spare
from scheduler.core.packing.draft import Seats
from scheduler.core.packing.space import Fits, Space
from scheduler.core.tables import NO_ROW, BoolArray, IntArray

# Rows looked at one by one before columns are added up, which costs as much as this many; and entries of the first such
# column, four times as many in each that follows.
_SINGLE_STEPS, _FIRST_STRIDE = 32, 64

ChooseSeats = Callable[[Space, Fits | None], Seats]


class Movable:
    """The rows that may be displaced in a part of the walk, least important first.

    Attributes:
        row: (s,) rows of the board; those of jobs outside the table, which are about to leave, come first.
        job: (s,) the same as rows of the JobTable.
        turn: (s,) when each becomes firm; it never rises along the line.
        queue: (s,) queue of each, NO_ROW for those that are about to leave anyway.
        locked: (s,) rows that the order may not displace.
        locked_queues: Queues of locked rows.
        there: (s,) whether each still sits where it sat.
    """

    __slots__ = ("job", "locked", "locked_queues", "queue", "row", "there", "turn")

    def __init__(self, spare: Spare, row: IntArray, board: Board, leaving: Sequence[int]) -> None:
        """Take the spare jobs that still sit, after rows of the board that are being left anyway."""
        sits = board.server[row] != NO_ROW
        before, none = np.array(leaving, dtype=np.int64), np.zeros(len(leaving), dtype=np.bool_)
        self.row, self.job = np.concatenate((before, row[sits])), np.concatenate((before, spare.job[sits]))
        self.turn = np.concatenate((np.full(len(leaving), NO_TURN), spare.turn[sits]))
        self.locked = np.concatenate((none, spare.locked[sits]))
        _, self.queue = board.columns(self.row)
        self.locked_queues = frozenset(np.unique(self.queue[self.locked]).tolist())
        self.there = np.ones(len(self.row), dtype=np.bool_)


class VictimSearch:
    """Finds room for gangs of one shape among free GPUs and the GPUs of rows that may be moved.

    Attributes:
        starved: Whether it ever met a server with the GPUs but not the cores or memory.
    """

    def __init__(self, board: Board, movable: Movable, among: BoolArray, *, num_gpus: int) -> None:
        """Prepare a search for ``num_gpus`` over the movable rows of ``among``, (s,) whether each is one of them."""
        self._board, self._movable, self._among, self._num_gpus = board, movable, among, num_gpus
        positions = np.flatnonzero(among & movable.there)
        # One entry for each server of each row.
        at, self._server, self._gpus = board.entries(movable.row[positions])
        self._at = positions[at]
        self._turns = movable.turn[self._at][::-1]  # ascending
        self._by_server: tuple[IntArray, list[int]] | None = None
        # Entries before the first number were passed, those from the second on are firm.
        self._upto, self._limit = 0, len(self._at)
        # By server: GPUs of passed rows that may still be moved, and whether any row was ever passed there.
        self._gain = [0] * len(board.space.free)
        self._seen = bytearray(len(self._gain))
        self._spent = False  # no set of servers had room; there is only less room later
        self.starved = False
        # Servers that had enough when last looked at.
        self._found: list[int] = []

    def notice(self, at: int, seats: Seats) -> None:
        """Forget a row that left, and look at its servers again, whose free GPUs have grown."""
        if not self._upto:
            return
        passed = at <= self._at.item(self._upto - 1) and self._among.item(at)
        for server, gpus in seats:
            if passed:
                self._gain[server] -= gpus
            if self._seen[server]:
                self._found.append(server)

    def _retreat(self, turn: int) -> None:
        """Let rows become firm whose turn has come. Their turns fall along the line, so they are the last of it."""
        if not self._limit or self._turns.item(-self._limit) > turn:
            return
        self._limit = len(self._at) - int(np.searchsorted(self._turns, turn, side="right"))
        for entry in range(self._limit, self._upto):
            if self._movable.there.item(self._at.item(entry)):
                self._gain[self._server.item(entry)] -= self._gpus.item(entry)
        self._upto = min(self._upto, self._limit)

    def one_server(self, row: int, turn: int) -> int:
        """Return a server that holds the whole gang once the rows of ``victims`` have left, or NO_ROW."""
        self._retreat(turn)
        while self._found:
            if self._enough(row, self._found[-1]):
                return self._found[-1]
            self._found.pop()
        steps, stride = 0, _FIRST_STRIDE
        while self._upto < self._limit:
            if steps >= _SINGLE_STEPS:
                self._skip(stride)
                stride *= 4
            server = self._step(row)
            steps += 1
            if server != NO_ROW:
                self._found.append(server)
                return server
        return NO_ROW

    def _step(self, row: int) -> int:
        """Go past the next row; return the first server of it that has enough now, or NO_ROW."""
        entry, limit, there = self._upto, self._limit, self._movable.there
        while entry < limit and not there.item(self._at.item(entry)):
            entry += 1
        if entry == limit:
            self._upto = limit
            return NO_ROW
        end, at = entry + 1, self._at.item(entry)
        while end < limit and self._at.item(end) == at:
            end += 1
        self._upto = end
        for passed in range(entry, end):
            server = self._server.item(passed)
            self._gain[server] += self._gpus.item(passed)
            self._seen[server] = 1
        for passed in range(entry, end):
            server = self._server.item(passed)
            if self._enough(row, server):
                return server
        return NO_ROW

    def _skip(self, stride: int) -> None:
        """Go past rows at which no server has enough yet: ``stride`` entries, or fewer."""
        end = min(self._upto + stride, self._limit)
        ahead = self._upto + np.flatnonzero(self._movable.there[self._at[self._upto : end]])
        server, gpus = self._server[ahead], self._gpus[ahead]
        free, gain = self._board.space.free, self._gain
        missing = [self._num_gpus - free[each] - gain[each] for each in server.tolist()]
        hits = np.flatnonzero(_running_sums(server, gpus) >= np.array(missing, dtype=np.int64))
        if len(hits):
            server, gpus, end = server[: hits[0]], gpus[: hits[0]], int(ahead[hits[0]])
        self._upto = end
        for at_server, count in zip(server.tolist(), gpus.tolist(), strict=True):
            self._gain[at_server] += count
            self._seen[at_server] = 1

    def _passed_on(self, server: int) -> list[tuple[int, int]]:
        """Return the rows on the server that were passed and may still be moved: (position, GPUs there)."""
        if self._by_server is None:
            by_server = self._server.argsort(kind="stable")
            begins = np.searchsorted(self._server[by_server], np.arange(len(self._seen) + 1))
            self._by_server = by_server, begins.tolist()
        entries, begins_at = self._by_server
        on_server = entries[begins_at[server] : begins_at[server + 1]].tolist()
        passed = [(self._at.item(entry), self._gpus.item(entry)) for entry in on_server if entry < self._upto]
        return [seat for seat in passed if self._movable.there.item(seat[0])]

    def several_servers(self, row: int, choose: ChooseSeats) -> Seats:
        """Return seats for the gang on as many servers as ``choose`` allows, or nothing; after ``one_server``."""
        board = self._board
        if self._spent:
            return ()
        free = np.array(board.space.free) + np.array(self._gain)
        if int(free.sum()) >= self._num_gpus:
            fits = self._fits_without(row) if board.tight else None
            seats = choose(Space(free.tolist(), board.space.site, board.space.sizes), fits)
            if seats:
                return seats
        self._spent = True
        return ()

    def victims(self, row: int, server: int, gpus: int) -> list[int]:
        """Return who has to leave the server so that ``gpus`` of the row fit: the least important, and none in vain.

        Returns:
            Positions among the movable rows.
        """
        taken: list[tuple[int, int]] = []
        missing = gpus - self._board.space.free[server]
        for other in self._passed_on(server):
            if missing <= 0 and self._fits_after(row, server, gpus, taken):
                break
            taken.append(other)
            missing -= other[1]
        for other in reversed(taken):
            without = [victim for victim in taken if victim is not other]
            if missing + other[1] <= 0 and self._fits_after(row, server, gpus, without):
                taken = without
                missing += other[1]
        return [at for at, _ in taken]

    def _enough(self, row: int, server: int) -> bool:
        """Return whether the gang fits on a server once the passed rows on it have left."""
        if self._board.space.free[server] + self._gain[server] < self._num_gpus:
            return False
        fits = not self._board.tight or self._fits_after(row, server, self._num_gpus, self._passed_on(server))
        self.starved |= not fits
        return fits

    def _fits_after(self, row: int, server: int, gpus: int, leaving: Sequence[tuple[int, int]]) -> bool:
        board, row_of = self._board, self._movable.row
        return not board.tight or board.fits_after(row, server, gpus, [row_of.item(at) for at, _ in leaving])

    def _fits_without(self, row: int) -> Fits:
        def fit(server: int, gpus: int) -> bool:
            enough = self._fits_after(row, server, gpus, self._passed_on(server))
            self.starved |= not enough
            return enough

        return fit


def _running_sums(servers: IntArray, gpus: IntArray) -> IntArray:
    """Return for each entry the GPUs of all entries of its server up to it."""
    by_server = servers.argsort(kind="stable")
    ordered, amounts = servers[by_server], gpus[by_server]
    sums = amounts.cumsum()
    begins = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=begins[1:])
    # What the servers before had in all, carried along to the entries of each server.
    before = np.maximum.accumulate(np.where(begins, sums - amounts, 0))
    running = np.empty_like(sums)
    running[by_server] = sums - before
    return running
