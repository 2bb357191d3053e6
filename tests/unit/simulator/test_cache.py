"""Caches item by item: MinIO hits exactly what it holds, LRU thrashes, servers share."""

from collections import Counter
from fractions import Fraction
from itertools import permutations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.models.cache import ItemSource, Lru, MinIo, Partitioned, misses, misses_by_epoch
from benchmarks.models.cache_times import lru_hit_frac
from scheduler.simulator.draws import Draws

orders = st.integers(1, 40).flatmap(lambda size: st.lists(st.permutations(range(size)), min_size=2, max_size=6))


@given(epochs=orders, capacity=st.integers(0, 45))
def test_warm_epochs_hit_exactly_what_is_cached(epochs: list[list[int]], capacity: int) -> None:
    """Whatever the orders, every epoch after the first hits as many items as the cache holds."""
    cache = MinIo(capacity)
    items = len(epochs[0])

    assert misses(cache, epochs[0]) == items
    held = len(cache)
    assert held == min(capacity, items)
    for order in epochs[1:]:
        assert misses(cache, order) == items - held


def test_a_thousand_random_orders_hit_the_same() -> None:
    """1000 epochs of 200 items behind a cache of 70: 130 misses each."""
    found = misses_by_epoch(MinIo(70), items=200, epochs=1_001, draws=Draws(7, "orders"))

    assert found == [200] + [130] * 1_000


def test_four_items_behind_two_places() -> None:
    """All 24 x 24 pairs of orders: MinIO misses 2; LRU misses 2, 3 or 4 with chance 1/6, 1/2, 1/3, 19/6 on average."""
    minio: Counter[int] = Counter()
    lru: Counter[int] = Counter()
    for first in permutations(range(4)):
        for second in permutations(range(4)):
            never, recent = MinIo(2), Lru(2)
            misses(never, first)
            misses(recent, first)
            minio[misses(never, second)] += 1
            lru[misses(recent, second)] += 1

    assert minio == {2: 576}
    assert {count: Fraction(times, 576) for count, times in lru.items()} == {
        2: Fraction(1, 6),
        3: Fraction(1, 2),
        4: Fraction(1, 3),
    }
    assert Fraction(sum(count * times for count, times in lru.items()), 576) == Fraction(19, 6)


@pytest.mark.parametrize(
    ("cached_frac", "ratio"), [(0.2, 1.22), (0.35, 1.43), (0.5, 1.69), (0.65, 2.05), (0.8, 2.62), (0.9, 3.31)]
)
def test_lru_reads_more_from_disk_than_minio(cached_frac: float, ratio: float) -> None:
    """4000 items: the hits of LRU follow the closed form within .01, its misses are the known multiple of MinIO's."""
    items, epochs = 4_000, 10
    capacity = round(cached_frac * items)
    warm = misses_by_epoch(Lru(capacity), items=items, epochs=epochs + 1, draws=Draws(3, "orders"))[1:]
    miss_frac = sum(warm) / (items * epochs)

    assert 1 - miss_frac == pytest.approx(lru_hit_frac(cached_frac), abs=0.01)
    assert miss_frac / (1 - cached_frac) == pytest.approx(ratio, rel=0.02)


def test_a_page_cache_shared_by_two_jobs_hurts_both_and_private_caches_do_not() -> None:
    """Two jobs of 500 items: sharing 600 places under LRU costs more misses than 300 private places each."""
    chance = Random(5)
    shared = Lru(600)
    by_epoch = []
    for _ in range(6):
        mine, theirs = chance.sample(range(500), 500), chance.sample(range(500, 1_000), 500)
        both = [item for pair in zip(mine, theirs, strict=True) for item in pair]
        by_epoch.append(misses(shared, both))

    assert sum(by_epoch[1:]) / 5 > 1.5 * 2 * 200
    assert misses_by_epoch(MinIo(300), items=500, epochs=2, draws=Draws(5, "orders"))[1] == 200


def test_shrinking_frees_exactly_what_it_says_at_once() -> None:
    """From 10 places to 4: six items leave, the rest stays and is hit; growing fills up within one epoch."""
    cache = MinIo(10)
    misses(cache, range(20))

    assert cache.resize(4) == 6
    assert (cache.used_bytes, len(cache)) == (4, 4)
    assert misses(cache, range(20)) == 16
    assert cache.resize(15) == 0
    assert misses(cache, range(20)) == 16
    assert misses(cache, range(20)) == 5


@given(
    sizes=st.lists(st.integers(1, 30), min_size=1, max_size=30), before=st.integers(0, 200), after=st.integers(0, 200)
)
def test_a_resized_cache_never_holds_more_than_it_may(sizes: list[int], before: int, after: int) -> None:
    """Dropped bytes are those that are gone, whatever the sizes of the items."""
    cache = MinIo(before)
    for item, size_bytes in enumerate(sizes):
        cache.get(item, size_bytes)
    used = cache.used_bytes

    assert used <= before
    assert used - cache.resize(after) == cache.used_bytes <= after


def test_a_small_item_still_goes_in_after_a_large_one_did_not() -> None:
    """Items are of any size; what fits is taken."""
    cache = MinIo(10)
    found = [cache.get(item, size) for item, size in ((0, 6), (1, 5), (2, 4), (0, 6), (1, 5), (2, 4))]

    assert found == [False, False, False, True, False, True]


def test_two_servers_hold_the_whole_set_between_them() -> None:
    """80 places each for 146 items: nothing from disk after the first epoch, half of it from the peer."""
    caches, draws = Partitioned([80, 80]), Draws(2, "shards")
    first = caches.epoch(draws, items=146, servers=(0, 1))
    later = [caches.epoch(draws, items=146, servers=(0, 1)) for _ in range(400)]

    assert first[ItemSource.DISK] == 146
    assert all(found[ItemSource.DISK] == 0 for found in later)
    assert sum(found[ItemSource.PEER] for found in later) / 400 / 2 == pytest.approx(36.5, rel=0.02)


def test_two_servers_apart_read_what_one_cache_misses() -> None:
    """The same servers with caches of their own: each reads 33 of its 73 items from disk."""
    chance = Random(4)
    caches = (MinIo(80), MinIo(80))
    found = 0
    for epoch in range(401):
        order = chance.sample(range(146), 146)
        for cache, part in zip(caches, (order[:73], order[73:]), strict=True):
            read = misses(cache, part)
            found += read if epoch > 5 else 0

    assert found / 395 / 2 == pytest.approx(33.0, rel=0.03)
