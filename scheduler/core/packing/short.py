"""The walk of ``select`` for one queue that may hold everything, kept from round to round.

In such a queue a claim depends on nothing but the GPUs that stronger jobs leave: less of them never helps. So a job
that was refused stays refused until a stronger one leaves its seats, and where the first waiting job of a shape is
refused all others of that shape are. A round looks at the first of each shape, and at those behind one that got seats.
The outcome is that of ``select``, to the seat.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

import numpy as np

from scheduler.core.config import Locality
from scheduler.core.packing.draft import Seats
from scheduler.core.packing.rivals import Key, Rivals, Roster, Search
from scheduler.core.packing.space import Gang, Site, Space
from scheduler.core.tables import NO_ROW, FloatArray, IntArray, ServerTable

# Keys of the policy, and ranks of seniority, of jobs given by row.
Ranks = Callable[[IntArray], tuple[FloatArray, FloatArray]]


@dataclass(slots=True, kw_only=True)
class Moves:
    """What a walk changed.

    Attributes:
        started: New seats of jobs that begin on them, in the order in which they took them.
        displaced: Running jobs that left their seats, with the job that took them.
        on_free: Jobs of ``started`` that waited and displaced nobody.
    """

    started: dict[int, Seats] = field(default_factory=dict)
    displaced: dict[int, int] = field(default_factory=dict)
    on_free: set[int] = field(default_factory=set)


class ShortWalk:
    """Who sits where and who waits, in one queue.

    Attributes:
        space: GPUs that nobody sits on.
        seats: Where each running job sits.
        num_waiting: Jobs in line.
        unsettled: Whether the next walk may change something although nothing happens before it.
    """

    def __init__(
        self,
        servers: ServerTable,
        locality: Locality,
        *,
        shape: Sequence[int],
        gangs: Sequence[Gang],
        preemptive: bool,
        in_line: bool,
    ) -> None:
        """Begin with empty servers.

        Args:
            servers: The servers, ascending by id.
            locality: Where gangs may sit.
            shape: (n,) shape of each job.
            gangs: What jobs of each shape ask for.
            preemptive: Whether waiting jobs may displace running ones.
            in_line: Whether nobody may overtake a job that waits.
        """
        self._locality, self._shape, self._gangs = locality, shape, gangs
        self._preemptive, self._in_line = preemptive, in_line
        free: list[int] = servers.num_gpus.tolist()
        self.space = Space(free, Site(gpus=free, rack=servers.rack.tolist()))
        self.seats: dict[int, Seats] = {}
        self.num_waiting = 0
        self.unsettled = False
        self._roster = Roster(len(shape), int(sum(free)))
        self._free = servers.num_gpus.astype(np.float64)
        # The line of each shape is a heap; an entry counts while it is the present key of its job.
        self._lines: list[list[Key]] = [[] for _ in gangs]
        self._key_of: dict[int, Key] = {}
        self._closed: list[Key | None] = [None] * len(gangs)
        self._fresh = np.zeros(len(shape), dtype=np.bool_)
        self._seated: list[int] = []
        self._begin()

    def _begin(self) -> None:
        self._moves = Moves()
        self._before: dict[int, Seats] = {}
        self._searches: dict[int, Search] = {}
        for row in self._seated:
            self._fresh[row] = False
        self._seated = []
        self._rivals: Rivals | None = None

    def wait(self, row: int, key: Key) -> None:
        """Put a job in line."""
        if row not in self._key_of:
            self.num_waiting += 1
        self._key_of[row] = key
        heappush(self._lines[self._shape[row]], key)

    def release(self, row: int) -> None:
        """Take a job off its seats that ended."""
        self._rise(row)
        self.reopen()

    def running(self) -> IntArray:
        """Return the rows that sit, some of them more than once."""
        return self._roster.job[: self._roster.count].copy()

    def reopen(self) -> None:
        """Look at every shape again: keys or seats of running jobs have changed."""
        self._closed = [None] * len(self._gangs)

    def occupy(self, row: int, seats: Seats) -> None:
        """Seat a job that runs from the start."""
        self._place(row, seats)

    def reseat(self, row: int, seats: Seats) -> None:
        """Let a job that was just seated sit elsewhere on free GPUs."""
        self._rise(row)
        self._place(row, seats)
        self.reopen()
        self.unsettled = True

    def walk(self, ranks: Ranks) -> Moves:
        """Seat whom there is room for, and return what changed."""
        self.unsettled = False
        heap = [(line[0], shape) for shape, line in enumerate(self._lines) if self._hopes(shape, line)]
        if not heap:
            return Moves()
        heapify(heap)
        self._begin()
        while heap:
            key, shape = heappop(heap)
            again = shape < 0  # a job that was displaced in this walk
            shape, row = self._shape[key[2]], key[2]
            seats, victims = self._find(row, shape, key, ranks)
            if not seats:
                closed = self._closed[shape]
                self._closed[shape] = key if closed is None else min(closed, key)
                if again:
                    self.wait(row, key)
                if self._in_line:
                    self._closed = [key if one is None else min(one, key) for one in self._closed]
                    break
                continue
            for victim in victims:
                heappush(heap, (self._displace(victim, row), NO_ROW))
            changed = self._sit(row, seats, victims) or bool(victims)
            if not again:
                line = self._lines[shape]
                heappop(line)
                del self._key_of[row]
                self.num_waiting -= 1
                if self._hopes(shape, line):
                    heappush(heap, (line[0], shape))
            if changed:
                self._reopen_after(key, heap)
        return self._finished()

    def _reopen_after(self, key: Key, heap: list[tuple[Key, int]]) -> None:
        """Let those after ``key`` hope again who were refused in an earlier round: seats before them have changed."""
        for shape, closed in enumerate(self._closed):
            if closed is not None and closed > key:
                line = self._lines[shape]
                if not self._hopes(shape, line) and line:
                    heappush(heap, (line[0], shape))
                self._closed[shape] = None

    def _finished(self) -> Moves:
        moves, self._moves = self._moves, Moves()
        seats = self.seats
        moves.started = {row: seats[row] for row in moves.started if self._before.get(row) != seats[row]}
        for row, at in moves.started.items():
            if len(at) > 1:  # as they will be read from what is held
                seats[row] = tuple(sorted(at))
        self._rivals = None
        return moves

    def _hopes(self, shape: int, line: list[Key]) -> bool:
        """Return whether the first of the line may get seats."""
        key_of = self._key_of
        while line and key_of.get(line[0][2]) != line[0]:
            heappop(line)
        if not line:
            return False
        closed = self._closed[shape]
        return closed is None or line[0] < closed

    def _find(self, row: int, shape: int, key: Key, ranks: Ranks) -> tuple[Seats, list[int]]:
        """Return seats for the job, and who has to leave them."""
        space, gang, free = self.space, self._gangs[shape], self.space.free
        home = self._before.get(row)
        if home and all(free[server] >= gpus for server, gpus in home):
            return home, []
        if space.total >= gang.num_gpus:
            seats = self._locality.seats(space, gang)
            if seats:
                return seats, []
        return self._room(row, shape, key, ranks) if self._preemptive else ((), [])

    def _room(self, row: int, shape: int, key: Key, ranks: Ranks) -> tuple[Seats, list[int]]:
        """Return seats that are free once weaker jobs have left, and these jobs."""
        rivals, gang = self._rivals, self._gangs[shape]
        if rivals is None:
            rivals = self._rivals = Rivals(self._roster, ranks, self._fresh)
        alone = gang.num_gpus == 1 or gang.max_servers == 1
        if rivals.weakest < key or (rivals.most_on_one if alone else rivals.most_in_all) < gang.num_gpus:
            return (), []
        if gang.num_gpus == 1:
            server, victim = rivals.seat_of_weakest()
            return ((server, 1),), [victim]
        weaker = rivals.weaker(key)
        room = self._free + rivals.gpus_on(weaker, len(self._free))
        on_one, in_all = float(room.max(initial=0)), float(room.sum())
        # Who asks later is weaker, and finds no more room than the first.
        rivals.most_on_one, rivals.most_in_all = min(rivals.most_on_one, on_one), min(rivals.most_in_all, in_all)
        if (on_one if alone else in_all) < gang.num_gpus:
            return (), []
        rivals.line_up(key, weaker)
        found = self._searches.get(shape)
        if found is None:
            found = self._searches[shape] = Search(rivals, gang.num_gpus)
        server = found.one_server(self._free)
        if server != NO_ROW:
            return ((server, gang.num_gpus),), found.victims(server, gang.num_gpus, self._free)
        if alone:
            return (), []
        site = self.space.site
        seats = found.several_servers(self._free, lambda free: self._locality.seats(Space(free, site), gang))
        victims = [victim for server, gpus in seats for victim in found.victims(server, gpus, self._free)]
        return seats, list(dict.fromkeys(victims))

    def _displace(self, victim: int, by_row: int) -> Key:
        assert self._rivals is not None
        seats = self.seats[victim]
        self._before[victim] = seats
        key = self._rivals.drop(victim)
        self._rise(victim)
        for server, _ in seats:
            for search in self._searches.values():
                search.notice(server)
        self._moves.displaced[victim] = by_row
        return key

    def _sit(self, row: int, seats: Seats, victims: Sequence[int]) -> bool:
        """Seat a job; return whether a stronger one changed its seats for that."""
        moves, swapped = self._moves, False
        self._place(row, seats)
        self._fresh[row] = True
        self._seated.append(row)
        moves.started[row] = seats
        if row in moves.displaced:
            swapped = self._spare_a_move(row)
            seats = self.seats[row]
        if self._before.get(row) == seats:
            # It never moved after all: whoever took its seats makes do with those of the jobs that left for it.
            taker = moves.displaced.pop(row)
            moves.displaced.update({victim: taker for victim, by_row in moves.displaced.items() if by_row == row})
        elif not victims and row not in moves.displaced:
            moves.on_free.add(row)
        return swapped

    def _spare_a_move(self, row: int) -> bool:
        """Let a displaced job that found other seats go home, and the job that sits there take those seats instead."""
        taker, home, seats = self._moves.displaced[row], self._before[row], self.seats[row]
        alike = self._shape[row] == self._shape[taker]
        if alike and self.seats[taker] == home and taker not in self._moves.displaced:
            self._rise(row)
            self._rise(taker)
            self._place(row, home)
            self._place(taker, seats)
            self.unsettled = True
            return True
        return False

    def _place(self, row: int, seats: Seats) -> None:
        self.seats[row] = seats
        for server, gpus in seats:
            self.space.take(server, gpus)
            self._free[server] -= gpus
        self._roster.add(row, seats)

    def _rise(self, row: int) -> None:
        for server, gpus in self.seats.pop(row):
            self.space.give(server, gpus)
            self._free[server] += gpus
        self._roster.remove(row)
