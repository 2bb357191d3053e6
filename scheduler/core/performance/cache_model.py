"""Time model of a dataset cache that never evicts: epoch time and least sufficient size.

Formulas only. Every epoch reads every item exactly once, in an order drawn anew. Sizes are bytes, rates bytes a second.

Source: Mohan et al., "Analyzing and Mitigating Data Stalls in DNN Training" (CoorDL, MinIO), VLDB 2021; the epoch time
is the memory model of Mohan et al., "Synergy", OSDI 2022.
"""

import math
from dataclasses import dataclass

MEMORY_BYTES_PER_S = 10e9
DISK_BYTES_PER_S = 500e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """Rates of memory and disk.

    Attributes:
        memory_bytes_per_s: Rate at which cached items are read.
        disk_bytes_per_s: Rate at which all others are.
    """

    memory_bytes_per_s: float = MEMORY_BYTES_PER_S
    disk_bytes_per_s: float = DISK_BYTES_PER_S


def fetch_s(*, dataset_bytes: float, cache_bytes: float, storage: Storage) -> float:
    """Return the seconds that a warm epoch spends on reading, whatever its order."""
    cached_bytes = min(cache_bytes, dataset_bytes)
    missed_bytes = dataset_bytes - cached_bytes
    return cached_bytes / storage.memory_bytes_per_s + missed_bytes / storage.disk_bytes_per_s


def epoch_s(*, prep_s: float, dataset_bytes: float, cache_bytes: float, storage: Storage) -> float:
    """Return the seconds of a warm epoch: reading overlaps with preparing and computing, so the slower one counts.

    Args:
        prep_s: The epoch with its cores and with all items in memory.
        dataset_bytes: All items.
        cache_bytes: What the cache may hold.
        storage: Where items come from.
    """
    return max(prep_s, fetch_s(dataset_bytes=dataset_bytes, cache_bytes=cache_bytes, storage=storage))


def enough_cache_bytes(*, prep_s: float, dataset_bytes: float, storage: Storage) -> float:
    """Return the least cache with which reading no longer slows the job; more has no effect.

    +inf when not even memory is fast enough.
    """
    if dataset_bytes / storage.memory_bytes_per_s > prep_s:
        return math.inf
    behind_s = dataset_bytes / storage.disk_bytes_per_s - prep_s
    if behind_s <= 0:
        return 0.0
    return behind_s / (1 / storage.disk_bytes_per_s - 1 / storage.memory_bytes_per_s)
