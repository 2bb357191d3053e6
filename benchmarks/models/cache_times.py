"""What follows from the time model of a dataset cache: whole runs, the hit rate of LRU, and stalls that were measured.

Formulas only, beside those of ``core/performance/cache_model.py``.

Source: Mohan et al., "Analyzing and Mitigating Data Stalls in DNN Training" (CoorDL, MinIO), VLDB 2021.
"""

import math
from dataclasses import dataclass

from scheduler.core.performance.cache_model import Storage, epoch_s


def run_s(
    *, epochs: int, cold_starts: int, prep_s: float, dataset_bytes: float, cache_bytes: float, storage: Storage
) -> float:
    """Return the seconds of so many epochs, ``cold_starts`` of which begin with an empty cache.

    Every first epoch on a server is cold: what a cache holds does not follow a job that moves.
    """
    warm_s = epoch_s(prep_s=prep_s, dataset_bytes=dataset_bytes, cache_bytes=cache_bytes, storage=storage)
    cold_s = epoch_s(prep_s=prep_s, dataset_bytes=dataset_bytes, cache_bytes=0.0, storage=storage)
    cold_epochs = min(epochs, cold_starts)
    return cold_epochs * cold_s + (epochs - cold_epochs) * warm_s


def lru_hit_frac(cached_frac: float) -> float:
    """Return the share of hits of a least-recently-used cache, for many items in a new random order each epoch.

    An item read at position u of one epoch and v of the next is hit when fewer items than the cache holds were touched
    in between, that is when u(1 - v) > 1 - f for independent uniform u and v. A cache that never evicts hits f.
    """
    if cached_frac >= 1.0:
        return 1.0
    return cached_frac + (1.0 - cached_frac) * math.log1p(-cached_frac)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stalls:
    """Stalls of a job, as shares of its GPU's time.

    Attributes:
        speed_items_per_s: Its steady speed.
        prep_frac: Share of time lost to preparing items.
        fetch_frac: Share of time lost, beyond that, to reading them.
    """

    speed_items_per_s: float
    prep_frac: float
    fetch_frac: float


def stalls(*, gpu_items_per_s: float, prep_items_per_s: float, fetch_items_per_s: float) -> Stalls:
    """Return the stalls of a job from the three rates that differential measurement gives (DS-Analyzer).

    Args:
        gpu_items_per_s: With made-up data that is on the GPU already.
        prep_items_per_s: With a subset that is wholly in memory.
        fetch_items_per_s: With cold caches, preparing left out.
    """
    prepared = min(gpu_items_per_s, prep_items_per_s)
    speed = min(prepared, fetch_items_per_s)
    return Stalls(
        speed_items_per_s=speed,
        prep_frac=1.0 - prepared / gpu_items_per_s,
        fetch_frac=(prepared - speed) / gpu_items_per_s,
    )
