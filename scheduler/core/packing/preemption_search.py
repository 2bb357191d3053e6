"""Whom a job may take GPUs from, and which of them it takes: as little important work as possible.

A search goes through the jobs that may be moved, least important first, and adds up what each server would have free
without them; the first server that is good enough is the one whose most important victim is the least important. A
search is kept for the next job that asks for the same and goes on from there, so all jobs together cost one pass over
the running ones, which is made over columns.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence

import numpy as np

from scheduler.core.model.tables import NO_ROW, BoolArray, IntArray
from scheduler.core.packing.board import Board
from scheduler.core.packing.claims import NO_TURN, DisplaceableJobs
from scheduler.core.packing.draft import Seats
from scheduler.core.packing.free_gpus import Fits, FreeGpus

# Rows looked at one by one before columns are added up, which costs as much as this many; and entries of the first such
# column, four times as many in each that follows.
_SINGLE_STEPS, _FIRST_STRIDE = 128, 64

ChooseSeats = Callable[[FreeGpus, Fits | None], Seats]


class DisplaceableRows:
    """The rows that may be displaced in a part of the walk, least important first.

    Attributes:
        row: (s,) rows of the board; those of jobs outside the table, which are about to leave, come first.
        job: (s,) the same as rows of the JobTable.
        turn: (s,) when each becomes firm; it never rises along the line.
        turns: (s,) the same for numpy.
        queue: (s,) queue of each, NO_ROW for those that are about to leave anyway.
        locked: (s,) rows that the order may not displace.
        locked_queues: Queues of locked rows.
        there: (s,) whether each still sits where it sat; change it by ``leave`` only.
        present: (s,) the same for numpy, on the same memory.
        left: Who has left, in that order: position, server and GPUs there for each seat.
    """

    __slots__ = ("job", "left", "locked", "locked_queues", "present", "queue", "row", "rows", "there", "turn", "turns")

    def __init__(self, spare: DisplaceableJobs, row: IntArray, board: Board, leaving: Sequence[int]) -> None:
        """Take the spare jobs that still sit, after rows of the board that are being left anyway."""
        sits = board.server[row] != NO_ROW
        before, none = np.array(leaving, dtype=np.int64), np.zeros(len(leaving), dtype=np.bool_)
        self.rows = np.concatenate((before, row[sits]))
        self.row: list[int] = self.rows.tolist()
        self.job: list[int] = [*leaving, *spare.job[sits].tolist()]
        self.turns = np.concatenate((np.full(len(leaving), NO_TURN), spare.turn[sits]))
        self.turn: list[int] = self.turns.tolist()
        self.locked = np.concatenate((none, spare.locked[sits]))
        _, self.queue = board.columns(self.rows)
        self.locked_queues = frozenset(np.unique(self.queue[self.locked]).tolist())
        self.there = bytearray(b"\1" * len(self.row))
        self.present: BoolArray = np.frombuffer(self.there, dtype=np.bool_)
        self.left: list[tuple[int, int, int]] = []

    def leave(self, at: int, seats: Seats) -> None:
        """Note that a row left its seats."""
        self.there[at] = False
        for server, gpus in seats:
            self.left.append((at, server, gpus))


class PreemptionSearch:
    """Finds room for gangs of one shape among free GPUs and the GPUs of rows that may be moved.

    Attributes:
        starved: Whether there was room by GPUs alone, without the cores or memory.
    """

    def __init__(self, board: Board, group: "CandidateGroup", *, num_gpus: int) -> None:
        """Prepare a search for ``num_gpus`` over the rows of the group."""
        self._board, self._displaceable, self._num_gpus = board, group.displaceable, num_gpus
        self._entries = entries = group.entries(board)
        self._among, self._at, self._server, self._gpus = entries.among, entries.at, entries.server, entries.gpus
        # Entries before the first number were passed, those from the second on are firm.
        self._upto, self._limit = 0, len(self._at)
        # By server: GPUs of passed rows that may still be moved, and whether any row was ever passed there.
        self._gain = [0] * len(board.space.free)
        self._seen = bytearray(len(self._gain))
        self._spent = False  # no set of servers had room; there is only less room later
        self.starved = False
        # Servers that had enough when last looked at; and how many of those who left were noticed.
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
        """Let rows become firm whose turn has come. Their turns fall along the line, so they are the last of it."""
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
        """Return who has to leave the server so that ``gpus`` of the row fit: the least important, and none in vain.

        Returns:
            Positions among the displaceable rows.
        """
        taken: list[tuple[int, int]] = []
        missing = gpus - self._board.space.free[server]
        for other in self._passed_on(server):
            if missing <= 0 and self._fits_after(row, server, gpus, taken):
                break
            taken.append(other)
            missing -= other[1]
        for other in reversed(taken if missing < 0 else ()):
            without = [victim for victim in taken if victim is not other]
            if missing + other[1] <= 0 and self._fits_after(row, server, gpus, without):
                taken = without
                missing += other[1]
        return [at for at, _ in taken]

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


class _Entries:
    """The seats of the rows of a group, one entry for each server of each row, least important row first.

    Attributes:
        among: (s,) whether each displaceable row is in the group, as bytes.
        columns: (e,) positions among the displaceable rows, servers, and GPUs there.
        at: The same positions.
        server: The same servers.
        gpus: The same GPUs.
        turns: When the row of each entry becomes firm; backwards, so ascending.
    """

    __slots__ = ("_begins", "_by_server", "_num_servers", "among", "at", "columns", "gpus", "server", "turns")

    def __init__(self, board: Board, displaceable: DisplaceableRows, among: BoolArray) -> None:
        positions = np.flatnonzero(among & displaceable.present)
        entry, server, gpus = board.entries(displaceable.rows[positions])
        self.among = among.tobytes()
        self.columns = positions[entry], server, gpus
        self.at: list[int] = self.columns[0].tolist()
        self.server: list[int] = server.tolist()
        self.gpus: list[int] = gpus.tolist()
        self.turns: list[int] = displaceable.turns[self.columns[0]][::-1].tolist()
        self._num_servers = len(board.space.free)
        self._by_server: list[int] = []
        self._begins: list[int] = []

    def on_server(self, server: int) -> list[int]:
        """Return the entries of one server."""
        if not self._begins:
            servers = self.columns[1]
            by_server = servers.argsort(kind="stable")
            self._by_server = by_server.tolist()
            self._begins = np.searchsorted(servers[by_server], np.arange(self._num_servers + 1)).tolist()
        return self._by_server[self._begins[server] : self._begins[server + 1]]


class CandidateGroup:
    """Rows that claims of one scope may displace.

    Attributes:
        displaceable: All rows that may be displaced.
        among: (s,) which of the displaceable rows they are.
        last_turn: When the last of them becomes firm; later claims find nobody.
        searches: The searches among them, by shape.
    """

    __slots__ = ("_at", "_entries", "_first", "among", "last_turn", "displaceable", "searches")

    def __init__(self, displaceable: DisplaceableRows, among: BoolArray) -> None:
        self.displaceable, self.among = displaceable, among
        self.last_turn = int(displaceable.turns[among].max(initial=-1))
        self.searches: dict[int, PreemptionSearch] = {}
        self._entries: _Entries | None = None
        self._at: list[int] | None = None  # positions of the rows
        self._first = 0

    def entries(self, board: Board) -> _Entries:
        """Return the seats of those who sat when they were first asked for; some may have left since."""
        if self._entries is None:
            self._entries = _Entries(board, self.displaceable, self.among)
        return self._entries

    def weakest(self, turn: int) -> int:
        """Return the position of the least important row that still sits and is not firm; NO_ROW for none."""
        there, turns = self.displaceable.there, self.displaceable.turn
        if self._at is None:
            self._at = np.flatnonzero(self.among).tolist()
        while self._first < len(self._at):
            at = self._at[self._first]
            if there[at]:
                return at if turns[at] > turn else NO_ROW
            self._first += 1
        return NO_ROW


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
