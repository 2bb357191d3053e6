"""GPUs of jobs that keep their seats for the rest of the round, at any turn of the walk.

A job that sits is committed once the walk has come past its turn. No job is looked at for that: what is committed by
some turn is a running sum over the jobs of the part.
"""

from bisect import bisect_left

import numpy as np

from scheduler.core.model.queue_tree import QueueTree
from scheduler.core.model.tables import NO_ROW, BoolArray, IntArray
from scheduler.core.packing.board import Board
from scheduler.core.packing.claims import Part


class CommittedGpus:
    """The committed GPUs of all jobs, and of the jobs in each queue that could be full."""

    __slots__ = (
        "_board",
        "_nodes",
        "_rows",
        "_sums",
        "_sums_of",
        "_turn_list",
        "_turns",
        "_within",
        "gpus",
        "gpus_of",
    )

    def __init__(self, board: Board, tree: QueueTree, limits: list[tuple[int, ...]], rows: IntArray) -> None:
        """Begin with no job committed.

        Args:
            board: Where each row sits.
            tree: The queues.
            limits: For each queue those of its path that could be full.
            rows: (n,) rows of the board by job.
        """
        self._board, self._rows = board, rows
        self._nodes = sorted({node for path in limits for node in path})
        self._within: BoolArray = tree.within
        self.gpus = 0
        self.gpus_of = dict.fromkeys(self._nodes, 0)

    def begin(self, part: Part) -> None:
        """Start a part of the walk: its locked jobs that still sit are committed."""
        locked = self._rows[part.locked]
        locked = locked[self._board.server[locked] != NO_ROW]
        gpus, queue = self._board.columns(locked)
        self.gpus += int(gpus.sum())
        for node in self._nodes:
            self.gpus_of[node] += int(gpus[self._within[node, queue]].sum())
        gpus, queue = self._board.columns(self._rows[part.seated])
        self._turns = part.seated_turn
        self._turn_list: list[int] = []
        self._sums = _sums(gpus)
        self._sums_of = {node: _sums(np.where(self._within[node, queue], gpus, 0)) for node in self._nodes}

    def end(self) -> None:
        """End the part: the walk came past all its jobs."""
        self.gpus += int(self._sums[-1])
        for node in self._nodes:
            self.gpus_of[node] += int(self._sums_of[node][-1])

    def add(self, row: int, sign: int = 1) -> None:
        """Count a row that was seated for good, or discount one that left its seats before its turn came."""
        gpus = sign * self._board.num_gpus[row]
        self.gpus += gpus
        if self._nodes:
            for node in self._board.path(row):
                if node in self.gpus_of:
                    self.gpus_of[node] += gpus

    def by_turns(self, turns: IntArray) -> list[int]:
        """Return the GPUs of all queues that are committed in this part by each of the turns."""
        sums: list[int] = self._sums[np.searchsorted(self._turns, turns)].tolist()
        return sums

    def by_turn(self, turn: int) -> int:
        """Return the GPUs of all queues that are committed in this part by one turn."""
        if not self._turn_list:
            self._turn_list = self._turns.tolist()
        return self._sums.item(bisect_left(self._turn_list, turn))

    def in_queue(self, node: int, turn: int) -> int:
        """Return the committed GPUs of a queue that could be full, with all queues below it."""
        return self.gpus_of[node] + self._sums_of[node].item(self._turns.searchsorted(turn))


def _sums(gpus: IntArray) -> IntArray:
    """Return (x + 1,) sums of none, the first, the first two ..."""
    return np.concatenate((np.zeros(1, dtype=np.int64), gpus.cumsum()))
