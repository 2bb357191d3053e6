"""The dataset cache with real files, processes and DataLoader workers."""

import multiprocessing
import random
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader

from agents.runtime.cache.item_cache import ItemCache
from agents.runtime.cache.reading import cached_frac
from agents.runtime.dataset import CachedDataset
from agents.runtime.errors import EverythingBad, RuntimeMisuse
from benchmarks.models.cache import Lru, misses
from benchmarks.models.cache_times import lru_hit_frac

SIZE = 100  # bytes of an item


class Storage:
    """Items on disk, with a count of reads; picklable for worker processes."""

    def __init__(self, directory: Path, count: int) -> None:
        self.directory = directory
        directory.mkdir()
        self.keys = [f"item-{number}" for number in range(count)]
        for number, key in enumerate(self.keys):
            (directory / key).write_bytes(bytes([number % 256]) * SIZE)
        self.reads = 0
        self.last_read = ""

    def read(self, key: str) -> bytes:
        """Return an item."""
        self.reads += 1
        self.last_read = key
        return (self.directory / key).read_bytes()


def first_byte(content: bytes) -> int:
    """Decode an item; one that begins with 255 is broken."""
    if content[0] == 255:
        raise ValueError("broken item")
    return content[0]


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    """Forty items."""
    return Storage(tmp_path / "storage", 40)


def dataset(
    storage: Storage, tmp_path: Path, *, job: str = "job-1", items: int | None = None, **more: int
) -> CachedDataset[int]:
    """Return the dataset as a job sees it; ``items`` is its budget."""
    environ = {
        "CLUSTERWEB_JOB_ID": job,
        "CLUSTERWEB_CACHE_DIR": str(tmp_path / "memory"),
        "CLUSTERWEB_DATASETS_DIR": str(tmp_path / "datasets"),
        "CLUSTERWEB_MEMORY_BYTES": "5000",
    }
    return CachedDataset(
        name="numbers",
        keys=storage.keys,
        read=storage.read,
        decode=first_byte,
        budget_bytes=None if items is None else items * SIZE,
        environ=environ,
        **more,
    )


def test_cached_share_counts_the_items_of_all_jobs(storage: Storage, tmp_path: Path) -> None:
    """15 of 40 by one job and 5 more by another; a job with datasets tells the share, one without none."""
    assert cached_frac() is None
    first, second = dataset(storage, tmp_path, items=15), dataset(storage, tmp_path, job="job-2", items=5)
    for index in range(len(first)):
        first[index]
    told = cached_frac()
    for index in range(len(second)):
        second[index]

    assert told == 15 / 40  # of both datasets, which share their items
    assert (first.num_cached(), second.num_cached()) == (20, 20)
    assert cached_frac() == 0.5
    first.leave()
    second.leave()
    assert cached_frac() is None


def test_hits_of_an_epoch_are_the_cached_items_in_any_order(storage: Storage, tmp_path: Path) -> None:
    """After the cold epoch, 1,000 random orders each hit exactly the 15 items that are cached."""
    numbers = dataset(storage, tmp_path, items=15)
    order = list(range(40))
    rng = random.Random(1)
    for epoch in range(1_001):
        before = numbers.figures()
        rng.shuffle(order)
        assert [numbers[index] for index in order] == order
        after = numbers.figures()
        assert after.hits - before.hits == (15 if epoch else 0)
        assert after.misses - before.misses == (25 if epoch else 40)
    assert numbers.figures().used_bytes == 15 * SIZE
    numbers.leave()


@pytest.mark.parametrize("cached_frac", [0.2, 0.35, 0.5, 0.65, 0.8, 0.9])
def test_storage_is_read_for_what_is_not_cached_and_by_an_lru_for_more(tmp_path: Path, cached_frac: float) -> None:
    """Random orders: the share that is not cached is read, exactly; as a page cache would, 1.2 to 3.3 times as much."""
    storage = Storage(tmp_path / "many", 250)
    budget, epochs, rng = round(250 * cached_frac), 20, random.Random(2)
    numbers, lru = dataset(storage, tmp_path, items=budget), Lru(budget)
    order, lru_reads = list(range(250)), []
    for _ in range(1 + epochs):
        assert [numbers[index] for index in order] == order
        lru_reads.append(misses(lru, order))
        rng.shuffle(order)
    numbers.leave()

    assert storage.reads == 250 + epochs * (250 - budget)
    assert sum(lru_reads[1:]) / (epochs * 250) == pytest.approx(1 - lru_hit_frac(cached_frac), abs=0.02)


def test_budget_is_the_granted_memory_less_what_the_training_needs(storage: Storage, tmp_path: Path) -> None:
    """5,000 bytes granted, 2,000 for the training: 30 items of 100 bytes."""
    numbers = dataset(storage, tmp_path, working_bytes=2_000)

    assert [numbers[index] for index in range(40)] == list(range(40))
    assert numbers.figures().used_bytes == 3_000
    numbers.leave()


def test_shrinking_frees_at_once_and_growing_fills_in_one_epoch(storage: Storage, tmp_path: Path) -> None:
    """The bytes said to be freed are gone from memory; a larger budget is used after one epoch."""
    numbers = dataset(storage, tmp_path, items=30)
    for index in range(40):
        numbers[index]

    assert numbers.resize(10 * SIZE) == 20 * SIZE
    assert len(list((tmp_path / "memory/numbers/items").iterdir())) == 10
    assert numbers.resize(35 * SIZE) == 0
    for index in range(40):
        numbers[index]
    assert numbers.figures().used_bytes == 35 * SIZE
    numbers.leave()


def test_two_jobs_share_items_and_each_pays_for_what_it_brought(storage: Storage, tmp_path: Path) -> None:
    """The second job reads what the first has cached from memory, and is charged only for its own."""
    first, second = dataset(storage, tmp_path, items=10), dataset(storage, tmp_path, job="job-2", items=20)
    for index in range(40):
        first[index]
    reads = storage.reads
    for index in range(40):
        second[index]

    assert second.figures().hits == 10
    assert storage.reads - reads == 30
    assert (first.figures().used_bytes, second.figures().used_bytes) == (10 * SIZE, 20 * SIZE)
    first.leave()
    assert second.figures().used_bytes == 20 * SIZE  # it had no room for more
    assert len(list((tmp_path / "memory/numbers/items").iterdir())) == 20
    second.leave()
    assert list((tmp_path / "memory/numbers/items").iterdir()) == []


def test_what_a_leaving_job_paid_goes_to_one_with_room(storage: Storage, tmp_path: Path) -> None:
    """Items stay in memory when another owner can pay for them."""
    first, second = dataset(storage, tmp_path, items=10), dataset(storage, tmp_path, job="job-2", items=25)
    for index in range(40):
        first[index]
    first.leave()

    assert second.figures().used_bytes == 10 * SIZE
    reads = storage.reads
    for index in range(40):
        second[index]
    assert storage.reads - reads == 30
    second.leave()


def _fill_and_die(storage: Storage, tmp_path: Path) -> None:
    numbers = dataset(storage, tmp_path, job="killed", items=10)
    for index in range(40):
        numbers[index]


def test_items_of_a_killed_job_are_taken_over(storage: Storage, tmp_path: Path) -> None:
    """A process that ended without leaving holds memory only until the next job looks."""
    process = multiprocessing.get_context("fork").Process(target=_fill_and_die, args=(storage, tmp_path))
    process.start()
    process.join()
    assert len(list((tmp_path / "memory/numbers/items").iterdir())) == 10

    numbers = dataset(storage, tmp_path, job="next", items=4)

    assert numbers.figures().used_bytes == 4 * SIZE
    assert len(list((tmp_path / "memory/numbers/items").iterdir())) == 4
    assert not (tmp_path / "memory/numbers/owners/killed").exists()
    numbers.leave()


@pytest.mark.parametrize("workers", [0, 2])
def test_workers_of_a_loader_share_one_budget(storage: Storage, tmp_path: Path, workers: int) -> None:
    """Two worker processes fill one cache, and later epochs hit exactly what is in it."""
    numbers = dataset(storage, tmp_path, items=12)
    torch.manual_seed(1)
    loader = DataLoader(numbers, batch_size=8, shuffle=True, num_workers=workers)
    for epoch in range(3):
        before = numbers.figures()
        seen = sorted(value for batch in loader for value in batch.tolist())
        assert seen == list(range(40))
        assert numbers.figures().hits - before.hits == (12 if epoch else 0)
    assert numbers.figures().used_bytes == 12 * SIZE
    numbers.leave()


def test_bad_items_are_left_out_listed_and_shared(storage: Storage, tmp_path: Path) -> None:
    """A broken and a missing item are replaced by the next good one; a second job never reads them again."""
    (storage.directory / "item-7").write_bytes(b"\xff" * SIZE)
    (storage.directory / "item-8").unlink()
    first = dataset(storage, tmp_path, items=40)
    assert [first[index] for index in (6, 7, 8, 9)] == [6, 9, 9, 9]
    second = dataset(storage, tmp_path, job="job-2", items=0)
    storage.last_read = ""

    assert second[7] == 9
    assert storage.last_read == ""  # item 9 is in the cache, items 7 and 8 were not even tried
    assert second.bad_keys == ["item-7", "item-8"]
    first.leave()
    second.leave()


def test_dataset_without_a_good_item_says_so(storage: Storage, tmp_path: Path) -> None:
    """No endless loop over broken items."""
    for path in storage.directory.iterdir():
        path.unlink()
    numbers = dataset(storage, tmp_path, items=1)

    with pytest.raises(EverythingBad, match=r"bad\.jsonl"):
        numbers[0]
    numbers.leave()


def test_one_main_process_a_job(tmp_path: Path) -> None:
    """Two processes that both set the budget of one owner are a mistake."""
    cache = ItemCache(tmp_path, owner="job", budget_bytes=10)

    with pytest.raises(RuntimeMisuse, match="main process"):
        ItemCache(tmp_path, owner="job", budget_bytes=10)
    cache.leave()
