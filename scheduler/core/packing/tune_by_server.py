"""Tune, server by server: what a job gets depends on the jobs on its server, not on the order in which they came.

On a server, jobs are served in a fixed order, the most demanding first: each gets what it wants if that is left, else
what it must have; where not even that is left, those served before are held to what they must have, the greediest
first. A gang on several servers gets what it must have, so that no server depends on another. A job that starts chooses
the server with the fewest free GPUs where its demand is left, else the one where what it must have is left, else the
best fit by GPUs, where its neighbours then give back.

Source: Mohan et al., "Synergy", OSDI 2022, Tune. Where all jobs start in the same round this is the published
algorithm, step for step.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from scheduler.core.model.changes import Grant
from scheduler.core.model.cpu_memory_bounds import Needs
from scheduler.core.model.tables import NO_ROW, BoolArray, FloatArray, IntArray, ServerTable
from scheduler.core.packing.draft import Seats

_TOLERANCE = 1e-9

# What a job asks of a server for all its GPUs there: cores and bytes that it wants, cores and bytes that it must have.
_Ask = tuple[float, float, float, float]


class TuneByServer:
    """Cores and memory of all servers. A ``CpuMemoryLedger``."""

    def __init__(
        self, servers: ServerTable, needs: Needs, num_gpus: IntArray, rank: Sequence[tuple[float, ...]]
    ) -> None:
        """Begin with empty servers; ``rank`` orders the jobs on a server, smallest first."""
        self.chooses = True
        self._rank, self._gpus = rank, num_gpus.tolist()
        self._tight = needs.tight
        self._widest = int(servers.num_gpus.max(initial=0))
        bounds = (needs.cpus_least, needs.cpus_most, needs.memory_least, needs.memory_most)
        self._kind = [*zip(self._gpus, *(column.tolist() for column in bounds), strict=True)]
        columns = (needs.cpus_share, needs.memory_share, servers.num_cpus, servers.memory_bytes)
        self._site = [*zip(*(column.tolist() for column in columns), strict=True)]
        self._asks: dict[tuple[tuple[float, ...], tuple[float, ...], int], _Ask] = {}
        self._capacity = [(cpus * (1 + _TOLERANCE), memory * (1 + _TOLERANCE)) for _, _, cpus, memory in self._site]
        self._alike = len(set(self._site)) == 1
        self._left = np.array(self._capacity, dtype=np.float64).reshape(-1, 2).T.copy()
        self._spare = self._left.copy()
        self._on: list[dict[int, int]] = [{} for _ in self._site]
        self._seats: dict[int, Seats] = {}
        self._given: dict[tuple[int, int], tuple[float, float]] = {}
        self._told: dict[int, Grant] = {}
        self._dirty: set[int] = set()
        self._changed: set[int] = set()
        self._last_served: list[int] = [NO_ROW] * len(self._site)
        self._forget_searches()

    def leave(self, row: int) -> None:
        """Take back what a job has."""
        self._told.pop(row, None)
        for server, gpus in self._seats.pop(row):
            del self._on[server][row]
            del self._given[row, server]
            self._dirty.add(server)
            self._reserve(row, server, gpus, -1)

    def sit(self, started: Mapping[int, Seats], movable: Iterable[int], free: list[int]) -> dict[int, Grant]:
        """Give cores and memory to jobs that begin on seats; return what changed. As ``CpuMemoryLedger.sit``."""
        may_move = {row for row in movable if len(started[row]) == 1}
        for row, seats in started.items():
            if row not in may_move:
                self._seat(row, seats)
        for server in self._dirty:
            self._fill(server)
        if may_move:
            self._find_servers(sorted(may_move, key=self._rank.__getitem__), started, free)
        rows, self._changed, self._dirty = self._changed, set(), set()
        news = {row: self._grant(row) for row in sorted(rows.union(started)) if row in self._seats}
        told = self._told
        # A grant that changed and changed back is no news.
        news = {row: grant for row, grant in news.items() if row in started or told.get(row) != grant}
        told.update(news)
        return news

    def _grant(self, row: int) -> Grant:
        given = self._given
        return tuple((server, gpus, *given[row, server]) for server, gpus in sorted(self._seats[row]))

    def _seat(self, row: int, seats: Seats) -> None:
        self._seats[row] = seats
        for server, gpus in seats:
            self._on[server][row] = gpus
            self._dirty.add(server)
            self._reserve(row, server, gpus, 1)

    def _reserve(self, row: int, server: int, gpus: int, sign: int) -> None:
        if self._tight:
            _, _, cpus, memory = self._ask(row, server, gpus)
            self._spare[0, server] -= sign * cpus
            self._spare[1, server] -= sign * memory

    def _ask(self, row: int, server: int, gpus: int) -> _Ask:
        kind, topology = self._kind[row], self._site[server]
        ask = self._asks.get((kind, topology, gpus))
        if ask is None:
            size, cpus_least, cpus_most, memory_least, memory_most = kind
            cpus_must = max(cpus_least, min(cpus_most, topology[0]))
            memory_must = max(memory_least, min(memory_most, topology[1]))
            cpus, memory = cpus_must, memory_must
            if gpus == size and size <= self._widest:
                cpus = cpus if math.isinf(cpus_most) else max(cpus, min(cpus_most, topology[2] / size))
                memory = memory if math.isinf(memory_most) else max(memory, min(memory_most, topology[3] / size))
            ask = self._asks[kind, topology, gpus] = (gpus * cpus, gpus * memory, gpus * cpus_must, gpus * memory_must)
        return ask

    def _fill(self, server: int) -> None:
        """Serve the jobs of a server anew."""
        on, given = self._on[server], self._given
        cpus_left, memory_left = self._capacity[server]
        served: list[tuple[int, _Ask, float, float]] = []
        for row in sorted(on, key=self._rank.__getitem__):
            ask = self._ask(row, server, on[row])
            cpus, memory = ask[0], ask[1]
            if cpus > cpus_left or memory > memory_left:
                cpus, memory = ask[2], ask[3]
                if cpus > cpus_left or memory > memory_left:
                    cpus_left, memory_left = self._cut_back(on, served, cpus, memory, cpus_left, memory_left)
            cpus_left -= cpus
            memory_left -= memory
            served.append((row, ask, cpus, memory))
        self._last_served[server] = served[-1][0] if served else NO_ROW
        for row, _, cpus, memory in served:
            if given.get((row, server)) != (cpus, memory):
                given[row, server] = (cpus, memory)
                self._changed.add(row)
        if cpus_left > self._left.item(0, server) or memory_left > self._left.item(1, server):
            self._raised.append(server)
        self._left[0, server], self._left[1, server] = cpus_left, memory_left

    def _serve_last(self, row: int, server: int) -> bool:
        """Serve a job that came to a server after all others were; return False where the order says otherwise.

        Where what it wants is left, the other jobs keep what they have.
        """
        last = self._last_served[server]
        ask = self._ask(row, server, self._gpus[row])
        cpus_left, memory_left = self._left.item(0, server), self._left.item(1, server)
        if ask[0] > cpus_left or ask[1] > memory_left or (last != NO_ROW and self._rank[last] > self._rank[row]):
            return False
        self._given[row, server] = ask[:2]
        self._changed.add(row)
        self._last_served[server] = row
        self._left[0, server], self._left[1, server] = cpus_left - ask[0], memory_left - ask[1]
        return True

    def _cut_back(
        self,
        on: Mapping[int, int],
        served: list[tuple[int, _Ask, float, float]],
        cpus: float,
        memory: float,
        cpus_left: float,
        memory_left: float,
    ) -> tuple[float, float]:
        """Hold those served to what they must have, until so much is left; return what is left."""
        greediest = sorted(
            range(len(served)), key=lambda at: (-served[at][2] / on[served[at][0]], -served[at][3] / on[served[at][0]])
        )
        for at in greediest:
            if cpus <= cpus_left and memory <= memory_left:
                break
            row, ask, had_cpus, had_memory = served[at]
            keeps_cpus, keeps_memory = min(had_cpus, ask[2]), min(had_memory, ask[3])
            cpus_left += had_cpus - keeps_cpus
            memory_left += had_memory - keeps_memory
            served[at] = (row, ask, keeps_cpus, keeps_memory)
        return cpus_left, memory_left

    def _forget_searches(self) -> None:
        # Servers where something came free while jobs were seated; and for each kind of job that found no server, how
        # many of these its last search has seen.
        self._raised: list[int] = []
        self._barren: dict[tuple[tuple[float, ...], bool], int] = {}
        self._last: tuple[tuple[float, ...], bool, int] = ((), False, NO_ROW)

    def _find_servers(self, rows: Sequence[int], started: Mapping[int, Seats], free: list[int]) -> None:
        """Let jobs choose their servers one after another; keep all where they were seated when that leads nowhere."""
        room = np.array(free, dtype=np.int64)
        for row in rows:
            ((server, gpus),) = started[row]
            room[server] += gpus
        self._forget_searches()
        for row in rows:
            server = self._server_for(row, room)
            if server == NO_ROW:
                for other in rows:
                    if other in self._seats:
                        self.leave(other)
                for other in rows:
                    self._seat(other, started[other])
                for at in self._dirty:
                    self._fill(at)
                return
            room[server] -= self._gpus[row]
            self._seat(row, ((server, self._gpus[row]),))
            if not self._serve_last(row, server):
                self._fill(server)

    def _server_for(self, row: int, room: IntArray) -> int:
        kind = self._kind[row]
        for demoted in (False, True):
            server = self._find(row, kind, room, demoted=demoted)
            if server != NO_ROW:
                self._last = (kind, demoted, server)
                return server
        return _best(self._with_spare(row, room >= kind[0]), room)

    def _find(self, row: int, kind: tuple[float, ...], room: IntArray, *, demoted: bool) -> int:
        """Return the server with the fewest free GPUs where so much is left, or NO_ROW."""
        last_kind, was_demoted, server = self._last
        # The server that seated the last job of this kind still is the best fit when it fits at all.
        if last_kind == kind and was_demoted == demoted and self._has(row, server, room, demoted=demoted):
            return server
        key = (kind, demoted)
        seen = self._barren.get(key)
        if seen is None:
            server = self._search(row, room, demoted=demoted)
        else:
            news = [one for one in set(self._raised[seen:]) if self._has(row, one, room, demoted=demoted)]
            server = min(news, key=lambda one: (int(room[one]), one), default=NO_ROW)
        if server == NO_ROW:
            self._barren[key] = len(self._raised)
        else:
            self._barren.pop(key, None)
        return server

    def _has(self, row: int, server: int, room: IntArray, *, demoted: bool) -> bool:
        gpus = self._gpus[row]
        if room.item(server) < gpus:
            return False
        ask = self._ask(row, server, gpus)
        cpus, memory = (ask[2], ask[3]) if demoted else (ask[0], ask[1])
        if cpus > self._left.item(0, server) or memory > self._left.item(1, server):
            return False
        return not self._tight or (ask[2] <= self._spare[0, server] and ask[3] <= self._spare[1, server])

    def _search(self, row: int, room: IntArray, *, demoted: bool) -> int:
        cpus, memory, cpus_must, memory_must = self._ask_everywhere(row)
        if demoted:
            cpus, memory = cpus_must, memory_must
        enough = room >= self._gpus[row]
        enough &= self._left[0] >= cpus
        enough &= self._left[1] >= memory
        return _best(self._with_spare(row, enough), room)

    def _with_spare(self, row: int, enough: BoolArray) -> BoolArray:
        if self._tight:
            _, _, cpus, memory = self._ask_everywhere(row)
            enough = enough & (self._spare[0] >= cpus) & (self._spare[1] >= memory)
        return enough

    def _ask_everywhere(self, row: int) -> tuple[FloatArray | float, ...]:
        """Return what the job asks of each server: one number where all servers are alike."""
        if self._alike:
            return self._ask(row, 0, self._gpus[row])
        asks = [self._ask(row, server, self._gpus[row]) for server in range(len(self._site))]
        return tuple(np.array(column) for column in zip(*asks, strict=True))


def _best(enough: BoolArray, room: IntArray) -> int:
    servers = enough.nonzero()[0]
    return servers.item(room[servers].argmin()) if len(servers) else NO_ROW


def by_demand(needs: Needs, num_gpus: IntArray, job_id: IntArray) -> list[tuple[float, ...]]:
    """Return (n,) ranks: widest first, then most cores, then most memory, then by id."""
    cpus, memory = needs.cpus_most, needs.memory_most
    # A job that nothing is known about wants its share; servers rarely differ in it.
    cpus = np.where(np.isinf(cpus), np.maximum(needs.cpus_least, needs.cpus_share.max(initial=0)), cpus)
    memory = np.where(np.isinf(memory), np.maximum(needs.memory_least, needs.memory_share.max(initial=0)), memory)
    columns = (-num_gpus, -num_gpus * cpus, -num_gpus * memory, job_id)
    return [*zip(*(column.tolist() for column in columns), strict=True)]
