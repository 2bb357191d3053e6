"""Incremental equivalent of ``Walk`` for one queue that may hold all GPUs, kept from round to round of a replay.

In such a queue a claim depends on nothing but what stronger jobs leave of the servers: less of it never helps. So a job
that was refused stays refused until a stronger one leaves its seats, and where the first waiting job of a shape is
refused all others of that shape are. A round looks at the first of each shape, and at those behind one that got seats.
tests/property/test_simulator_short_rounds.py holds its plans equal to those of ``Walk``.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush

from scheduler.core.model.tables import NO_ROW
from scheduler.core.packing.board import Board
from scheduler.core.packing.draft import Seats
from scheduler.core.packing.free_gpus import Gang
from scheduler.core.packing.locality import Locality
from scheduler.core.packing.seating import GpuBoard, Seating, all_victims, one_gpu
from scheduler.simulator.incremental.walks.gang_room import GangRoom
from scheduler.simulator.incremental.walks.preemption_candidates import Key, Keys, PreemptionCandidates


@dataclass(slots=True, kw_only=True)
class Moves:
    """What a walk changed.

    Attributes:
        started: New seats of jobs that begin on them, in the order in which they took them.
        displaced: Running jobs that left their seats, with the job that took them.
        on_free: Jobs of ``started`` that waited and displaced no job.
    """

    started: dict[int, Seats] = field(default_factory=dict)
    displaced: dict[int, int] = field(default_factory=dict)
    on_free: set[int] = field(default_factory=set)


class SingleQueueWalk:
    """Seats and waiting jobs of one queue.

    Attributes:
        space: GPUs that no job sits on.
        seats: Where each running job sits.
        num_waiting: Jobs in line.
        unsettled: Whether the next walk may change something although nothing happens before it.
    """

    def __init__(
        self,
        board: Board | GpuBoard,
        locality: Locality,
        *,
        shape: Sequence[int],
        gangs: Sequence[Gang],
        preemptive: bool,
        ceilings: Mapping[float, float] | None,
        in_line: bool,
    ) -> None:
        """Begin with no jobs.

        Args:
            board: The empty servers; a ``Board`` where cores or memory may run out before the GPUs.
            locality: Where gangs may sit.
            shape: (n,) shape of each job.
            gangs: What jobs of each shape ask for.
            preemptive: Whether waiting jobs may displace running ones.
            ceilings: See ``PreemptionCandidates``.
            in_line: Whether no job may overtake one that waits.
        """
        self._locality, self._shape, self._gangs = locality, shape, gangs
        self._candidates = PreemptionCandidates(ceilings) if preemptive else None
        self._in_line = in_line
        self._board = board
        self._tight = board if isinstance(board, Board) else None
        self.space, self.seats = self._board.space, self._board.seats
        self.num_waiting = 0
        self.unsettled = False
        # The line of each shape is a heap; an entry counts while it is the present key of its job.
        self._lines: list[list[Key]] = [[] for _ in gangs]
        self._key_of: dict[int, Key] = {}
        # By shape the strongest key refused; it stays refused until ``_grown`` is ``_needed``.
        self._closed: list[Key | None] = [None] * len(gangs)
        self._needed = [0] * len(gangs)
        self._grown = self._seen = 0  # GPUs that came free or within reach of the weakest: so far; until the last walk
        self._missing = 0  # GPUs that the job last refused had too few of within its reach; 0 for another cause
        # Of the present walk: what it changed, the keys of the jobs that took seats in it, and its searches by shape.
        self._seating = Seating(self._board, shape)
        self._seated: dict[int, Key] = {}
        self._searches: dict[int, GangRoom] = {}

    def wait(self, key: Key) -> None:
        """Put a job in line."""
        row = key[3]
        if row not in self._key_of:
            self.num_waiting += 1
        self._key_of[row] = key
        heappush(self._lines[self._shape[row]], key)

    def release(self, row: int) -> None:
        """Take a job off its seats that ended."""
        if self._candidates:
            self._candidates.leave(row)
        self._board.leave(row)
        self._grown += self._gangs[self._shape[row]].num_gpus

    def reopen(self) -> None:
        """Look at every shape again: keys or seats of running jobs have changed."""
        self._closed = [None] * len(self._gangs)

    def occupy(self, key: Key, seats: Seats) -> None:
        """Seat a job that runs from the start."""
        self._board.sit(key[3], seats)
        if self._candidates:
            self._candidates.enter(key)

    def reseat(self, seats: Mapping[int, Seats]) -> None:
        """Let jobs that were just seated sit elsewhere on free GPUs."""
        for row in seats:
            self._board.leave(row)
        for row, at in seats.items():
            self._board.sit(row, at)
        self.reopen()
        self.unsettled = True

    def move(self, row: int, key: float) -> None:
        """Give a running job another key of the policy."""
        assert self._candidates
        self._candidates.move(row, key)
        self._grown += self._gangs[self._shape[row]].num_gpus

    def strongest_key(self) -> float:
        """Return the least key of the policy among waiting jobs, or a lower one."""
        return min((line[0][0] for line in self._lines if line), default=math.inf)

    def walk(self, now_s: float, keys: Keys) -> Moves:
        """Seat the jobs that find room, and return what changed; ``keys`` are present ones of running jobs."""
        self.unsettled = False
        heap = self._hopeful()
        if not heap:
            return Moves()
        if self._candidates:
            self._candidates.begin(keys)
        self._seating.begin()
        while heap:
            key, shape = heappop(heap)
            again = shape < 0  # a job that was displaced in this walk
            shape, row = self._shape[key[3]], key[3]
            if self._is_out_of_reach(shape, key):
                if again:
                    self.wait(key)
                continue
            seats, victims = self._find(row, shape, key)
            if not seats:
                self._close(shape, key)
                if again:
                    self.wait(key)
                if self._in_line:
                    self._close_all(key)
                    break
                continue
            swapped = self._seating.take(row, seats, victims)
            self._seated[row] = key
            self.unsettled |= swapped
            for victim in victims:
                heappush(heap, (self._note_departure(victim), NO_ROW))
            if not again:
                line = self._lines[shape]
                heappop(line)
                del self._key_of[row]
                self.num_waiting -= 1
                if line and self._hopes(shape, line):
                    heappush(heap, (line[0], shape))
            if swapped or victims:
                self._reopen_after(key, victims, heap)
        return self._finished(now_s)

    def _hopeful(self) -> list[tuple[Key, int]]:
        """Return a heap of the first waiting job of each shape that may find room, with the shape."""
        grown = self._grown
        if grown != self._seen:
            needed = self._needed
            self._closed = [closed if needed[shape] > grown else None for shape, closed in enumerate(self._closed)]
            self._seen = grown
        heap = [(line[0], shape) for shape, line in enumerate(self._lines) if line and self._hopes(shape, line)]
        heapify(heap)
        return heap

    def _close(self, shape: int, key: Key) -> None:
        """Note that a job was refused, and how many GPUs have to come within its reach before it may hope again."""
        closed = self._closed[shape]
        if closed is None or key < closed:
            self._closed[shape] = key
            self._needed[shape] = self._grown + self._missing if self._missing > 0 else 0

    def _close_all(self, key: Key) -> None:
        """Note that a job was refused that no other may overtake."""
        self._closed = [key if one is None else min(one, key) for one in self._closed]
        self._needed = [0] * len(self._gangs)

    def _is_out_of_reach(self, shape: int, key: Key) -> bool:
        """Return whether a stronger job of the shape found too few GPUs, seats aside."""
        closed = self._closed[shape]
        return closed is not None and closed < key and self._needed[shape] > self._grown

    def _reopen_after(self, key: Key, victims: Sequence[int], heap: list[tuple[Key, int]]) -> None:
        """Let jobs after ``key`` that were refused in an earlier round hope again: seats before them have changed.

        What the victims held and the job of ``key`` does not need is free now.
        """
        gangs, shape_of = self._gangs, self._shape
        needed = gangs[shape_of[key[3]]].num_gpus
        freed = max(0, sum([gangs[shape_of[victim]].num_gpus for victim in victims]) - needed)
        for shape, closed in enumerate(self._closed):
            if closed is not None and closed > key:
                self._needed[shape] -= freed
                if self._needed[shape] > self._grown:
                    continue
                line = self._lines[shape]
                if not self._hopes(shape, line) and line:
                    heappush(heap, (line[0], shape))
                self._closed[shape] = None

    def _finished(self, now_s: float) -> Moves:
        seating, candidates = self._seating, self._candidates
        if candidates:
            candidates.end()
            for row, key in self._seated.items():
                candidates.enter((key[0], min(key[1], now_s), key[2], row))
        self._seated, self._searches = {}, {}
        return Moves(started=seating.started(), displaced=seating.displaced, on_free=seating.on_free)

    def _hopes(self, shape: int, line: list[Key]) -> bool:
        """Return whether the first of the line may get seats."""
        key_of = self._key_of
        while line and key_of.get(line[0][3]) != line[0]:
            heappop(line)
        if not line:
            return False
        closed = self._closed[shape]
        return closed is None or line[0] < closed

    def _find(self, row: int, shape: int, key: Key) -> tuple[Seats, Sequence[int]]:
        """Return seats for the job, and the victims that have to leave them."""
        space, gang, tight = self.space, self._gangs[shape], self._tight
        if row in self._seating.before:
            seats = self._seating.home(row, tight.fits(row) if tight else None)
            if seats:
                return seats, ()
        if space.total >= gang.num_gpus and (not tight or tight.may_fit(row)):
            seats = self._locality.seats(space, replace(gang, fits=tight.fits(row)) if tight else gang)
            if seats:
                return seats, ()
        if self._candidates:
            return self._room(shape, key, self._candidates)
        self._missing = gang.num_gpus - space.total
        return (), ()

    def _room(self, shape: int, key: Key, candidates: PreemptionCandidates) -> tuple[Seats, Sequence[int]]:
        """Return seats that are free once weaker jobs have left, and these jobs."""
        weakest, gang, space = candidates.weakest(key), self._gangs[shape], self.space
        if weakest == NO_ROW:
            self._missing = gang.num_gpus - space.total
            return (), ()
        if gang.num_gpus == 1 and not self._tight:
            return one_gpu(self.seats[weakest]), (weakest,)
        search = self._searches.get(shape)
        if search is None:
            fits_after = self._tight.fits_after if self._tight else None
            search = self._searches[shape] = GangRoom(candidates, space, self.seats, gang.num_gpus, fits_after)
        server = search.one_server(key)
        if server != NO_ROW:
            return ((server, gang.num_gpus),), search.victims(key[3], server, gang.num_gpus)
        self._missing = gang.num_gpus - search.reach()
        if self._missing > 0 or 1 in (gang.max_servers, gang.num_gpus):
            return (), ()
        seats = search.several_servers(
            key[3], lambda room, fits: self._locality.seats(room, replace(gang, fits=fits) if fits else gang)
        )
        return seats, all_victims(seats, lambda server, gpus: search.victims(key[3], server, gpus))

    def _note_departure(self, victim: int) -> Key:
        """Note that a running job left its seats; return its present key."""
        assert self._candidates is not None
        for search in self._searches.values():
            search.leave(victim, self._seating.before[victim])
        return self._candidates.drop(victim)
