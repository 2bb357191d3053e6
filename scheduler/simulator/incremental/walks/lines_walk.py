"""Walk over lines of waiting jobs in which stronger jobs take the GPUs of weaker ones, in queues side by side.

It makes the choices of ``Walk``. It looks at running jobs by their turns alone, and at the first jobs of each line as
long as GPUs are open to them. Used by ``SideBySide``; tests/property/test_simulator_queue_rounds.py holds the plans
equal to those of ``plan_round``.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import accumulate, chain, takewhile

import numpy as np

from scheduler.core.model.queue_tree import QueueTree
from scheduler.core.model.tables import NO_ROW, IntArray
from scheduler.core.packing.board import Board
from scheduler.core.packing.claims import NO_TURN, DisplaceableJobs, Part
from scheduler.core.packing.draft import Seats
from scheduler.core.packing.locality import Locality
from scheduler.core.packing.preemption.room import PreemptionRoom
from scheduler.core.packing.seating import Seating, one_gpu
from scheduler.core.packing.selection import Demands
from scheduler.core.round.admission import Standing
from scheduler.simulator.incremental.walks.preemption_candidates import Key

# Turn of a job: its standing, its place in the order of the policy.
Place = tuple[int, Key]
_NONE = np.zeros(0, dtype=np.int64)


class Turns:
    """The turns of some running jobs, strongest first. Few of them are ever asked for, so none is made before.

    Attributes:
        rows: (n,) the jobs.
    """

    def __init__(self, rows: IntArray, standing: int, key: Callable[[int], Key]) -> None:
        self.rows, self._standing, self._key = rows, standing, key

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, at: int) -> Place:
        return self.of(self.rows.item(at))

    def of(self, row: int) -> Place:
        """Return the turn of one of them."""
        return self._standing, self._key(row)


class LinesWalk:
    """The walk of one round after the other. Only GPUs count; any weaker job may have to leave.

    Attributes:
        turns: Turns of the jobs that took seats or left them in this round.
        reclaimed: Jobs without quota that had to leave for a job within the quota of another queue.
    """

    def __init__(self, board: Board, demands: Demands, tree: QueueTree, locality: Locality, seating: Seating) -> None:
        """Begin with a board; ``seating`` notes what changes."""
        self._board, self._demands, self._tree, self._locality = board, demands, tree, locality
        self._seating = seating
        self._shut: dict[int, int] = {}  # by shape that found no free seats, the departures at that time
        self.begin([])

    def begin(self, others: list[Place]) -> None:
        """Begin a round with the jobs that run without quota, strongest first."""
        self._others = others
        self._other_rows = np.array([place[1][3] for place in others], dtype=np.int64)
        self._turn_of: dict[int, Place] = {}  # turns of ``others``; filled when one is asked for
        self._later: list[tuple[Place, int]] = []
        self.turns: dict[int, Place] = {}
        self.reclaimed: set[int] = set()

    def seat_covered(self, claims: list[Place], covered: Turns) -> bool:
        """Seat jobs within a quota; return False when one finds no room, or loses its seats and finds no others.

        Args:
            claims: Those that wait, strongest first.
            covered: Those that run, strongest first.
        """
        self._covered = covered
        self._prepare(covered, covered.rows, anyway=True)
        heap = [(place, NO_ROW) for place in claims]
        while heap:
            place, _ = heappop(heap)
            if not self._claim(place, heap, self._scope(place[1][3])):
                return False
        return True

    def seat_others(
        self, lines: Mapping[int, Sequence[Key]], first: Mapping[int, int], place_in: Callable[[int, Key], Place]
    ) -> None:
        """Seat the jobs without quota that find room.

        Args:
            lines: By number, jobs that wait and ask for the same, strongest first.
            first: By number, the first job without quota of a line; 0 where none is given.
            place_in: Returns the turn of a job of a line.
        """
        at_of = {number: at for number, line in lines.items() if (at := first.get(number, 0)) < len(line)}
        board, num_gpus = self._board, self._board.num_gpus
        self._prepare(self._others, self._other_rows, anyway=False)
        heads = [(place_in(number, lines[number][at]), number) for number, at in at_of.items()]
        hopeful = self._hopeful_sizes(heads + self._later)
        # Lines whose jobs find no more room until a job leaves its seats.
        stalled = [number for place, number in heads if num_gpus[place[1][3]] not in hopeful]
        heap = [(place, number) for place, number in heads if num_gpus[place[1][3]] in hopeful] + self._later
        heapify(heap)
        while heap:
            place, number = heappop(heap)
            if self._open_gpus(place) < num_gpus[place[1][3]]:
                continue  # nor do jobs behind it find enough: what is open only shrinks
            departures = board.departures
            if not self._claim(place, heap, NO_ROW):
                if number != NO_ROW:
                    stalled.append(number)
                continue
            again = [number] if number != NO_ROW else []
            if board.departures != departures:
                again += stalled
                stalled = []
            for at_line in again:
                line = lines[at_line]
                at = bisect_right(line, place, at_of[at_line], key=partial(place_in, at_line))
                if at < len(line):
                    at_of[at_line] = at
                    heappush(heap, (place_in(at_line, line[at]), at_line))

    def _hopeful_sizes(self, claims: list[tuple[Place, int]]) -> set[int]:
        """Return the sizes whose first claim finds enough open GPUs; other sizes find none before a job leaves."""
        num_gpus, before = self._board.num_gpus, self._seating.before
        first: dict[int, Place] = {}
        for place, _ in claims:
            gpus = num_gpus[place[1][3]]
            if gpus not in first or place < first[gpus]:
                first[gpus] = place
        rows = [place[1][3] for place in reversed(self._others)]
        sums = [*accumulate([0 if row in before else num_gpus[row] for row in rows], initial=0)]
        self._weaker_gpus = sums[::-1]
        return {gpus for gpus, place in first.items() if self._open_gpus(place) >= gpus}

    def _open_gpus(self, place: Place) -> int:
        """Return the GPUs that are free, or held by jobs without quota whose turns come later."""
        passed = bisect_left(self._others, place)
        left = sum([gpus for at, gpus in self._gone if at >= passed])
        return self._board.space.total + self._weaker_gpus[passed] - left

    def _prepare(self, running: Turns | list[Place], rows: IntArray, *, anyway: bool) -> None:
        """Begin a part of the walk that comes past ``running`` jobs, before or after the claim that wants their seats.

        With ``anyway`` jobs without quota may have to leave for each claim of the part, and before all others.
        """
        before = self._other_rows if anyway else _NONE

        def displaceable() -> DisplaceableJobs:
            jobs = np.concatenate((before[::-1], rows[::-1]))
            turns = np.concatenate((np.full(len(before), NO_TURN), 2 * np.arange(len(rows))[::-1] + 1))
            return DisplaceableJobs(job=jobs, turn=turns, locked=np.zeros(len(jobs), dtype=np.bool_))

        self._running, self._anyway, self._gone = running, self._others if anyway else [], list[tuple[int, int]]()
        self._in_columns = False  # whether a search has needed columns, which note what leaves from then on
        part = Part(
            waiting=_NONE,
            waiting_turn=_NONE,
            seated=_NONE,
            seated_turn=_NONE,
            locked=_NONE,
            displaceable=displaceable,
        )
        self._room = PreemptionRoom(self._board, self._demands, part, self._tree.within, (), self._locality)

    def _scope(self, row: int) -> int:
        """Return the queue inside which a job within its quota displaces others; NO_ROW for everywhere."""
        board = self._board
        queue = board.queue[row]
        return queue if board.held_gpus[queue] + board.num_gpus[row] > self._tree.quota[queue] else NO_ROW

    def _claim(self, place: Place, heap: list[tuple[Place, int]], scope: int) -> bool:
        """Seat a job if it can be; the jobs that leave their seats for it get a turn of their own."""
        row, board = place[1][3], self._board
        seats, victims = self._free_seats(row), list[Place]()
        if not seats:
            seats, victims = self._seats_of_weaker(place, scope)
        if not seats:
            return False
        self.turns[row] = place
        self._seating.take(row, seats, [turn[1][3] for turn in victims])
        for turn in victims:
            victim = turn[1][3]
            self.turns[victim] = turn
            if self._anyway and turn[0] != Standing.COVERED:
                self._later.append((turn, NO_ROW))
                if board.queue[victim] != board.queue[row]:
                    self.reclaimed.add(victim)
                continue
            heappush(heap, (turn, NO_ROW))
            self._gone.append((bisect_left(self._others, turn), board.num_gpus[victim]))
        return True

    def _seats_of_weaker(self, place: Place, scope: int) -> tuple[Seats, list[Place]]:
        """Return seats for a job once others have left theirs, and the turns of those that have to."""
        row, board = place[1][3], self._board
        if not self._in_columns and board.num_gpus[row] == 1 and not board.space.total:
            weakest = self._weakest(place, scope)
            return (one_gpu(board.seats[weakest[1][3]]), [weakest]) if weakest else ((), [])
        seats, victims, _ = self._room.room(row, scope, 2 * bisect_left(self._running, place))
        rows = self._room.rows()
        self._in_columns = True
        for at in victims:
            rows.leave(at, board.seats[rows.row[at]])
        return seats, [self._turn(rows.row[at]) for at in victims]

    def _turn(self, row: int) -> Place:
        """Return the turn of a running job."""
        self._turn_of = self._turn_of or {place[1][3]: place for place in self._others}
        return self._turn_of.get(row) or self._covered.of(row)

    def _weakest(self, place: Place, scope: int) -> Place | None:
        """Return the turn of the weakest job that may have to leave for one GPU. A search would take it, too."""
        seats, queue_of = self._board.seats, self._board.queue
        for turn in chain(reversed(self._anyway), takewhile(place.__lt__, reversed(self._running))):
            row = turn[1][3]
            if row in seats and scope in (NO_ROW, queue_of[row]):
                return turn
        return None

    def _free_seats(self, row: int) -> Seats:
        board, shape = self._board, self._demands.shape[row]
        gang = self._demands.gangs[shape]
        seats: Seats = ()
        if board.space.total < gang.num_gpus:
            return ()
        if row in self._seating.before:
            seats = self._seating.home(row)
        if not seats and self._shut.get(shape) != board.departures:
            seats = self._locality.seats(board.space, gang)
            if not seats:
                self._shut[shape] = board.departures  # less room never helps
        return seats
