"""The dataset cache with real files and the real wrapper, beside a least-recently-used cache of the same size."""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from agents.files.cache_owners import owner_bytes, sweep
from agents.runtime.dataset import CachedDataset
from benchmarks.models.cache import Lru
from benchmarks.models.cache_times import lru_hit_frac
from benchmarks.runtime.figure import Figure

TITLE = "Dataset cache (MinIO)"
ITEM_BYTES = 4096
ITEMS, WARM_EPOCHS = 4_000, 10
ORDERS, ORDER_ITEMS, ORDER_CACHED = 1_000, 200, 70
FRACTIONS = (0.2, 0.35, 0.5, 0.65, 0.8, 0.9)


class Storage:
    """Items in files, and how many bytes were read of them."""

    def __init__(self, folder: Path, count: int) -> None:
        folder.mkdir()
        self._folder = folder
        self.keys = [f"{number:05}" for number in range(count)]
        for key in self.keys:
            (folder / key).write_bytes(os.urandom(ITEM_BYTES))
        self.read_bytes = 0

    def read(self, key: str) -> bytes:
        """Return an item from its file."""
        content = (self._folder / key).read_bytes()
        self.read_bytes += len(content)
        return content


def figures() -> list[Figure]:
    """Measure all."""
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        return [_orders(at), *_against_lru(at), _second_job(at), _smaller_budget(at), _dead_owner(at)]


def _dataset(at: Path, storage: Storage, *, owner: str, cached: int) -> CachedDataset[bytes]:
    environ = {
        "CLUSTERWEB_ATTEMPT_ID": owner,
        "CLUSTERWEB_CACHE_DIR": str(at / "cache"),
        "CLUSTERWEB_DATASETS_DIR": str(at / "datasets"),
    }
    return CachedDataset(
        name="items",
        keys=storage.keys,
        read=storage.read,
        decode=bytes,
        budget_bytes=cached * ITEM_BYTES,
        environ=environ,
    )


def _epoch(dataset: CachedDataset[bytes], chance: random.Random) -> None:
    order = list(range(len(dataset)))
    chance.shuffle(order)
    for index in order:
        dataset[index]


def _orders(at: Path) -> Figure:
    storage = Storage(at / "orders", ORDER_ITEMS)
    dataset, chance, wrong = _dataset(at, storage, owner="orders", cached=ORDER_CACHED), random.Random(1), 0
    _epoch(dataset, chance)
    for _ in range(ORDERS):
        before = dataset.figures().hits
        _epoch(dataset, chance)
        wrong += dataset.figures().hits - before != ORDER_CACHED
    dataset.leave()
    return Figure(
        name="epochs whose hits were not the predicted number",
        target="0",
        value=f"{wrong} of {ORDERS}",
        is_met=wrong == 0,
        setting=f"{ORDER_ITEMS} files, {ORDER_CACHED} cached, {ORDERS} random orders after the cold epoch",
    )


def _against_lru(at: Path) -> list[Figure]:
    storage, found = Storage(at / "lru", ITEMS), []
    for cached_frac in FRACTIONS:
        cached = round(cached_frac * ITEMS)
        ours, lru = _warm_misses(at, storage, cached), _lru_misses(storage, cached)
        predicted = 1 - lru_hit_frac(cached_frac)
        found.append(
            Figure(
                name=f"share of the bytes read from storage, {cached_frac:.0%} cached",
                target=f"{1 - cached_frac:.2f}, LRU {predicted:.3f}",
                value=f"{ours:.2f}, LRU {lru:.3f} ({lru / ours:.2f}x)",
                is_met=abs(ours - (1 - cached_frac)) < 1e-9 and abs(lru - predicted) < 0.02,
                setting=f"{ITEMS} files of 4 KiB, {WARM_EPOCHS} epochs after the cold one, which is left out",
                note="LRU keeps the same bytes in the same process; the page cache of a kernel does no better.",
            )
        )
    return found


def _warm_misses(at: Path, storage: Storage, cached: int) -> float:
    dataset, chance = _dataset(at, storage, owner=f"ours-{cached}", cached=cached), random.Random(2)
    _epoch(dataset, chance)
    storage.read_bytes = 0
    for _ in range(WARM_EPOCHS):
        _epoch(dataset, chance)
    dataset.leave()
    return storage.read_bytes / (WARM_EPOCHS * ITEMS * ITEM_BYTES)


def _lru_misses(storage: Storage, cached: int) -> float:
    cache, chance, order = Lru(cached * ITEM_BYTES), random.Random(2), list(range(ITEMS))
    for epoch in range(1 + WARM_EPOCHS):
        if epoch == 1:
            storage.read_bytes = 0
        chance.shuffle(order)
        for item in order:
            if not cache.get(item, ITEM_BYTES):
                storage.read(storage.keys[item])
    return storage.read_bytes / (WARM_EPOCHS * ITEMS * ITEM_BYTES)


def _second_job(at: Path) -> Figure:
    storage, chance = Storage(at / "second", ITEMS), random.Random(3)
    first = _dataset(at, storage, owner="first", cached=ITEMS // 2)
    _epoch(first, chance)
    second = _dataset(at, storage, owner="second", cached=ITEMS // 2)
    storage.read_bytes = 0
    _epoch(second, chance)
    cold, paid = storage.read_bytes // ITEM_BYTES, owner_bytes(at / "cache", "first") // ITEM_BYTES
    storage.read_bytes = 0
    _epoch(first, chance)
    warm = storage.read_bytes // ITEM_BYTES
    second.leave()
    first.leave()
    return Figure(
        name="items from storage for a second job of the same dataset: its first epoch, then any later one",
        target=f"{ITEMS // 2}, then 0",
        value=f"{cold}, then {warm}",
        is_met=(cold, warm, paid) == (ITEMS // 2, 0, ITEMS // 2),
        setting="each of two jobs pays for half of the items",
        note=f"The first one still pays for its own {paid} items and for none of the other's.",
    )


def _smaller_budget(at: Path) -> Figure:
    storage, chance = Storage(at / "smaller", ITEMS), random.Random(4)
    dataset = _dataset(at, storage, owner="smaller", cached=800)
    _epoch(dataset, chance)
    began_s = time.perf_counter()
    freed = dataset.resize(300 * ITEM_BYTES)
    took_ms = 1000 * (time.perf_counter() - began_s)
    paid = owner_bytes(at / "cache", "smaller")
    dataset.leave()
    return Figure(
        name="bytes given back when the budget shrinks from 800 to 300 items while training",
        target=f"{500 * ITEM_BYTES}",
        value=f"{freed} in {took_ms:.0f} ms",
        is_met=freed == 500 * ITEM_BYTES and paid == 300 * ITEM_BYTES,
        setting="at once, before the next item is read",
    )


def _dead_owner(at: Path) -> Figure:
    script = (
        "import sys, time; from pathlib import Path; from agents.runtime.cache.item_cache import ItemCache\n"
        "cache = ItemCache(Path(sys.argv[1]), owner='killed', budget_bytes=10**9)\n"
        "for n in range(500): cache.get(str(n), lambda: b'x' * 4096)\n"
        "print('full', flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", script, str(at / "cache" / "items")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        before = owner_bytes(at / "cache", "killed")
        process.send_signal(signal.SIGKILL)
        process.wait()
    sweep(at / "cache")
    after = owner_bytes(at / "cache", "killed") + sum(1 for _ in (at / "cache" / "items" / "items").iterdir())
    return Figure(
        name="bytes of a job that was killed: before and after its supervisor looks",
        target="0 after",
        value=f"{before}, then {after}",
        is_met=before == 500 * 4096 and after == 0,
        setting="kill -9 with 500 items cached",
    )
