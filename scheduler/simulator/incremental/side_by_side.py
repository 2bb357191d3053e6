"""A round of many queues side by side, decided from what each queue holds and from the first jobs that wait.

Where the order stops no running job, running jobs use up the quota of their queue before all others, so what is left of
it, and which jobs are within a fair share, follows from what each queue holds. A round in which a quota has to be taken
back is left to the walk over all jobs. Where the order may stop running jobs, these count by their place in it, and
``LinesWalk`` finds which have to leave; a round in which a job within a quota finds no room is left to the walk over
all jobs. Used by ``QueueRounds``; tests/property/test_simulator_queue_rounds.py holds its plans equal to those of
``plan_round``.
"""

import math
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush, merge
from typing import NamedTuple

import numpy as np

from scheduler.core.model.plan import PreemptRule
from scheduler.core.model.queue_tree import QueueTree, share_among
from scheduler.core.packing.board import Board
from scheduler.core.packing.draft import Seats
from scheduler.core.packing.seating import Seating
from scheduler.core.packing.selection import Demands
from scheduler.core.round.admission import Standing, is_within_share
from scheduler.simulator.incremental.orders.queue_shares import QueueShares
from scheduler.simulator.incremental.orders.running_order import QuotaCover, RunningOrder
from scheduler.simulator.incremental.orders.waiting_lines import KeptLines
from scheduler.simulator.incremental.planner_input import PlannerInput
from scheduler.simulator.incremental.walks.lines_walk import LinesWalk, Place, Turns
from scheduler.simulator.incremental.walks.preemption_candidates import Key

_COVERED, _BORROWS, _BEYOND = (int(standing) for standing in Standing)
_NONE = np.zeros(0, dtype=np.int64)
_END: Key = (math.inf, math.inf, math.inf, 0)


class Decision(NamedTuple):
    """What a round decides.

    Attributes:
        started: Seats of jobs that begin on them, in the order of their turns.
        on_free: Those of them that displaced no job and were not displaced.
        stopped: Jobs that leave their seats, in the order of the policy, with the rule and the job that takes them.
    """

    started: dict[int, Seats]
    on_free: set[int]
    stopped: dict[int, tuple[str, int]]


def stand_side_by_side(given: PlannerInput, tree: QueueTree) -> bool:
    """Return whether ``SideBySide`` decides as the walk over all jobs does."""
    side_by_side = all(len(path) == 1 for path in tree.paths)
    return side_by_side and not given.demands.needs.tight


class SideBySide:
    """Decides the rounds in which every job within a quota finds room.

    ``decided`` goes in this order, each step from what those before it left in the attributes: ``_begin`` (what queues
    hold, running jobs in the order of the policy), ``_in_quota`` (which jobs a quota covers, which run without one),
    ``_last_within`` (where the fair share of a queue ends), then seats: ``_on_free_gpus``, or ``_walked`` where running
    jobs may have to leave.
    """

    def __init__(
        self, given: PlannerInput, tree: QueueTree, board: Board, lines: KeptLines, shares: QueueShares | None
    ) -> None:
        self._tree, self._board, self._lines, self._shares = tree, board, lines, shares
        self._locality, self._gangs = given.config.locality, given.demands.gangs
        self._by_order = given.config.policy.preemptive and given.config.preempt
        # Whether every weaker job may be stopped, and without delay.
        delayed = given.config.min_run_s or given.config.reclaim_after_s
        self._stops = not delayed and bool(given.columns.preemptible.all())
        shape, gangs = given.demands.shape, given.demands.gangs
        self._seating = Seating(board, shape)
        demands = Demands(rows=np.arange(len(shape)), shape=shape, gangs=gangs, limits=[() for _ in tree.paths])
        self._walk = LinesWalk(board, demands, tree, self._locality, self._seating)
        self._num_gpus = given.columns.num_gpus
        self._order, self._queue = RunningOrder(given.columns, lines.present), given.columns.queue
        self._capacity_gpus = int(given.servers.num_gpus.sum())
        self._rights = [
            (float(cap), float(quota), weight)
            for cap, quota, weight in zip(tree.cap, tree.quota, tree.weight, strict=True)
        ]
        self._closed: set[int] = set()  # shapes that found no free seats; none will until a job leaves its seats
        self._departures = board.departures
        self._may_seat_all = True  # as far as the number of free GPUs tells

    def _begin(self, now_s: float) -> None:
        self._held = self._board.held_gpus.copy()
        self._seating.begin()
        self._covered: dict[int, int] = {}  # by line, how many of its first jobs a quota covers
        self._served: dict[int, int] = {}  # by line, how many of its first jobs are to start
        self._last: dict[int, Key] = {}  # by queue, the last job without quota that begins within the fair share
        # By queue, the GPUs that its quota covers in this round, running and waiting jobs together; a queue that is not
        # in it counts with all GPUs that it holds. And by queue, the running jobs beyond the quota, with their GPUs.
        self._used_gpus: dict[int, int] = {}
        self._without: dict[int, list[tuple[Key, int]]] = {}
        # Where the order decides which running jobs a quota covers: all running jobs, and whether it covers each.
        self._over = self._over_quota() if self._by_order else []
        if self._over or not self._may_seat_all:
            self._running = self._order.at(now_s)
            self._in_quota_running = np.ones(len(self._running), dtype=np.bool_)
        if self._departures != self._board.departures:
            self._departures = self._board.departures
            self._closed.clear()

    def _over_quota(self) -> list[int]:
        """Return the queues in which the order tells what the quota covers: those asking for more than it.

        Where all jobs that wait may find free GPUs, running jobs stay, and a queue counts only if a job waits there.
        """
        lines = self._lines
        asked = zip(self._tree.quota, self._held, lines.gpus_of_queue, lines.of_queue, strict=True)
        return [
            queue
            for queue, (quota, has, more, waiting) in enumerate(asked)
            if has and has + more > quota and (waiting or not self._may_seat_all)
        ]

    def start(self, rows: Iterable[int]) -> None:
        """Note jobs that start."""
        if self._by_order:
            self._order.start(rows)

    def decided(self, now_s: float) -> Decision | None:
        """Decide a round. None when it takes a walk over all jobs; then the board is as before."""
        lines, asked = self._lines, zip(self._board.held_gpus, self._lines.gpus_of_queue, self._tree.cap, strict=True)
        if any(has + more > cap for has, more, cap in asked):
            return None  # the maximum of a queue might decide
        self._may_seat_all = not self._by_order or sum(lines.gpus_of_queue) <= self._board.space.total
        if not (self._may_seat_all or self._stops):
            return None
        self._begin(now_s)
        if self._may_seat_all:
            done = self._on_free_gpus() and (not self._by_order or len(self._seating.taken) == len(lines))
        else:
            done = self._walked()
        if not done:
            self._seating.undo()
            return None
        return Decision(self._seating.started(), self._seating.on_free, self._stopped())

    def _on_free_gpus(self) -> bool:
        """Seat the jobs that find free GPUs; return False when a job within its quota does not."""
        if not all(self._sit(key[3]) for key in self._in_quota()):
            return False
        self._served = self._covered.copy()
        self._others()
        return True

    def _walked(self) -> bool:
        """Seat jobs on free GPUs and on those of weaker jobs; return False when one within its quota finds no room."""
        covered, walk = self._in_quota(), self._walk
        self._last = self._last_within(range(len(self._held)))
        others = [self._place(key, queue) for queue, jobs in self._without.items() for key, _ in jobs]
        walk.begin(sorted(others))
        if covered:
            running = Turns(self._running[self._in_quota_running], _COVERED, self._order.key)
            if not walk.seat_covered([(_COVERED, key) for key in covered], running):
                return False
        walk.seat_others(self._lines.lines, self._covered, self._place_in)
        return True

    def _stopped(self) -> dict[int, tuple[str, int]]:
        """Return the jobs that leave, as in a ``Decision``."""
        turns, reclaimed = self._walk.turns, self._walk.reclaimed
        stopped = {}
        for key, by_row in sorted([(turns[row][1], by_row) for row, by_row in self._seating.displaced.items()]):
            standing, by_key = turns[by_row]
            rule = PreemptRule.QUOTA_RECLAIM if standing == _COVERED else PreemptRule.OVER_SHARE
            if by_key < key and key[3] not in reclaimed:
                rule = PreemptRule.POLICY_ORDER
            stopped[key[3]] = str(rule), by_row
        return stopped

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
        self._seating.take(row, seats, ())
        return True

    def _in_quota(self) -> list[Key]:
        """Return the waiting jobs that the quota of their queue covers, in the order of the policy."""
        covered: list[Key] = []
        lines = self._lines
        if self._over:
            queue_of, gpus_of = self._queue[self._running], self._num_gpus[self._running]
        for queue, (quota, held) in enumerate(zip(self._tree.quota, self._held, strict=True)):
            numbers = lines.of_queue[queue]
            if queue in self._over:
                among = (queue_of == queue).nonzero()[0]
                cover = QuotaCover(self._running[among], gpus_of[among], self._order.key, quota)
            elif quota <= held or not numbers:
                continue
            else:
                cover = QuotaCover(_NONE, _NONE, self._order.key, quota - held)
            heap = [(lines.lines[number][0], number) for number in numbers if lines.gpus_of_line[number] <= cover.left]
            heapify(heap)
            while heap:
                key, number = heappop(heap)
                if lines.gpus_of_line[number] <= cover.left:
                    cover.pass_until(key)
                if lines.gpus_of_line[number] > cover.left:
                    continue  # nor do the jobs behind it fit
                cover.left -= lines.gpus_of_line[number]
                covered.append(key)
                at = self._covered[number] = self._covered.get(number, 0) + 1
                if at < len(lines.lines[number]):
                    heappush(heap, (lines.lines[number][at], number))
            if queue in self._over:
                cover.pass_until(None)
                without = among[cover.without]
                self._in_quota_running[without] = False
                keys = map(self._order.key, self._running[without].tolist())
                self._without[queue] = [*zip(keys, gpus_of[without].tolist(), strict=True)]
            self._used_gpus[queue] = quota - cover.left
        if self._shares:
            covered = [self._shares.key(self._board.queue[key[3]], key) for key in covered]
        covered.sort()
        return covered

    def _others(self) -> None:
        """Seat the jobs without quota: those within the fair share of their queue first."""
        lines, served = self._lines, self._served
        hopeful: list[int] = []
        for shape, numbers in lines.of_shape.items():
            if self._may_find_seats(shape):
                hopeful += numbers
        if served:
            hopeful = [number for number in hopeful if served.get(number, 0) < len(lines.lines[number])]
        if not hopeful:
            return
        queue_of_line, gpus_of_line, waiting = lines.queue_of_line, lines.gpus_of_line, lines.lines
        queues = {queue_of_line[number] for number in hopeful}
        if len(queues) > 1 and not self._last:  # inside a queue those within the share come first anyway
            self._last = self._last_within(queues)
        least_gpus, space = min(gpus_of_line[number] for number in hopeful), self._board.space
        heap = [(self._place(waiting[at][served.get(at, 0)], queue_of_line[at]), at) for at in hopeful]
        heapify(heap)
        while heap and space.total >= least_gpus:
            place, number = heappop(heap)
            if not self._sit(place[1][3]):
                continue
            at = served[number] = served.get(number, 0) + 1
            line = waiting[number]
            if at < len(line):
                heappush(heap, (self._place(line[at], queue_of_line[number]), number))

    def _may_find_seats(self, shape: int) -> bool:
        if shape in self._closed:
            return False
        gang, space = self._gangs[shape], self._board.space
        if space.total >= gang.num_gpus and self._locality.seats(space, gang):
            return True
        self._closed.add(shape)
        return False

    def _place_in(self, number: int, key: Key) -> Place:
        return self._place(key, self._lines.queue_of_line[number])

    def _place(self, key: Key, queue: int) -> Place:
        last = self._last.get(queue)
        standing = _BORROWS if last is not None and key <= last else _BEYOND
        return standing, self._shares.key(queue, key) if self._shares else key

    def _last_within(self, queues: Iterable[int]) -> dict[int, Key]:
        """Return for each queue the last job without quota that begins within its fair share, if there is one."""
        lines, held = self._lines, self._held
        asked = zip(held, lines.gpus_of_queue, self._rights, strict=True)
        members = [(min(float(has + more), cap), quota, weight) for has, more, (cap, quota, weight) in asked]
        shares = share_among(self._capacity_gpus, members)  # as ``fair_shares`` of queues side by side
        last: dict[int, Key] = {}
        for queue in queues:
            if shares[queue] >= held[queue] + lines.gpus_of_queue[queue]:
                last[queue] = _END  # all that it asks for
                continue
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
        lines = self._lines

        def of_line(number: int) -> Iterator[tuple[Key, int]]:
            line, gpus = lines.lines[number], lines.gpus_of_line[number]
            return ((line[at], gpus) for at in range(self._covered.get(number, 0), len(line)))

        return merge(self._without.get(queue, ()), *(of_line(number) for number in lines.of_queue[queue]))
