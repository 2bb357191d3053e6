"""A round of many queues in which jobs find free GPUs and none has to leave.

Serves queues side by side. Where the order stops no running job, running jobs use up the quota of their queue before
all others, so what is left of it, and which jobs are within a fair share, follows from what each queue holds; a round
in which a quota has to be taken back is left to the walk over all jobs. Where the order may stop running jobs, only a
round that seats all waiting jobs is sure to stop none. Then running jobs count by their place in the order, and are
looked at in those queues alone that ask for more than their quota. Used by ``QueueRounds``;
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
    side_by_side = all(len(path) == 1 for path in tree.paths)
    return side_by_side and not given.demands.needs.tight


class FreeClaims:
    """Decides the rounds in which no job has to leave."""

    def __init__(self, given: PlannerInput, tree: QueueTree, board: Board, lines: KeptLines) -> None:
        self._tree, self._board, self._lines = tree, board, lines
        self._locality, self._gangs = given.config.locality, given.demands.gangs
        self._by_order = given.config.policy.preemptive and given.config.preempt
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
        # By queue, what counts before its first job without quota if it is not all that it holds; and these jobs with
        # their GPUs, where running ones are among them.
        self._used_gpus: dict[int, int] = {}
        self._without: dict[int, list[tuple[Key, int]]] = {}
        if self._departures != self._board.departures:
            self._departures = self._board.departures
            self._closed.clear()

    def seated(self, now_s: float) -> dict[int, Seats] | None:
        """Seat the jobs that find free GPUs, and return their seats in the order of their turns.

        None when it takes a walk over all jobs; then the board is as before.
        """
        lines = self._lines
        if self._by_order and sum(lines.gpus_of_queue) > self._board.space.total:
            return None
        self._begin()
        held = self._held
        if any(has + asked > cap for has, asked, cap in zip(held, lines.gpus_of_queue, self._tree.cap, strict=True)):
            return None  # what a queue may hold at most would count
        done = all(self._sit(key[3]) for key in self._in_quota(now_s))
        if done:
            self._others()
            done = not self._by_order or len(self._started) == len(lines)
        if not done:
            for row in self._started:
                self._board.leave(row)
            return None
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

    def _in_quota(self, now_s: float) -> list[Key]:
        """Return the waiting jobs that the quota of their queue covers, in the order of the policy."""
        covered: list[Key] = []
        lines = self._lines
        in_order: dict[int, int] = {}
        for queue, (quota, held) in enumerate(zip(self._tree.quota, self._held, strict=True)):
            left, numbers = quota - held, lines.of_queue[queue]
            if self._by_order and numbers and lines.gpus_of_queue[queue] > left:
                in_order[queue] = quota
                continue
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
            self._used_gpus[queue] = held + before - left
        if in_order:
            covered += self._in_quota_by_order(in_order, now_s)
        covered.sort()
        return covered

    def _in_quota_by_order(self, left: dict[int, int], now_s: float) -> list[Key]:
        """Return the same for queues, given with their quotas, of which running jobs use it up by their place alone."""
        lines, queue_of, gpus_of, seats = self._lines, self._board.queue, self._board.num_gpus, self._board.seats
        quotas, covered = left.copy(), list[Key]()
        keys = lines.keys([row for row in seats if queue_of[row] in left], now_s)
        for queue in left:
            self._without[queue] = []
            for number in lines.of_queue[queue]:
                keys += lines.lines[number]
        for key in sorted(keys):
            row = key[3]
            queue, gpus = queue_of[row], gpus_of[row]
            if gpus > left[queue]:
                self._without[queue].append((key, gpus))
                continue
            left[queue] -= gpus
            if row not in seats:
                covered.append(key)
                number = lines.line[row]
                self._covered[number] = self._covered.get(number, 0) + 1
        self._used_gpus |= {queue: quota - left[queue] for queue, quota in quotas.items()}
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
        """Return for each queue the last job without quota that begins within its fair share, if there is one."""
        lines, held = self._lines, self._held
        asked = zip(held, lines.gpus_of_queue, self._rights, strict=True)
        members = [(min(float(has + more), cap), quota, weight) for has, more, (cap, quota, weight) in asked]
        shares = share_among(self._capacity_gpus, members)  # as ``fair_shares`` of queues side by side
        last: dict[int, Key] = {}
        for queue in queues:
            used = self._used_gpus.get(queue, held[queue])
            if not is_within_share(used, shares[queue]):
                continue
            for key, gpus in self._uncovered(queue):
                if not is_within_share(used, shares[queue]):
                    break
                last[queue] = key
                used += gpus
        return last

    def _uncovered(self, queue: int) -> Iterator[tuple[Key, int]]:
        """Return the jobs of a queue without quota that count against its share, in the order of the policy."""
        if queue in self._without:
            return iter(self._without[queue])
        lines = self._lines

        def of_line(number: int) -> Iterator[tuple[Key, int]]:
            line, gpus = lines.lines[number], lines.gpus_of_line[number]
            return ((line[at], gpus) for at in range(self._covered.get(number, 0), len(line)))

        return merge(*(of_line(number) for number in lines.of_queue[queue]))
