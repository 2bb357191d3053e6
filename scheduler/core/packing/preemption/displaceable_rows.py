"""The rows that claims may displace in a part of a walk, as columns for the preemption search.

`PreemptionRoom` builds them once per part, when the first claim needs them.
"""

from collections.abc import Sequence

import numpy as np

from scheduler.core.model.tables import NO_ROW, BoolArray, IntArray
from scheduler.core.packing.board import Board
from scheduler.core.packing.claims import NO_TURN, DisplaceableJobs
from scheduler.core.packing.draft import Seats


class DisplaceableRows:
    """All rows that may be displaced in a part of the walk, least important first.

    Attributes:
        row: (s,) rows of the board; those of jobs outside the table that are about to leave come first.
        job: (s,) the same as rows of the JobTable.
        turn: (s,) turn after which each keeps its seats; never rises along the line.
        turns: (s,) the same for numpy.
        queue: (s,) queue of each, NO_ROW for those that are about to leave anyway.
        locked: (s,) rows that the order may not displace.
        locked_queues: Queues of locked rows.
        there: (s,) whether each still sits where it sat; change it by ``leave`` only.
        present: (s,) the same for numpy, on the same memory.
        left: Seats given up so far, in that order: position of the row, server, GPUs there.
    """

    __slots__ = ("job", "left", "locked", "locked_queues", "present", "queue", "row", "rows", "there", "turn", "turns")

    def __init__(self, jobs: DisplaceableJobs, row: IntArray, board: Board, leaving: Sequence[int]) -> None:
        """Take the jobs that still sit, after rows of the board that are being left anyway."""
        sits = board.server[row] != NO_ROW
        before, none = np.array(leaving, dtype=np.int64), np.zeros(len(leaving), dtype=np.bool_)
        self.rows = np.concatenate((before, row[sits]))
        self.row: list[int] = self.rows.tolist()
        self.job: list[int] = [*leaving, *jobs.job[sits].tolist()]
        self.turns = np.concatenate((np.full(len(leaving), NO_TURN), jobs.turn[sits]))
        self.turn: list[int] = self.turns.tolist()
        self.locked = np.concatenate((none, jobs.locked[sits]))
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


class SeatEntries:
    """The seats of the rows of a group, one entry for each server of each row, least important row first.

    Attributes:
        among: (s,) whether each displaceable row is in the group, as bytes.
        columns: (e,) positions among the displaceable rows, servers, and GPUs there.
        at: The same positions.
        server: The same servers.
        gpus: The same GPUs.
        turns: The turn after which the row of each entry keeps its seats; backwards, so ascending.
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
        last_turn: The turn after which all of them keep their seats; later claims find no candidate.
    """

    __slots__ = ("_at", "_entries", "_first", "among", "displaceable", "last_turn")

    def __init__(self, displaceable: DisplaceableRows, among: BoolArray) -> None:
        self.displaceable, self.among = displaceable, among
        self.last_turn = int(displaceable.turns[among].max(initial=-1))
        self._entries: SeatEntries | None = None
        self._at: list[int] | None = None  # positions of the rows
        self._first = 0

    def entries(self, board: Board) -> SeatEntries:
        """Return the seats of the rows that sat when this was first called; some may have left since."""
        if self._entries is None:
            self._entries = SeatEntries(board, self.displaceable, self.among)
        return self._entries

    def weakest(self, turn: int) -> int:
        """Return the position of the least important row that still sits and is not committed; NO_ROW for none."""
        there, turns = self.displaceable.there, self.displaceable.turn
        if self._at is None:
            self._at = np.flatnonzero(self.among).tolist()
        while self._first < len(self._at):
            at = self._at[self._first]
            if there[at]:
                return at if turns[at] > turn else NO_ROW
            self._first += 1
        return NO_ROW
