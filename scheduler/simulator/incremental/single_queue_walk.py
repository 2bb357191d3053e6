"""The walk of ``select`` for one queue that may hold everything, kept from round to round.

In such a queue a claim depends on nothing but the GPUs that stronger jobs leave: less of them never helps. So a job
that was refused stays refused until a stronger one leaves its seats, and where the first waiting job of a shape is
refused all others of that shape are. A round looks at the first of each shape, and at those behind one that got seats.
The outcome is that of ``select``, to the seat.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from scheduler.core.model.tables import NO_ROW, ServerTable
from scheduler.core.packing.draft import Seats
from scheduler.core.packing.free_gpus import Gang, Topology, FreeGpus
from scheduler.core.packing.locality import Locality
from scheduler.simulator.incremental.gang_room import GangRoom
from scheduler.simulator.incremental.preemption_candidates import Key, Keys, PreemptionCandidates


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


class SingleQueueWalk:
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
        ceilings: Mapping[float, float] | None,
        in_line: bool,
    ) -> None:
        """Begin with empty servers.

        Args:
            servers: The servers, ascending by id.
            locality: Where gangs may sit.
            shape: (n,) shape of each job.
            gangs: What jobs of each shape ask for.
            preemptive: Whether waiting jobs may displace running ones.
            ceilings: As of ``PreemptionCandidates``.
            in_line: Whether nobody may overtake a job that waits.
        """
        self._locality, self._shape, self._gangs = locality, shape, gangs
        self._candidates = PreemptionCandidates(ceilings) if preemptive else None
        self._in_line = in_line
        free: list[int] = servers.num_gpus.tolist()
        self.space = FreeGpus(free, Topology(gpus=free, rack=servers.rack.tolist()))
        self.seats: dict[int, Seats] = {}
        self.num_waiting = 0
        self.unsettled = False
        # The line of each shape is a heap; an entry counts while it is the present key of its job.
        self._lines: list[list[Key]] = [[] for _ in gangs]
        self._key_of: dict[int, Key] = {}
        # By shape the strongest key that was refused; it stays so until ``_grown`` is ``_needed``.
        self._closed: list[Key | None] = [None] * len(gangs)
        self._needed = [0] * len(gangs)
        self._grown = self._seen = 0  # GPUs that came free or within reach of the weakest, and as of the last walk
        self._missing = 0  # GPUs that the job last refused had too few of within its reach; 0 for another cause
        self._moves = Moves()
        # Of the present walk: seats of displaced jobs before it, and keys of those who took seats in it.
        self._before: dict[int, Seats] = {}
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
        self._rise(row)
        self._grown += self._gangs[self._shape[row]].num_gpus

    def reopen(self) -> None:
        """Look at every shape again: keys or seats of running jobs have changed."""
        self._closed = [None] * len(self._gangs)

    def occupy(self, key: Key, seats: Seats) -> None:
        """Seat a job that runs from the start."""
        self._place(key[3], seats)
        if self._candidates:
            self._candidates.enter(key)

    def reseat(self, seats: Mapping[int, Seats]) -> None:
        """Let jobs that were just seated sit elsewhere on free GPUs."""
        for row in seats:
            self._rise(row)
        for row, at in seats.items():
            self._place(row, at)
        self.reopen()
        self.unsettled = True

    def move(self, row: int, key: float) -> None:
        """Give a running job another key of the policy."""
        assert self._candidates
        self._candidates.move(row, key)
        self._grown += self._gangs[self._shape[row]].num_gpus

    def strongest_key(self) -> float:
        """Return a key of the policy that nobody who waits has less than."""
        return min((line[0][0] for line in self._lines if line), default=math.inf)

    def walk(self, now_s: float, keys: Keys) -> Moves:
        """Seat whom there is room for, and return what changed; ``keys`` are present ones of running jobs."""
        self.unsettled = False
        grown = self._grown
        if grown != self._seen:
            needed = self._needed
            self._closed = [closed if needed[shape] > grown else None for shape, closed in enumerate(self._closed)]
            self._seen = grown
        heap = [(line[0], shape) for shape, line in enumerate(self._lines) if line and self._hopes(shape, line)]
        if not heap:
            return Moves()
        heapify(heap)
        if self._candidates:
            self._candidates.begin(keys)
        self._moves = Moves()
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
                    self._closed = [key if one is None else min(one, key) for one in self._closed]
                    self._needed = [0] * len(self._gangs)
                    break
                continue
            for victim in victims:
                assert self._candidates is not None
                heappush(heap, (self._displace(self._candidates, victim, row), NO_ROW))
            changed = self._sit(key, seats, victims) or bool(victims)
            if not again:
                line = self._lines[shape]
                heappop(line)
                del self._key_of[row]
                self.num_waiting -= 1
                if not line:
                    self._bring_up(shape)
                if line and self._hopes(shape, line):
                    heappush(heap, (line[0], shape))
            if changed:
                gangs = self._gangs
                freed = sum([gangs[self._shape[victim]].num_gpus for victim in victims]) - gangs[shape].num_gpus
                self._reopen_after(key, max(0, freed), heap)
        return self._finished(now_s)

    def _bring_up(self, shape: int) -> None:
        """Bring up who stands behind the line that is known; here it is known whole."""

    def _close(self, shape: int, key: Key) -> None:
        """Note that a job was refused, and how many GPUs have to come within its reach before it may hope again."""
        closed = self._closed[shape]
        if closed is None or key < closed:
            self._closed[shape] = key
            self._needed[shape] = self._grown + self._missing if self._missing > 0 else 0

    def _is_out_of_reach(self, shape: int, key: Key) -> bool:
        """Return whether a stronger job of the shape found too few GPUs, seats aside."""
        closed = self._closed[shape]
        return closed is not None and closed < key and self._needed[shape] > self._grown

    def _reopen_after(self, key: Key, freed: int, heap: list[tuple[Key, int]]) -> None:
        """Let those after ``key`` hope again who were refused in an earlier round: seats before them have changed.

        ``freed`` GPUs of the jobs that left for it are free now.
        """
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
        moves, seats, before, seated = self._moves, self.seats, self._before, self._seated
        candidates = self._candidates
        if candidates:
            candidates.end()
        for row, key in seated.items():
            if candidates:
                candidates.enter((key[0], min(key[1], now_s), key[2], row))
            at = seats[row]
            if not before or before.get(row) != at:
                moves.started[row] = at
                if len(at) > 1:  # as they will be read from what is held
                    seats[row] = tuple(sorted(at))
        self._before, self._seated, self._searches = {}, {}, {}
        return moves

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
        """Return seats for the job, and who has to leave them."""
        space, gang = self.space, self._gangs[shape]
        if row in self._before:
            free, home = space.free, self._before[row]
            if all(free[server] >= gpus for server, gpus in home):
                return home, ()
        if space.total >= gang.num_gpus:
            seats = self._locality.seats(space, gang)
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
        if gang.num_gpus == 1:
            return ((min(self.seats[weakest])[0], 1),), (weakest,)
        search = self._searches.get(shape)
        if search is None:
            search = self._searches[shape] = GangRoom(candidates, space, self.seats, gang.num_gpus)
        server = search.one_server(key)
        if server != NO_ROW:
            return ((server, gang.num_gpus),), search.victims(server, gang.num_gpus)
        self._missing = gang.num_gpus - search.reach()
        if self._missing > 0 or gang.max_servers == 1:
            return (), ()
        seats = search.several_servers(lambda room: self._locality.seats(room, gang))
        victims = [victim for server, gpus in seats for victim in search.victims(server, gpus)]
        return seats, list(dict.fromkeys(victims))

    def _displace(self, candidates: PreemptionCandidates, victim: int, by_row: int) -> Key:
        seats = self._before[victim] = self.seats[victim]
        self._rise(victim)
        for search in self._searches.values():
            search.leave(victim, seats)
        self._moves.displaced[victim] = by_row
        return candidates.drop(victim)

    def _sit(self, key: Key, seats: Seats, victims: Sequence[int]) -> bool:
        """Seat a job; return whether a stronger one changed its seats for that."""
        row, displaced = key[3], self._moves.displaced
        self._place(row, seats)
        self._seated[row] = key
        if row not in displaced:
            if not victims:
                self._moves.on_free.add(row)
            return False
        swapped = self._spare_a_move(row)
        if self._before[row] == self.seats[row]:
            # It never moved after all: whoever took its seats makes do with those of the jobs that left for it.
            taker = displaced.pop(row)
            displaced.update({victim: taker for victim, by_row in displaced.items() if by_row == row})
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

    def _rise(self, row: int) -> None:
        for server, gpus in self.seats.pop(row):
            self.space.give(server, gpus)
