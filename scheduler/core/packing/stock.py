"""What servers have left to give while gangs are filled in: GPUs, cores and memory, and who got how much."""

from collections.abc import Iterable, Sequence

import numpy as np

from scheduler.core.tables import NO_ROW, BoolArray, FloatArray, ServerTable

_TOLERANCE = 1e-9
_NEVER = np.int64(1) << 40  # more GPUs than any server has

# Per GPU: one number where all servers are alike, else one per server.
PerGpu = float | FloatArray


class Want:
    """Cores and memory per GPU that gangs of one kind want, and must have. Jobs of a kind have equal ``kind``."""

    __slots__ = ("cpus", "demotable", "gpus", "kind", "memory", "must_cpus", "must_memory")

    def __init__(
        self,
        kind: tuple[float, ...],
        *,
        gpus: int,
        wanted: tuple[FloatArray, FloatArray],
        must: tuple[FloatArray, FloatArray],
        alike: bool,
    ) -> None:
        """Take (m,) columns (cores, bytes) per GPU; ``alike`` says that all servers have the same in each."""
        self.kind = kind
        self.gpus = gpus
        self.demotable = bool((wanted[0] > must[0]).any() or (wanted[1] > must[1]).any())
        self.cpus: PerGpu
        self.memory: PerGpu
        self.must_cpus: PerGpu
        self.must_memory: PerGpu
        self.cpus, self.memory = (_same(column) if alike else column for column in wanted)
        self.must_cpus, self.must_memory = (_same(column) if alike else column for column in must)

    def at(self, server: int, *, demoted: bool) -> tuple[float, float]:
        """Return (cores, bytes) per GPU on the server."""
        cpus, memory = (self.must_cpus, self.must_memory) if demoted else (self.cpus, self.memory)
        if isinstance(cpus, float) and isinstance(memory, float):
            return cpus, memory
        return float(np.asarray(cpus)[server]), float(np.asarray(memory)[server])


def _same(column: FloatArray) -> float:
    return float(column[0])


class Portion:
    """What one job has on one server, cores and bytes per GPU; demoting lowers it to what the job must have there."""

    __slots__ = ("cpus", "gpus", "job", "memory", "must_cpus", "must_memory", "server")

    def __init__(self, job: int, server: int, gpus: int, given: tuple[float, float], must: tuple[float, float]) -> None:
        self.job, self.server, self.gpus = job, server, gpus
        self.cpus, self.memory = given
        self.must_cpus, self.must_memory = must


class Stock:
    """What each server has left. Lists answer for one server; arrays of the same numbers search all at once.

    Attributes:
        alike: Whether all servers have equal cores and memory, per GPU and in all.
        on_server: (m,) portions given on each server.
    """

    def __init__(self, servers: ServerTable, free: Sequence[int], *, tight: bool) -> None:
        """Start with whole servers, of whose GPUs only ``free`` may be looked for; ``tight`` as in Needs."""
        columns = (servers.num_gpus, servers.num_cpus, servers.memory_bytes)
        self.alike = len(servers) > 0 and all(column.min() == column.max() for column in columns)
        self.on_server: list[list[Portion]] = [[] for _ in range(len(servers))]
        cpus, memory = servers.num_cpus * (1 + _TOLERANCE), servers.memory_bytes * (1 + _TOLERANCE)
        self._free_at, self._cpus_at, self._memory_at = np.array(free, dtype=np.int64), cpus.copy(), memory.copy()
        self._free, self._cpus, self._memory = list(free), cpus.tolist(), memory.tolist()
        # What is left once every job on the server has only what it must have. It binds nobody unless ``tight``.
        self._spare = (cpus.copy(), memory.copy()) if tight else None
        # Servers on which somebody was demoted, in that order, and how much of it each fruitless search has seen.
        self._raised: list[int] = []
        self._seen: dict[tuple[tuple[float, ...], bool], int] = {}
        self._last: tuple[tuple[float, ...], bool, int] = ((), False, NO_ROW)

    def reserve(self, seats: Iterable[tuple[Want, int, int]]) -> None:
        """Keep what gangs must have on servers that they cannot leave, given as (want, server, GPUs)."""
        if self._spare is not None:
            for want, server, gpus in seats:
                cpus, memory = want.at(server, demoted=True)
                self._spare[0][server] -= gpus * cpus
                self._spare[1][server] -= gpus * memory

    def has(self, want: Want, server: int, gpus: int, *, demoted: bool) -> bool:
        """Return whether the server has the cores and memory for so many GPUs of the gang."""
        cpus, memory = want.at(server, demoted=demoted)
        return bool(gpus * cpus <= self._cpus[server] and gpus * memory <= self._memory[server])

    def find(self, want: Want, *, demoted: bool) -> int:
        """Return the server with the fewest free GPUs that can seat the whole gang, or NO_ROW."""
        kind, was_demoted, server = self._last
        # The server that seated the last gang of this kind still is the best fit when it fits at all.
        if kind == want.kind and was_demoted == demoted and self._seats(want, server, demoted=demoted):
            return server
        key = (want.kind, demoted)
        if key not in self._seen:
            server = self._search(want, demoted=demoted)
        else:
            news = sorted(set(self._raised[self._seen[key] :]))
            fitting = [server for server in news if self._seats(want, server, demoted=demoted)]
            server = min(fitting, key=self._free.__getitem__, default=NO_ROW)
        if server == NO_ROW:
            self._seen[key] = len(self._raised)
        else:
            self._last = (want.kind, demoted, server)
        return server

    def find_gpus(self, want: Want) -> int:
        """Return the server with the fewest free GPUs that has enough for the gang, whatever peers took, or NO_ROW."""
        enough = self._free_at >= want.gpus
        return self._best(self._with_spare(want, enough))

    def _search(self, want: Want, *, demoted: bool) -> int:
        cpus, memory = (want.must_cpus, want.must_memory) if demoted else (want.cpus, want.memory)
        enough = self._free_at >= want.gpus
        enough &= self._cpus_at >= want.gpus * cpus
        enough &= self._memory_at >= want.gpus * memory
        return self._best(self._with_spare(want, enough))

    def _with_spare(self, want: Want, enough: BoolArray) -> BoolArray:
        if self._spare is not None:
            enough &= self._spare[0] >= want.gpus * want.must_cpus
            enough &= self._spare[1] >= want.gpus * want.must_memory
        return enough

    def _best(self, enough: BoolArray) -> int:
        if not len(enough):
            return NO_ROW
        left = np.where(enough, self._free_at, _NEVER)
        server = int(left.argmin())
        return server if enough[server] else NO_ROW

    def _seats(self, want: Want, server: int, *, demoted: bool) -> bool:
        if self._free[server] < want.gpus or not self.has(want, server, want.gpus, demoted=demoted):
            return False
        if self._spare is None:
            return True
        cpus, memory = want.at(server, demoted=True)
        return bool(self._spare[0][server] >= want.gpus * cpus and self._spare[1][server] >= want.gpus * memory)

    def take_gpus(self, want: Want, server: int) -> None:
        """Take the GPUs of a whole gang that was looked for, and keep what it must have."""
        self._free[server] -= want.gpus
        self._free_at[server] -= want.gpus
        self.reserve([(want, server, want.gpus)])

    def give(self, portion: Portion) -> None:
        """Give a portion, which the server has."""
        self.on_server[portion.server].append(portion)
        self._add(portion.server, -portion.gpus * portion.cpus, -portion.gpus * portion.memory)

    def demote(self, portion: Portion) -> None:
        """Take back what a portion has above what it must have."""
        cpus, memory = portion.cpus, portion.memory
        portion.cpus, portion.memory = min(cpus, portion.must_cpus), min(memory, portion.must_memory)
        self._add(portion.server, portion.gpus * (cpus - portion.cpus), portion.gpus * (memory - portion.memory))
        self._raised.append(portion.server)

    def _add(self, server: int, cpus: float, memory: float) -> None:
        self._cpus[server] += cpus
        self._memory[server] += memory
        self._cpus_at[server] = self._cpus[server]
        self._memory_at[server] = self._memory[server]
