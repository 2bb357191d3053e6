"""The room that preemption makes for the claims of one part of a walk: which seats come free, and which rows lose them.

Keeps what claims share: the rows that may be displaced, those of each scope, and one search for each shape of gang.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from scheduler.core.model.tables import NO_ROW, BoolArray
from scheduler.core.packing.board import Board
from scheduler.core.packing.claims import Part
from scheduler.core.packing.draft import Seats
from scheduler.core.packing.locality import Locality
from scheduler.core.packing.preemption.displaceable_rows import CandidateGroup, DisplaceableRows
from scheduler.core.packing.preemption.search import PreemptionSearch
from scheduler.core.packing.seating import all_victims, one_gpu
from scheduler.core.packing.selection import Demands

_NO_ROOM: tuple[Seats, list[int], bool] = (), [], False


class PreemptionRoom:
    """Finds seats that other rows hold now, in one part of a walk."""

    def __init__(
        self, board: Board, demands: Demands, part: Part, within: BoolArray, leaving: Sequence[int], locality: Locality
    ) -> None:
        """Prepare to look for room.

        Args:
            board: Where each row sits.
            demands: What the jobs ask for.
            part: The part of the walk.
            within: (k, k) whether a queue is the other one or below it.
            leaving: Rows of the board for jobs outside the table that are about to leave.
            locality: Where gangs may sit.
        """
        self._board, self._demands, self._part, self._within = board, demands, part, within
        self._leaving, self._locality = leaving, locality
        self._rows: DisplaceableRows | None = None
        self._groups: dict[tuple[int, int], CandidateGroup] = {}
        self._searches: dict[tuple[CandidateGroup, int], PreemptionSearch] = {}

    def rows(self) -> DisplaceableRows:
        """Return the rows that may be displaced; those that sat when they were first asked for."""
        if self._rows is None:
            jobs, seats = self._part.displaceable(), self._board.seats
            leaving = [row for row in self._leaving if row in seats]
            self._rows = DisplaceableRows(jobs, self._demands.rows[jobs.job], self._board, leaving)
        return self._rows

    def group(self, row: int, scope: int) -> CandidateGroup:
        """Return the rows that a row may displace inside ``scope``.

        Locked jobs of its own queue are not among them: inside a queue only the order counts, and it may not stop them.
        """
        own = self._board.queue[row]
        group = self._groups.get((scope, own))
        if group is None:
            rows = self.rows()
            name = (scope, own if own in rows.locked_queues else NO_ROW)
            group = self._groups[scope, own] = self._groups.get(name) or self._new_group(rows, *name)
            self._groups[name] = group
        return group

    def _new_group(self, rows: DisplaceableRows, scope: int, locked_in: int) -> CandidateGroup:
        may = np.ones(len(rows.row), dtype=np.bool_)
        if scope != NO_ROW:
            may &= self._within[scope, rows.queue]
        if locked_in != NO_ROW:
            may &= ~(rows.locked & (rows.queue == locked_in))
        may |= rows.queue == NO_ROW
        return CandidateGroup(rows, may)

    def room(self, row: int, scope: int, turn: int) -> tuple[Seats, list[int], bool]:
        """Find seats for a row at its turn, on free GPUs and on those of rows inside ``scope``.

        Returns:
            The seats, empty when there are none; the victims, as positions in ``rows()``; whether a search
            found room by GPUs alone, without the cores or memory.
        """
        group, board = self.group(row, scope), self._board
        if group.last_turn <= turn:
            return _NO_ROOM
        if board.num_gpus[row] == 1 and not board.tight and not board.space.total:
            at = group.weakest(turn)
            if at == NO_ROW:
                return _NO_ROOM
            return one_gpu(board.seats[group.displaceable.row[at]]), [at], False
        shape = self._demands.shape[row]
        gang = self._demands.gangs[shape]
        search = self._searches.get((group, shape))
        if search is None:
            search = self._searches[group, shape] = PreemptionSearch(board, group, num_gpus=gang.num_gpus)
        server = search.one_server(row, turn)
        if server != NO_ROW:
            return ((server, gang.num_gpus),), search.victims(row, server, gang.num_gpus), False
        seats: Seats = ()
        if gang.num_gpus > 1 and gang.max_servers != 1:
            seats = search.several_servers(
                row, lambda space, fits: self._locality.seats(space, replace(gang, fits=fits) if fits else gang)
            )
        victims = all_victims(seats, lambda server, count: search.victims(row, server, count))
        return seats, victims, search.starved
