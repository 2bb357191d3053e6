"""A round of many queues in which jobs find free GPUs and none has to leave, made without a look at running jobs.

Serves queues side by side under orders that stop no running job. Then running jobs use up the quota of their queue
before all others, so what is left of it, and which jobs are within a fair share, follows from what each queue holds. A
round in which a quota has to be taken back is left to the walk over all jobs. Used by ``QueueRounds``;
tests/property/test_simulator_queue_rounds.py holds its plans equal to those of ``plan_round``.
"""

from collections.abc import Iterator
from heapq import heapify, heappop, heappush, merge

from scheduler.core.model.queue_tree import QueueTree, share_among
from scheduler.core.packing.board import Board
from scheduler.core.packing.draft import Seats
from scheduler.core.round.admission import Standing, is_within_share
from scheduler.simulator.incremental.planner_input import PlannerInput
from scheduler.simulator.incremental.waiting_lines import KeptLines
from scheduler.simulator.incremental.walks.preemption_candidates import Key


def serves_free_claims(given: PlannerInput, tree: QueueTree) -> bool:
    """Return whether ``FreeClaims`` decides as the walk over all jobs does."""
    config = given.config
    stops_none = not (config.policy.preemptive and config.preempt)
    side_by_side = all(len(path) == 1 for path in tree.paths)
    return stops_none and side_by_side and not given.demands.needs.tight


class FreeClaims:
    """Decides the rounds in which no job has to leave."""

    def __init__(self, given: PlannerInput, tree: QueueTree, board: Board, lines: KeptLines) -> None:
        self._tree, self._board, self._lines = tree, board, lines
        self._locality, self._gangs = given.config.locality, given.demands.gangs
        self._capacity_gpus = int(given.servers.num_gpus.sum())
        self._rights = [
            (float(cap), float(quota), weight)
            for cap, quota, weight in zip(tree.cap, tree.quota, tree.weight, strict=True)
        ]
        self._closed: set[int] = set()  # shapes that found no free seats, and so until a job leaves its own
        self._departures = board.departures
        self._begin()

    def _begin(self) -> None:
        self._held = self._board.held_gpus.copy()
        self._started: dict[int, Seats] = {}
        self._covered: dict[int, int] = {}  # by line, how many of its first jobs a quota covers
        self._covered_gpus: dict[int, int] = {}  # by queue
        if self._departures != self._board.departures:
            self._departures = self._board.departures
            self._closed.clear()

    def seated(self) -> dict[int, Seats] | None:
        """Seat the jobs that find free GPUs, and return their seats in the order of their turns.

        None when it takes a walk over all jobs; then the board is as before.
        """
        self._begin()
        held, lines = self._held, self._lines
        if any(has + asked > cap for has, asked, cap in zip(held, lines.gpus_of_queue, self._tree.cap, strict=True)):
            return None  # what a queue may hold at most would count
        covered = self._in_quota()
        for key in covered:
            if not self._sit(key[3]):
                for row in self._started:
                    self._board.leave(row)
                return None
        self._others()
        return self._started

    def _sit(self, row: int) -> bool:
        """Seat a job on free GPUs, if it can be."""
        shape, space = self._lines.shape[row], self._board.space
        if shape in self._closed:
            return False
        gang = self._gangs[shape]
        seats = self._locality.seats(space, gang) if space.total >= gang.num_gpus else ()
        if not seats:
            self._closed.add(shape)  # less room never helps
            return False
        self._board.sit(row, seats)
        self._started[row] = seats
        return True

    def _in_quota(self) -> list[Key]:
        """Return the waiting jobs that the quota of their queue covers, in the order of the policy."""
        covered: list[Key] = []
        lines = self._lines
        for queue, (quota, held) in enumerate(zip(self._tree.quota, self._held, strict=True)):
            left, numbers = quota - held, lines.of_queue[queue]
            if left <= 0 or not numbers:
                continue
            before = left
            heap = [(lines.lines[number][0], number) for number in numbers if lines.gpus_of_line[number] <= left]
            heapify(heap)
            while heap:
                key, number = heappop(heap)
                if lines.gpus_of_line[number] > left:
                    continue  # nor do the jobs behind it fit
                left -= lines.gpus_of_line[number]
                covered.append(key)
                at = self._covered[number] = self._covered.get(number, 0) + 1
                if at < len(lines.lines[number]):
                    heappush(heap, (lines.lines[number][at], number))
            self._covered_gpus[queue] = before - left
        covered.sort()
        return covered

    def _others(self) -> None:
        """Seat the jobs without quota: those within the fair share of their queue first."""
        lines, covered, at_of = self._lines, self._covered, self._covered.copy()
        hopeful: list[int] = []
        for shape, numbers in lines.of_shape.items():
            if self._may_find_seats(shape):
                hopeful += numbers
        if covered:
            hopeful = [number for number in hopeful if covered.get(number, 0) < len(lines.lines[number])]
        if not hopeful:
            return
        queue_of_line, waiting, space = lines.queue_of_line, lines.lines, self._board.space
        queues = {queue_of_line[number] for number in hopeful}
        # Inside a queue those within the share come first anyway.
        last_within = self._last_within(queues) if len(queues) > 1 else {}
        least_gpus = min(lines.gpus_of_line[number] for number in hopeful)
        heap = []
        for number in hopeful:
            key = waiting[number][covered.get(number, 0)]
            heap.append((self._standing(key, last_within.get(queue_of_line[number])), key, number))
        heapify(heap)
        while heap and space.total >= least_gpus:
            _, key, number = heappop(heap)
            if not self._sit(key[3]):
                continue
            at = at_of[number] = at_of.get(number, 0) + 1
            line = waiting[number]
            if at < len(line):
                heappush(heap, (self._standing(line[at], last_within.get(queue_of_line[number])), line[at], number))

    def _may_find_seats(self, shape: int) -> bool:
        if shape in self._closed:
            return False
        gang, space = self._gangs[shape], self._board.space
        if space.total >= gang.num_gpus and self._locality.seats(space, gang):
            return True
        self._closed.add(shape)
        return False

    @staticmethod
    def _standing(key: Key, last_within: Key | None) -> int:
        return int(Standing.BORROWS if last_within is not None and key <= last_within else Standing.BEYOND)

    def _last_within(self, queues: set[int]) -> dict[int, Key]:
        """Return for each queue the last waiting job that begins within its fair share; queues without one lack."""
        lines, held = self._lines, self._held
        asked = zip(held, lines.gpus_of_queue, self._rights, strict=True)
        members = [(min(float(has + more), cap), quota, weight) for has, more, (cap, quota, weight) in asked]
        shares = share_among(self._capacity_gpus, members)  # as ``fair_shares`` of queues side by side
        last: dict[int, Key] = {}
        for queue in queues:
            used = held[queue] + self._covered_gpus.get(queue, 0)
            if not is_within_share(used, shares[queue]):
                continue
            for key, gpus in self._uncovered(queue):
                if not is_within_share(used, shares[queue]):
                    break
                last[queue] = key
                used += gpus
        return last

    def _uncovered(self, queue: int) -> Iterator[tuple[Key, int]]:
        """Yield the waiting jobs of a queue that no quota covers, in the order of the policy, with their GPUs."""
        lines = self._lines

        def of_line(number: int) -> Iterator[tuple[Key, int]]:
            line, gpus = lines.lines[number], lines.gpus_of_line[number]
            return ((line[at], gpus) for at in range(self._covered.get(number, 0), len(line)))

        return merge(*(of_line(number) for number in lines.of_queue[queue]))
