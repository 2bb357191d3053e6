"""Free GPUs by server, in buckets by their count, so that a best fit is found without looking at every server."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.core.model.tables import NO_ROW

# Whether cores and memory of a server allow that many GPUs of a gang on it.
Fits = Callable[[int, int], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
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


class FreeGpus:
    """Free GPUs of every server.

    Attributes:
        topology: What does not change about the servers.
        free: (m,) free GPUs by server; change it by ``take`` and ``give`` only.
        total: Sum of ``free``.
        sizes: (m,) for each server the GPUs that gangs of each size hold there, by size; None unless the locality looks
            at it (``LooksAtSizes``). A gang on several servers counts with its whole size.
    """

    __slots__ = ("_buckets", "free", "sizes", "topology", "total")

    def __init__(self, free: Sequence[int], topology: Topology, sizes: list[dict[int, int]] | None = None) -> None:
        self.topology = topology
        self.sizes = sizes
        self.free = list(free)
        self.total = sum(self.free)
        # One set of servers for each count, as the bits of a number: the lowest bit is the lowest server.
        self._buckets = _sets_of(self.free)

    def take(self, server: int, gpus: int) -> None:
        """Take GPUs that are free on the server."""
        buckets, before, bit = self._buckets, self.free[server], 1 << server
        self.free[server] = before - gpus
        self.total -= gpus
        buckets[before] ^= bit
        buckets[before - gpus] |= bit

    def give(self, server: int, gpus: int) -> None:
        """Put GPUs back on the server."""
        buckets, before, bit = self._buckets, self.free[server], 1 << server
        self.free[server] = before + gpus
        self.total += gpus
        while len(buckets) <= before + gpus:
            buckets.append(0)
        buckets[before] ^= bit
        buckets[before + gpus] |= bit

    def with_more(self, gpus: Mapping[int, int]) -> "FreeGpus":
        """Return another space in which more GPUs are free, given by server."""
        more = FreeGpus.__new__(FreeGpus)  # the sets of servers are copied, which is ten times as fast as to make them
        more.topology, more.sizes, more.total = self.topology, self.sizes, self.total
        more.free, more._buckets = self.free.copy(), self._buckets.copy()
        free, buckets = more.free, more._buckets
        buckets += [0] * (max(self.topology.gpus, default=0) + 1 - len(buckets))
        for server, count in gpus.items():
            before, bit = free[server], 1 << server
            free[server] = before + count
            buckets[before] ^= bit
            buckets[before + count] |= bit
        more.total += sum(gpus.values())
        return more

    def best_fit(self, gpus: int, fits: Fits | None = None) -> int:
        """Return the server with the fewest free GPUs that has ``gpus`` and fits; lowest number on ties, or NO_ROW."""
        buckets = self._buckets
        for count in range(gpus, len(buckets)):
            bucket = buckets[count]
            if not bucket:
                continue
            if fits is None:
                return (bucket & -bucket).bit_length() - 1
            for server in _members(bucket):
                if fits(server, gpus):
                    return server
        return NO_ROW

    def largest_first(self) -> Iterator[int]:
        """Yield the servers with free GPUs, most free first, lowest number first on ties. Take nothing meanwhile."""
        for count in range(len(self._buckets) - 1, 0, -1):
            yield from _members(self._buckets[count])


def _sets_of(counts: list[int]) -> list[int]:
    """Return for each count, from 0 to the largest, the set of those that have it as the bits of a number."""
    each, values = np.array(counts, dtype=np.int64), np.arange(max(counts, default=0) + 1)
    sets = np.packbits(each == values[:, None], axis=1, bitorder="little")
    width, data = sets.shape[1], sets.tobytes()
    return [int.from_bytes(data[width * count : width * (count + 1)], "little") for count in range(len(sets))]


def _members(bits: int) -> Iterator[int]:
    """Yield the numbers of the set bits, ascending."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest
