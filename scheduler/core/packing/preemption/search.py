"""Which rows lose their GPUs to a gang: the least important ones that make room, and no more than that.

A search goes through the rows that may be displaced, least important first, and adds up what each server would have
free without them. The first server with enough is the one whose most important victim is the least important. A search
is kept for the next gang of the same shape and goes on from there, so that all claims of a part together pass each row
once. tests/property/test_plan_properties.py and tests/oracle hold the choice of victims right. Twin:
simulator/incremental/walks/gang_room.py, which searches the same way where only GPUs count.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence

import numpy as np

from scheduler.core.model.tables import NO_ROW, IntArray
from scheduler.core.packing.board import Board
from scheduler.core.packing.draft import Seats
from scheduler.core.packing.free_gpus import Fits, FreeGpus
from scheduler.core.packing.preemption.displaceable_rows import CandidateGroup
from scheduler.core.packing.seating import fewest_victims

# Rows looked at one by one before columns are added up, since adding up costs as much as this many. Length of the first
# such column; each further one is four times as long.
_SINGLE_STEPS, _FIRST_STRIDE = 128, 64

ChooseSeats = Callable[[FreeGpus, Fits | None], Seats]


class PreemptionSearch:
    """Finds room for gangs of one shape among free GPUs and the GPUs of rows that may be moved.

    Attributes:
        starved: Whether there was room by GPUs alone, without the cores or memory.
    """

    def __init__(self, board: Board, group: CandidateGroup, *, num_gpus: int) -> None:
        """Prepare a search for ``num_gpus`` over the rows of the group."""
        self._board, self._displaceable, self._num_gpus = board, group.displaceable, num_gpus
        self._entries = entries = group.entries(board)
        self._among, self._at, self._server, self._gpus = entries.among, entries.at, entries.server, entries.gpus
        # Entries before ``_upto`` were passed, those from ``_limit`` on are committed.
        self._upto, self._limit = 0, len(self._at)
        # By server: GPUs of passed rows that may still be moved, and whether any row was ever passed there.
        self._gain = [0] * len(board.space.free)
        self._seen = bytearray(len(self._gain))
        self._spent = False  # no set of servers had room; there is only less room later
        self.starved = False
        # Servers that had enough when last looked at; and how many departures were noticed.
        self._found: list[int] = []
        self._noticed = len(group.displaceable.left)

    def _notice(self) -> None:
        """Forget the rows that left, and look at their servers again, whose free GPUs have grown."""
        left, noticed = self._displaceable.left, self._noticed
        self._noticed = len(left)
        if not self._upto:
            return
        gain, seen, among, last = self._gain, self._seen, self._among, self._at[self._upto - 1]
        free, found, num_gpus = self._board.space.free, self._found, self._num_gpus
        for at, server, gpus in left[noticed:]:
            if seen[server]:
                if at <= last and among[at]:  # only such a row can have been passed
                    gain[server] -= gpus
                if free[server] + gain[server] >= num_gpus:
                    found.append(server)

    def _retreat(self, turn: int) -> None:
        """Forget the rows whose turn has come: they keep their seats. They are last, as turns never rise."""
        turns = self._entries.turns
        self._limit = len(turns) - bisect_right(turns, turn)
        for entry in range(self._limit, self._upto):
            if self._displaceable.there[self._at[entry]]:
                self._gain[self._server[entry]] -= self._gpus[entry]
        self._upto = min(self._upto, self._limit)

    def one_server(self, row: int, turn: int) -> int:
        """Return a server that holds the whole gang once the rows of ``victims`` have left, or NO_ROW."""
        if self._noticed < len(self._displaceable.left):
            self._notice()
        if self._limit and self._entries.turns[-self._limit] <= turn:
            self._retreat(turn)
        found, free, gain, num_gpus = self._found, self._board.space.free, self._gain, self._num_gpus
        while found:
            server = found[-1]
            if free[server] + gain[server] >= num_gpus and self._fits(row, server):
                return server
            found.pop()
        return self._advance(row) if self._upto < self._limit else NO_ROW

    def _advance(self, row: int) -> int:
        """Go past rows until a server of one of them has enough; return the first such server, or NO_ROW."""
        entries, servers, gpus, there = self._at, self._server, self._gpus, self._displaceable.there
        free, gain, seen, num_gpus = self._board.space.free, self._gain, self._seen, self._num_gpus
        upto, limit, steps, stride = self._upto, self._limit, 0, _FIRST_STRIDE
        while upto < limit:
            at, first = entries[upto], upto
            upto += 1
            if not there[at]:
                continue
            server = servers[first]
            gain[server] += gpus[first]
            seen[server] = 1
            enough = free[server] + gain[server] >= num_gpus
            while upto < limit and entries[upto] == at:
                server = servers[upto]
                gain[server] += gpus[upto]
                seen[server] = 1
                enough |= free[server] + gain[server] >= num_gpus
                upto += 1
            if enough:
                self._upto = upto
                for server in servers[first:upto]:
                    if free[server] + gain[server] >= num_gpus and self._fits(row, server):
                        self._found.append(server)
                        return server
            steps += 1
            if steps >= _SINGLE_STEPS and upto < limit:
                self._upto = upto
                self._skip(stride)
                stride *= 4
                upto = self._upto
        self._upto = limit
        return NO_ROW

    def _skip(self, stride: int) -> None:
        """Go past rows at which no server has enough yet: ``stride`` entries, or fewer."""
        end = min(self._upto + stride, self._limit)
        positions, servers, amounts = self._entries.columns
        ahead = self._upto + np.flatnonzero(self._displaceable.present[positions[self._upto : end]])
        server, gpus = servers[ahead], amounts[ahead]
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
        there, passed = self._displaceable.there, []
        for entry in self._entries.on_server(server):
            if entry >= self._upto:
                break
            at = self._at[entry]
            if there[at]:
                passed.append((at, self._gpus[entry]))
        return passed

    def several_servers(self, row: int, choose: ChooseSeats) -> Seats:
        """Return seats for the gang on as many servers as ``choose`` allows, or nothing; after ``one_server``."""
        board = self._board
        if self._spent:
            return ()
        free = np.array(board.space.free) + np.array(self._gain)
        if int(free.sum()) >= self._num_gpus:
            fits = self._fits_without(row) if board.tight else None
            space = FreeGpus(free.tolist(), board.space.topology, board.space.sizes)
            seats = choose(space, fits)
            if seats:
                return seats
            self.starved |= fits is not None and bool(choose(space, None))
        self._spent = True
        return ()

    def victims(self, row: int, server: int, gpus: int) -> list[int]:
        """Return the victims on the server that let ``gpus`` of the row fit: the least important, and none in vain.

        Returns:
            Positions among the displaceable rows.
        """
        missing, passed = gpus - self._board.space.free[server], self._passed_on(server)
        if not self._board.tight:
            return fewest_victims(passed, missing)
        return fewest_victims(passed, missing, lambda leaving: self._fits_after(row, server, gpus, leaving))

    def _fits(self, row: int, server: int) -> bool:
        """Return whether cores and memory of a server are enough for the gang once the passed rows on it have left."""
        if not self._board.tight:
            return True
        fits = self._fits_after(row, server, self._num_gpus, self._passed_on(server))
        self.starved |= not fits
        return fits

    def _fits_after(self, row: int, server: int, gpus: int, leaving: Sequence[tuple[int, int]]) -> bool:
        board, row_of = self._board, self._displaceable.row
        return not board.tight or board.fits_after(row, server, gpus, [row_of[at] for at, _ in leaving])

    def _fits_without(self, row: int) -> Fits:
        return lambda server, gpus: self._fits_after(row, server, gpus, self._passed_on(server))


def _running_sums(servers: IntArray, gpus: IntArray) -> IntArray:
    """Return for each entry the GPUs of all entries of its server up to it."""
    by_server = servers.argsort(kind="stable")
    ordered, amounts = servers[by_server], gpus[by_server]
    sums = amounts.cumsum()
    begins = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=begins[1:])
    # The sum of all servers before, repeated for each entry of a server.
    before = np.maximum.accumulate(np.where(begins, sums - amounts, 0))
    running = np.empty_like(sums)
    running[by_server] = sums - before
    return running
