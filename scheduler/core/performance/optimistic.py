"""Model the sensitivity of a job to cores and memory, from rates at a few core counts and a model of its reading.

Cores are measured, memory is not: how long an epoch waits for items follows from the size of the dataset, the cache
that the memory leaves room for, and the rates of storage and memory (``cache_model.py``).

Source: Mohan et al., "Synergy", OSDI 2022, section 3.1, optimistic profiling.
"""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.core.model.profile import Profile, sensitivity
from scheduler.core.performance.cache_model import Storage, enough_cache_bytes, epoch_s

# Rates this near to the best count as the best, so that no job is given cores for the noise of a measurement.
FLAT_FRAC = 0.03
CACHE_STEPS = 10
MOST_ROWS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The dataset that a job reads, and its storage.

    Attributes:
        bytes_per_step: Raw items of one step.
        dataset_bytes: All raw items.
        storage: Where items come from.
    """

    bytes_per_step: float
    dataset_bytes: float
    storage: Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The GPU-proportional share of a server, per GPU."""

    cpus: float
    memory_bytes: float


def rate_at(rates: Mapping[float, float], cpus: float) -> float:
    """Return the rate at a core count: linear between measured counts, in proportion below, flat above them."""
    counts = sorted(rates)
    at = bisect_right(counts, cpus)
    if at == 0:
        return rates[counts[0]] * cpus / counts[0]
    if at == len(counts):
        return rates[counts[-1]]
    low, high = counts[at - 1], counts[at]
    return rates[low] + (rates[high] - rates[low]) * (cpus - low) / (high - low)


def settled(rates: Mapping[float, float]) -> dict[float, float]:
    """Return the rates without noise: more cores are never slower, and what is nearly the best is the best."""
    best = max(rates.values())
    found: dict[float, float] = {}
    highest = 0.0
    for cpus in sorted(rates):
        highest = max(highest, rates[cpus])
        found[cpus] = best if highest >= best * (1 - FLAT_FRAC) else highest
    return found


def modelled(*, rates: Mapping[float, float], working_bytes: float, reading: Reading | None, share: Share) -> Profile:
    """Return the sensitivity matrix.

    Args:
        rates: Steps a second by cores per GPU, measured with all items at hand.
        working_bytes: Memory per GPU that it uses without any cache.
        reading: What it reads, per GPU; None: memory beyond ``working_bytes`` does nothing for it.
        share: Where its speed is 1.
    """
    clean = settled(rates)
    grid = _counts(clean)
    columns = (working_bytes,) if reading is None else _columns(working_bytes, reading, fastest=max(clean.values()))
    speeds = [[_speed(rate_at(clean, cpus), memory - working_bytes, reading) for memory in columns] for cpus in grid]
    raw = Profile(cpus_per_gpu=grid, memory_bytes_per_gpu=columns, relative_speed=tuple(tuple(row) for row in speeds))
    # A share with less memory than the job was seen to use says nothing about its cores.
    at_share = sensitivity(raw, cpus_per_gpu=share.cpus, memory_bytes_per_gpu=max(share.memory_bytes, columns[0]))
    return Profile(
        cpus_per_gpu=grid,
        memory_bytes_per_gpu=columns,
        relative_speed=tuple(tuple(round(speed / at_share, 4) for speed in row) for row in speeds),
    )


def _counts(rates: Mapping[float, float]) -> tuple[float, ...]:
    """Return the rows: each whole count up to the most measured, or the measured ones alone where those are many."""
    most = max(rates)
    whole = [float(count) for count in range(1, int(most) + 1)] if most <= MOST_ROWS else []
    return tuple(sorted({*whole, *rates}))


def _columns(working_bytes: float, reading: Reading, *, fastest: float) -> tuple[float, ...]:
    """Return the columns: tenths of the dataset, and the least cache behind which reading holds nothing up."""
    steps = reading.dataset_bytes / reading.bytes_per_step
    enough = enough_cache_bytes(prep_s=steps / fastest, dataset_bytes=reading.dataset_bytes, storage=reading.storage)
    caches = {reading.dataset_bytes * tenth / CACHE_STEPS for tenth in range(CACHE_STEPS + 1)}
    caches.add(min(enough, reading.dataset_bytes))
    return tuple(working_bytes + cache for cache in sorted(caches))


def _speed(rate: float, cache_bytes: float, reading: Reading | None) -> float:
    if reading is None:
        return rate
    steps = reading.dataset_bytes / reading.bytes_per_step
    return steps / epoch_s(
        prep_s=steps / rate, dataset_bytes=reading.dataset_bytes, cache_bytes=cache_bytes, storage=reading.storage
    )


def not_below(profile: Profile, memory_bytes: float) -> Profile:
    """Return the profile of a job that is given no less than this per GPU, whatever it was seen to use."""
    columns = (memory_bytes, *(memory for memory in profile.memory_bytes_per_gpu if memory > memory_bytes))
    speeds = tuple(
        tuple(sensitivity(profile, cpus_per_gpu=cpus, memory_bytes_per_gpu=memory) for memory in columns)
        for cpus in profile.cpus_per_gpu
    )
    return Profile(cpus_per_gpu=profile.cpus_per_gpu, memory_bytes_per_gpu=columns, relative_speed=speeds)
