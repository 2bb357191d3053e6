"""The time model of MinIO: how long epochs take behind a cache, and how much cache is enough."""

import math
from random import Random

import pytest

from benchmarks.models.cache import MinIo, Pipeline, epoch_by_items_s
from benchmarks.models.cache_times import lru_hit_frac, run_s, stalls
from scheduler.core.performance.cache_model import (
    Storage,
    enough_cache_bytes,
    epoch_s,
    fetch_s,
)

GB = 1e9
IMAGENET_BYTES = 146 * GB
SSD = Storage(memory_bytes_per_s=10 * GB, disk_bytes_per_s=0.5 * GB)


@pytest.mark.parametrize(("cache_gb", "seconds", "speed"), [(0, 292.0, 0.685), (20.83, 252.4, 0.792), (62.5, 173.2, 1)])
def test_fetch_time_of_a_resnet18_like_job(cache_gb: float, seconds: float, speed: float) -> None:
    """146 GB behind a 500 MB/s disk and 200 s of preparing: the worked figures of the time model."""
    size = cache_gb * GB

    assert fetch_s(dataset_bytes=IMAGENET_BYTES, cache_bytes=size, storage=SSD) == pytest.approx(seconds, abs=0.06)
    whole = epoch_s(prep_s=200.0, dataset_bytes=IMAGENET_BYTES, cache_bytes=size, storage=SSD)
    assert 200.0 / whole == pytest.approx(speed, abs=5e-4)


def test_memory_beyond_the_needed_cache_is_worthless() -> None:
    """The least cache without a stall is 48.42 GB: full speed just above, less just below."""
    enough = enough_cache_bytes(prep_s=200.0, dataset_bytes=IMAGENET_BYTES, storage=SSD)

    assert enough / GB == pytest.approx(48.42, abs=0.005)
    for cache_gb, is_full_speed in ((48.43, True), (48.41, False)):
        whole = epoch_s(prep_s=200.0, dataset_bytes=IMAGENET_BYTES, cache_bytes=cache_gb * GB, storage=SSD)
        assert (whole == 200.0) is is_full_speed


def test_no_cache_is_needed_behind_a_fast_disk_and_none_is_enough_behind_slow_memory() -> None:
    """The needed cache is 0 when the disk keeps up alone and infinite when memory does not."""
    assert enough_cache_bytes(prep_s=300.0, dataset_bytes=IMAGENET_BYTES, storage=SSD) == 0.0
    assert enough_cache_bytes(prep_s=14.0, dataset_bytes=IMAGENET_BYTES, storage=SSD) == math.inf


def test_every_cold_start_costs_an_epoch_from_disk() -> None:
    """Ten epochs with one and with three cold starts: 292 s each instead of 200 s."""

    def seconds(cold_starts: int) -> float:
        return run_s(
            epochs=10,
            cold_starts=cold_starts,
            prep_s=200.0,
            dataset_bytes=IMAGENET_BYTES,
            cache_bytes=62.5 * GB,
            storage=SSD,
        )

    assert seconds(1) == pytest.approx(292.0 + 9 * 200.0)
    assert seconds(3) - seconds(1) == pytest.approx(2 * 92.0)
    assert seconds(99) == pytest.approx(2920.0)


@pytest.mark.parametrize(
    ("cached_frac", "miss_frac"), [(0.2, 0.979), (0.35, 0.930), (0.5, 0.847), (0.65, 0.718), (0.8, 0.523), (0.9, 0.331)]
)
def test_lru_misses_more_than_its_size_says(cached_frac: float, miss_frac: float) -> None:
    """The closed form of LRU's hits gives the table of misses; a cache that never evicts misses 1 - f."""
    tolerance = 0.002  # the table was simulated

    assert 1 - lru_hit_frac(cached_frac) == pytest.approx(miss_frac, abs=tolerance)


def test_lru_with_room_for_all_hits_all() -> None:
    """The closed form has its limits at an empty and at a full cache."""
    assert lru_hit_frac(0.0) == 0.0
    assert lru_hit_frac(1.0) == 1.0


def test_model_is_within_three_percent_of_item_by_item() -> None:
    """Eleven caches times nine core counts: the formula against a reader and cores that meet item by item."""
    items, size_bytes = 3_000, 110_000
    dataset_bytes = items * size_bytes
    shop_prep_s = 0.008
    chance = Random(1)
    for tenth in range(11):
        cache_bytes = dataset_bytes * tenth // 10
        for cores in (1, 3, 6, 9, 12, 24, 36, 48, 64):
            cache = MinIo(cache_bytes)
            order = list(range(items))
            for item in order:
                cache.get(item, size_bytes)
            chance.shuffle(order)
            pipeline = Pipeline(storage=SSD, prep_items_per_s=cores / shop_prep_s)
            seen_s = epoch_by_items_s(cache, order, size_bytes=size_bytes, pipeline=pipeline)
            told_s = epoch_s(
                prep_s=items * shop_prep_s / cores, dataset_bytes=dataset_bytes, cache_bytes=cache_bytes, storage=SSD
            )

            assert seen_s == pytest.approx(told_s, rel=0.03), (tenth, cores)


def test_stalls_are_told_apart() -> None:
    """A GPU that could eat 1000 items, cores that prepare 600 and a disk that gives 450 a second."""
    found = stalls(gpu_items_per_s=1_000.0, prep_items_per_s=600.0, fetch_items_per_s=450.0)

    assert found.speed_items_per_s == 450.0
    assert found.prep_frac == pytest.approx(0.4)
    assert found.fetch_frac == pytest.approx(0.15)
    assert stalls(gpu_items_per_s=10.0, prep_items_per_s=20.0, fetch_items_per_s=30.0).speed_items_per_s == 10.0
