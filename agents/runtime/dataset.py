"""A dataset that caches raw items in the granted memory of the job and skips bad items.

    from agents.runtime.dataset import CachedDataset

    photos = CachedDataset(name="photos", keys=paths, read=lambda path: Path(path).read_bytes(), decode=to_tensor)
    loader = torch.utils.data.DataLoader(photos, batch_size=64, shuffle=True, num_workers=4)

From the second epoch on the hits of an epoch are the items in the cache, exactly, in whatever order they are read. What
``decode`` makes of an item is never kept: random augmentation must be drawn anew.
"""

import json
import os
import re
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from torch.utils.data import Dataset

from agents.runtime.cache.item_cache import CacheFigures, ItemCache
from agents.runtime.environment import JobEnvironment
from agents.runtime.errors import EverythingBad, MainProcessTaken
from agents.runtime.reports import say

Item = TypeVar("Item")
# Datasets that this process has open; looked through when the grant changes and when reads are counted.
_OPEN: "weakref.WeakSet[CachedDataset[Any]]" = weakref.WeakSet()
_BAD_READ_EVERY = 256  # items between two looks at what others found to be bad


class CachedDataset(Dataset[Item]):
    """Items by key, read and decoded on demand."""

    def __init__(
        self,
        *,
        name: str,
        keys: Sequence[str],
        read: Callable[[str], bytes],
        decode: Callable[[bytes], Item],
        budget_bytes: int | None = None,
        working_bytes: int = 1 << 30,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """Join the cache of the dataset on this server.

        Args:
            name: Name of the dataset; jobs that give the same name share its items and its list of bad ones.
            keys: What ``read`` takes, one for each item.
            read: Returns the raw bytes of an item; what it raises makes the item a bad one.
            decode: Makes of the bytes what the training sees; what it raises makes the item a bad one.
            budget_bytes: Memory for raw items; None for the granted memory less ``working_bytes``.
            working_bytes: Memory that the training itself needs.
            environ: Where the CLUSTERWEB_ variables are read from; None = the environment of the process.
        """
        job = JobEnvironment.parse(os.environ if environ is None else environ)
        self._working_bytes = working_bytes if budget_bytes is None else None  # None: the budget is the caller's affair
        if budget_bytes is None:
            budget_bytes = max(0, (job.memory_bytes or 0) - working_bytes)
        self._name, self._keys, self._read, self._decode = name, list(keys), read, decode
        self._directory = job.cache_dir / folder_of(name)
        self._owner = job.owner or f"process-{os.getpid()}"
        try:
            self._cache: ItemCache | None = ItemCache(self._directory, owner=self._owner, budget_bytes=budget_bytes)
        except MainProcessTaken:  # another rank of its gang on this server, which pays for all of them
            self._cache = ItemCache(self._directory, owner=self._owner)
            self._working_bytes = None
        _OPEN.add(self)
        self._main_pid = os.getpid()
        self._bad_file = job.datasets_dir / folder_of(name) / "bad.jsonl"
        self._bad: set[str] = set()
        self._until_look = 0

    def __len__(self) -> int:
        """Return the number of items, bad ones included, so that every rank counts alike."""
        return len(self._keys)

    def __getitem__(self, index: int) -> Item:
        """Return the item, or the next good one where it is bad."""
        self._look_at_bad()
        for step in range(len(self._keys)):
            key = self._keys[(index + step) % len(self._keys)]
            if key in self._bad:
                continue
            try:
                content = self._here().get(key, partial(self._read, key))
                began_ns = time.perf_counter_ns()
                item = self._decode(content)
                self._here().decoded(took_ns=time.perf_counter_ns() - began_ns)
                return item
            except Exception as error:
                self._mark_bad(key, error)
        raise EverythingBad(f"dataset {self._name} has no item that can be read; see {self._bad_file}")

    def __getstate__(self) -> dict[str, Any]:
        """Let a worker process open the cache itself."""
        return {**self.__dict__, "_cache": None}

    @property
    def bad_keys(self) -> list[str]:
        """Keys that were left out, as far as this process knows."""
        return sorted(self._bad)

    def figures(self) -> CacheFigures:
        """Return budget, use, hits and misses of this job on this server."""
        return self._here().figures()

    def total_bytes(self) -> int:
        """Return the bytes of all items, by the mean of those read so far; 0 before the first."""
        read = self.figures()
        count = read.hits + read.misses
        return (read.hit_bytes + read.miss_bytes) * len(self._keys) // count if count else 0

    def num_cached(self) -> int:
        """Return how many of its items are in the memory of this server, paid for by any owner."""
        return min(len(self._keys), self._here().num_items())

    def resize(self, budget_bytes: int) -> int:
        """Change the memory for raw items while training; return the bytes freed."""
        return self._here().resize(budget_bytes)

    def follow(self, memory_bytes: int) -> int:
        """Fit the budget to a changed grant, unless the script chose its own; return the bytes freed."""
        return 0 if self._working_bytes is None else self.resize(max(0, memory_bytes - self._working_bytes))

    def leave(self) -> None:
        """Hand the items over to other jobs; call it at the end of the training."""
        _OPEN.discard(self)
        self._here().leave()
        self._cache = None

    def _here(self) -> ItemCache:
        """Return the cache opened by this process: a fork must not share its parent's locks."""
        if self._cache is None or os.getpid() != self._main_pid:
            self._main_pid = os.getpid()
            self._cache = ItemCache(self._directory, owner=self._owner)
        return self._cache

    def _look_at_bad(self) -> None:
        self._until_look -= 1
        if self._until_look > 0:
            return
        self._until_look = _BAD_READ_EVERY
        if self._bad_file.exists():
            for line in self._bad_file.read_text(encoding="utf-8").splitlines():
                try:
                    self._bad.add(json.loads(line)["key"])
                except (ValueError, KeyError):
                    continue  # half a line: its writer is at it, or died

    def _mark_bad(self, key: str, error: Exception) -> None:
        self._bad.add(key)
        entry = {"key": key, "error": f"{type(error).__name__}: {error}"[:300], "job": self._owner}
        try:
            self._bad_file.parent.mkdir(parents=True, exist_ok=True)
            with self._bad_file.open(
                "a", encoding="utf-8"
            ) as file:  # one write a line: appends of others do not mix in
                file.write(json.dumps(entry) + "\n")
        except OSError as trouble:
            say(f"dataset {self._name}: others are not told of bad items: {trouble}")
        say(f"dataset {self._name}: left out {key}: {entry['error']}")


def open_datasets() -> "list[CachedDataset[Any]]":
    """Return the datasets that this process opened and has not left."""
    return list(_OPEN)


def folder_of(name: str) -> str:
    """Return a dataset's name as a folder's."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", name).lstrip(".") or "dataset"
