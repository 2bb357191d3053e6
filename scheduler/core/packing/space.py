"""Free GPUs by server, in buckets by their count, so that a best fit is found without looking at every server."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from scheduler.core.tables import NO_ROW

# Whether cores and memory of a server allow that many GPUs of a gang on it.
Fits = Callable[[int, int], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What does not change about the servers in a round.

    Attributes:
        gpus: (m,) GPUs of the empty server.
        rack: (m,) number of its rack.
    """

    gpus: Sequence[int]
    rack: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """A gang that looks for seats.

    Attributes:
        num_gpus: GPUs it needs, all or nothing.
        max_servers: Most servers it may use, 0 for any number.
        least_servers: Fewest servers that could hold it if they were empty.
        kind: What the locality itself said about the job (``Locality.kinds``).
        fits: Whether cores and memory of a server allow that many of its GPUs there; None: always.
    """

    num_gpus: int
    max_servers: int
    least_servers: int
    kind: tuple[float, ...]
    fits: Fits | None


class Space:
    """Free GPUs of every server.

    Attributes:
        site: What does not change about the servers.
        free: (m,) free GPUs by server; change it by ``take`` and ``give`` only.
        total: Sum of ``free``.
        sizes: (m,) for each server the GPUs that gangs of each size hold there, by size; None unless the locality looks
            at it (``LooksAtSizes``). A gang on several servers counts with its whole size.
    """

    __slots__ = ("_buckets", "free", "site", "sizes", "total")

    def __init__(self, free: Sequence[int], site: Site, sizes: list[dict[int, int]] | None = None) -> None:
        self.site = site
        self.sizes = sizes
        self.free = list(free)
        self.total = sum(self.free)
        # A bucket is a heap of servers and may hold stale ones: an entry counts while its server has that many free.
        self._buckets: list[list[int]] = [[] for _ in range(max(self.free, default=0) + 1)]
        for server, count in enumerate(self.free):
            self._buckets[count].append(server)
        for bucket in self._buckets:
            heapify(bucket)

    def take(self, server: int, gpus: int) -> None:
        """Take GPUs that are free on the server."""
        left = self.free[server] - gpus
        self.free[server] = left
        self.total -= gpus
        heappush(self._buckets[left], server)

    def give(self, server: int, gpus: int) -> None:
        """Put GPUs back on the server."""
        left = self.free[server] + gpus
        self.free[server] = left
        self.total += gpus
        while len(self._buckets) <= left:
            self._buckets.append([])
        heappush(self._buckets[left], server)

    def best_fit(self, gpus: int, fits: Fits | None = None) -> int:
        """Return the server with the fewest free GPUs that has ``gpus`` and fits; lowest number on ties, or NO_ROW."""
        free = self.free
        for count in range(gpus, len(self._buckets)):
            bucket = self._buckets[count]
            while bucket and free[bucket[0]] != count:
                heappop(bucket)
            if not bucket:
                continue
            if fits is None or fits(bucket[0], gpus):
                return bucket[0]
            for server in sorted(set(bucket)):
                if free[server] == count and fits(server, gpus):
                    return server
        return NO_ROW

    def largest_first(self) -> Iterator[int]:
        """Yield the servers with free GPUs, most free first, lowest number first on ties. Take nothing meanwhile."""
        for count in range(len(self._buckets) - 1, 0, -1):
            for server in sorted(set(self._buckets[count])):
                if self.free[server] == count:
                    yield server
