"""Incremental equivalent of ``Walk`` for policies that serve the group that holds least, without preemption.

The key of a job moves with all that its group holds, so no order of the jobs lasts. What lasts is the line of each
group, and that a shape that was refused stays refused until GPUs come free. A round asks first which shapes would
find seats at all, and then for the keys of the first such jobs of each group.
tests/property/test_simulator_short_rounds.py holds its plans equal to those of ``Walk``.
"""

from bisect import bisect_left, insort
from collections.abc import Sequence
from heapq import heapify, heappop, heappush

import numpy as np

from scheduler.core.packing.draft import Seats
from scheduler.core.packing.free_gpus import Gang
from scheduler.core.packing.locality import Locality
from scheduler.core.packing.seating import GpuBoard
from scheduler.core.performance.resources import Filling, rounded_share
from scheduler.simulator.incremental.walks.preemption_candidates import Key, Keys
from scheduler.simulator.incremental.walks.single_queue_walk import Moves, SingleQueueWalk

# Place of a job in the line of its group: (first start or +inf, arrival, row), smallest first.
_Place = tuple[float, float, int]


class GroupFillingWalk(SingleQueueWalk):
    """Seats and waiting jobs of one queue that may hold all GPUs."""

    def __init__(
        self,
        board: GpuBoard,
        locality: Locality,
        *,
        shape: Sequence[int],
        gangs: Sequence[Gang],
        possible: Sequence[bool],
        filling: Filling,
    ) -> None:
        """Begin with empty servers.

        Args:
            board: The empty servers.
            locality: Where gangs may sit.
            shape: (n,) shape of each job.
            gangs: What jobs of each shape ask for.
            possible: (n,) jobs that could run on empty servers; others in line only count for those behind them.
            filling: What each job adds to which group. Sums of it are exact in any order.
        """
        super().__init__(board, locality, shape=shape, gangs=gangs, preemptive=False, ceilings=None, in_line=False)
        _, group = np.unique(filling.group, return_inverse=True)
        self._group: list[int] = group.tolist()
        has = filling.capacity > 0  # as in ``dominant_share``
        self._capacity: list[float] = filling.capacity[has].tolist()
        # Jobs of a kind have the same shape and add the same to their group.
        asked = [tuple(each) for each in filling.asked[:, has].tolist()]
        numbers: dict[tuple[int, tuple[float, ...]], int] = {}
        self._kind = [numbers.setdefault(each, len(numbers)) for each in zip(shape, asked, strict=True)]
        self._shape_of, self._asked = [each for each, _ in numbers], [each for _, each in numbers]
        self._possible = possible
        num_groups = max(self._group, default=-1) + 1
        self._held = [[0.0] * len(self._capacity) for _ in range(num_groups)]
        # By group and kind the waiting jobs, first to last.
        self._waits: list[dict[int, list[_Place]]] = [{} for _ in range(num_groups)]
        self._num_of_shape = [0] * len(gangs)  # possible jobs in line

    def wait(self, key: Key) -> None:
        """Put a job in line."""
        row = key[3]
        insort(self._waits[self._group[row]].setdefault(self._kind[row], []), key[1:])
        if self._possible[row]:
            self._num_of_shape[self._shape[row]] += 1
            self.num_waiting += 1

    def release(self, row: int) -> None:
        """Take a job off its seats that ended."""
        super().release(row)
        self._count(row, -1)

    def reopen(self) -> None:
        """Look at every shape again: seats of running jobs have changed."""
        self._needed = [0] * len(self._gangs)

    def occupy(self, key: Key, seats: Seats) -> None:
        """Seat a job that runs from the start."""
        super().occupy(key, seats)
        self._count(key[3], 1)

    def walk(self, now_s: float, keys: Keys) -> Moves:
        """Seat the jobs that find room, and return what changed. Neither time nor keys of running jobs matter."""
        self.unsettled = False
        moves = Moves()
        hopeful = {shape for shape, waiting in enumerate(self._num_of_shape) if waiting and self._choose(shape)}
        if not hopeful:
            return moves
        shape_of, lines = self._shape_of, self._waits
        heap = [
            (self._share(group, kind, line[0]), line[0], group, kind)
            for group, of_group in enumerate(lines)
            for kind, line in of_group.items()
            if line and shape_of[kind] in hopeful
        ]
        heapify(heap)
        while hopeful and heap:
            _, place, group, kind = heappop(heap)
            shape, row = shape_of[kind], place[2]
            if shape not in hopeful:
                continue
            seats = self._choose(shape)
            if not seats:
                hopeful.discard(shape)
                continue
            # Seats on several servers are sorted, as they will be read from what is held.
            self._board.sit(row, seats if len(seats) == 1 else tuple(sorted(seats)))
            line = lines[group][kind]
            del line[0]
            self._count(row, 1)
            self._num_of_shape[shape] -= 1
            self.num_waiting -= 1
            if line:  # what the job asked for is held now, so those behind it keep the keys that they had
                heappush(heap, (self._share(group, kind, line[0]), line[0], group, kind))
            moves.started[row] = self.seats[row]
            moves.on_free.add(row)
        return moves

    def _share(self, group: int, kind: int, place: _Place) -> float:
        """Return the key of the first job of a kind in the line of its group."""
        amounts = self._held[group].copy()
        for other, line in self._waits[group].items():
            ahead = bisect_left(line, place) if other != kind else 0
            if ahead:
                for at, asked in enumerate(self._asked[other]):
                    amounts[at] += ahead * asked
        share = max([amount / has for amount, has in zip(amounts, self._capacity, strict=True)], default=0.0)
        return rounded_share(share)

    def _choose(self, shape: int) -> Seats:
        """Return free seats; where there are none the shape is refused until enough GPUs have come free."""
        if self._needed[shape] > self._grown:
            return ()
        gang, total = self._gangs[shape], self.space.total
        seats = self._locality.seats(self.space, gang) if total >= gang.num_gpus else ()
        if not seats:
            self._needed[shape] = self._grown + max(1, gang.num_gpus - total)
        return seats

    def _count(self, row: int, sign: int) -> None:
        held = self._held[self._group[row]]
        for at, asked in enumerate(self._asked[self._kind[row]]):
            held[at] += sign * asked
