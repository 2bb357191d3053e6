"""Caches of dataset items, item by item: MinIO, the page cache's LRU, and MinIO over several servers.

They only count hits; the times that follow are in ``core/performance/cache_model.py``.

Source: Mohan et al., "Analyzing and Mitigating Data Stalls in DNN Training" (CoorDL, MinIO), VLDB 2021.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from scheduler.core.performance.cache_model import Storage
from scheduler.simulator.draws import Draws


class Cache(Protocol):
    """Items that can be had without the disk."""

    def get(self, item: int, size_bytes: int) -> bool:
        """Read an item; return whether it was there."""


class MinIo:
    """Takes items in until it is full and then never replaces one, so that every epoch hits all that it holds.

    Attributes:
        capacity_bytes: What it may hold.
        used_bytes: What it holds.
    """

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self.used_bytes = 0
        self._sizes: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._sizes)

    def __contains__(self, item: int) -> bool:
        return item in self._sizes

    def get(self, item: int, size_bytes: int) -> bool:
        """Read an item; one that is not there is kept when it fits, also when a larger one did not."""
        if item in self._sizes:
            return True
        if self.used_bytes + size_bytes <= self.capacity_bytes:
            self._sizes[item] = size_bytes
            self.used_bytes += size_bytes
        return False

    def resize(self, capacity_bytes: int) -> int:
        """Set the capacity; drop the items with the highest numbers until the rest fits. Return the bytes dropped."""
        self.capacity_bytes = capacity_bytes
        dropped_bytes = 0
        for item in sorted(self._sizes, reverse=True):
            if self.used_bytes <= capacity_bytes:
                break
            dropped_bytes += self._sizes[item]
            self.used_bytes -= self._sizes.pop(item)
        return dropped_bytes


class Lru:
    """Drops the item that was not read for longest, as the page cache does."""

    def __init__(self, capacity_bytes: int) -> None:
        self._capacity_bytes = capacity_bytes
        self._used_bytes = 0
        self._sizes: OrderedDict[int, int] = OrderedDict()

    def get(self, item: int, size_bytes: int) -> bool:
        """Read an item and keep it, whatever has to leave for it."""
        if item in self._sizes:
            self._sizes.move_to_end(item)
            return True
        if size_bytes > self._capacity_bytes:
            return False
        self._sizes[item] = size_bytes
        self._used_bytes += size_bytes
        while self._used_bytes > self._capacity_bytes:
            self._used_bytes -= self._sizes.popitem(last=False)[1]
        return False


def misses(cache: Cache, order: Iterable[int], *, size_bytes: int = 1) -> int:
    """Read items of one size in an order; return how many came from the disk."""
    return sum(not cache.get(item, size_bytes) for item in order)


def misses_by_epoch(cache: Cache, *, items: int, epochs: int, draws: Draws) -> list[int]:
    """Return the misses of each epoch over items of size 1, the first of them with a cold cache."""
    return [misses(cache, draws.order(items).tolist()) for _ in range(epochs)]


class ItemSource(StrEnum):
    """Where an item came from."""

    LOCAL = "local"  # the cache of the server that asked
    PEER = "peer"  # the cache of another server of the job, over the network
    DISK = "disk"


class Partitioned:
    """One MinIO cache on each server of a job; each item is in at most one of them, and all know in which.

    Differs from the paper: what a server takes in is announced at once instead of at the end of the first epoch. Each
    item is read once in an epoch, so it is not asked for before then.
    """

    def __init__(self, capacities_bytes: Sequence[int]) -> None:
        self._caches = [MinIo(capacity_bytes) for capacity_bytes in capacities_bytes]
        self._home: dict[int, int] = {}

    def get(self, server: int, item: int, size_bytes: int = 1) -> ItemSource:
        """Read an item on a server; one that no cache holds is kept there when it fits."""
        home = self._home.get(item)
        if home is not None:
            return ItemSource.LOCAL if home == server else ItemSource.PEER
        self._caches[server].get(item, size_bytes)
        if item in self._caches[server]:
            self._home[item] = server
        return ItemSource.DISK

    def epoch(self, draws: Draws, *, items: int, servers: Sequence[int]) -> Counter[ItemSource]:
        """Let each of the servers read a random shard; return how many items came from where."""
        order = draws.order(items).tolist()
        return Counter(self.get(servers[at % len(servers)], item) for at, item in enumerate(order))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """The storage and cores of a job that reads items.

    Attributes:
        storage: Where items come from.
        prep_items_per_s: Rate at which all cores of the job prepare items.
        staged_items: Items that may be read ahead of the cores.
    """

    storage: Storage
    prep_items_per_s: float
    staged_items: int = 256


def epoch_by_items_s(cache: Cache, order: Sequence[int], *, size_bytes: int, pipeline: Pipeline) -> float:
    """Return the seconds of one epoch, item by item: a reader ahead of the cores by at most ``staged_items``."""
    hit_s = size_bytes / pipeline.storage.memory_bytes_per_s
    miss_s = size_bytes / pipeline.storage.disk_bytes_per_s
    prepared_s: list[float] = []
    read_s, done_s = 0.0, 0.0
    for at, item in enumerate(order):
        if at >= pipeline.staged_items:
            read_s = max(read_s, prepared_s[at - pipeline.staged_items])
        read_s += hit_s if cache.get(item, size_bytes) else miss_s
        done_s = max(done_s, read_s) + 1.0 / pipeline.prep_items_per_s
        prepared_s.append(done_s)
    return done_s
