"""A ``SingleQueueWalk`` for policies whose order moves from round to round: it is given anew before each walk.

A job that was refused in an earlier round may be the strongest now, so every shape is asked again. The walk still looks
at no job behind the first refused one of its shape, and at no running job past those that have to leave.
tests/property/test_simulator_short_rounds.py holds its plans equal to those of ``Walk``.
"""

from collections.abc import Sequence
from typing import Protocol

from scheduler.core.packing.board import Board
from scheduler.core.packing.free_gpus import Gang
from scheduler.core.packing.locality import Locality
from scheduler.core.packing.seating import GpuBoard
from scheduler.simulator.incremental.walks.preemption_candidates import Key, PreemptionCandidates
from scheduler.simulator.incremental.walks.single_queue_walk import SingleQueueWalk


class WeakestFirst(Protocol):
    """The running jobs that may have to leave in one round, handed out as far as the walk has to look."""

    def more(self, key: Key) -> list[Key]:
        """Return further ones, weakest first, none weaker than one handed out before; those not weaker may be missing.

        Empty when all that are weaker than ``key`` were handed out.
        """


class MovingOrderCandidates(PreemptionCandidates):
    """The running jobs in an order that is made when a walk asks for it first."""

    __slots__ = ("_place", "_source")

    def line_up(self, weakest: WeakestFirst) -> None:
        """Begin a round."""
        self._source = weakest
        self._place: dict[int, Key] = {}

    def end(self) -> None:
        """End the walk."""
        self.order, self.gone = [], set()

    def more(self, key: Key) -> bool:
        """Let ``order`` grow; return False when no other job is weaker than ``key``."""
        batch = self._source.more(key)
        for place in batch:
            self._place[place[3]] = place
        self.order += batch
        return bool(batch)

    def drop(self, row: int) -> Key:
        """Take out a job of the order that leaves its seats; return its present key."""
        self.gone.add(row)
        return self._place[row]

    def enter(self, key: Key) -> None:
        """Do nothing: the next order has it."""

    def leave(self, row: int) -> None:
        """Do nothing: the next order lacks it."""


class MovingOrderWalk(SingleQueueWalk):
    """Seats and waiting jobs of one queue that may hold all GPUs."""

    def __init__(
        self,
        board: Board | GpuBoard,
        locality: Locality,
        *,
        shape: Sequence[int],
        gangs: Sequence[Gang],
        preemptive: bool,
    ) -> None:
        """Begin with no jobs.

        Args:
            board: See ``SingleQueueWalk``.
            locality: Where gangs may sit.
            shape: (n,) shape of each job.
            gangs: What jobs of each shape ask for.
            preemptive: Whether waiting jobs may displace running ones.
        """
        super().__init__(board, locality, shape=shape, gangs=gangs, preemptive=False, ceilings=None, in_line=False)
        self._moving = MovingOrderCandidates() if preemptive else None
        self._candidates = self._moving

    def line_up(self, waiting: Sequence[Key], weakest: WeakestFirst) -> None:
        """Take the order of the round: waiting jobs that could run, strongest first, and the running ones."""
        self.num_waiting = len(waiting)
        self._lines = [[] for _ in self._gangs]
        for key in waiting:  # ascending, so each line is a heap
            self._lines[self._shape[key[3]]].append(key)
        self._key_of = {key[3]: key for key in waiting}
        if self._moving:
            self._moving.line_up(weakest)
        self.reopen()

    def wait(self, key: Key) -> None:
        """Put a job in line: the next order has it."""
        self.num_waiting += 1
