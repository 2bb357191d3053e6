"""Raw items of a dataset in shared memory: one copy a server, filled until the budget is used, never evicted (MinIO).

All processes of a server that read the same dataset share a directory. An item is one file, and a hard link to it in
the folder of the owner that pays for it; so all counts are on disk, and a process that dies leaves none that is
wrong. When an owner leaves, its items go to others with room in their budgets, else they are deleted.

Source: Mohan et al., "Analyzing and mitigating data stalls in DNN training", VLDB 2021. Differs: the cache is shared by
jobs of one server, each charged for what it brought in.
"""

import hashlib
import mmap
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from agents.files.cache_owners import (
    ACCOUNT,
    ACCOUNT_FILE,
    ALIVE_FILE,
    FIELDS,
    drop,
    hand_over,
    hold,
    links,
    lock,
    sweep_dataset,
)
from agents.runtime.errors import MainProcessTaken


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheFigures:
    """What an owner has of the cache.

    Attributes:
        budget_bytes: Most it may pay for.
        used_bytes: What it pays for.
        hits: Reads of its processes that found the item.
        misses: Reads that did not.
        hit_bytes, hit_s: Of all hits: bytes, and seconds that the reading processes spent, in sum.
        miss_bytes, miss_s: The same of all misses.
        decode_s: Seconds that they spent on decoding items, in sum.
    """

    budget_bytes: int
    used_bytes: int
    hits: int
    misses: int
    hit_bytes: int
    hit_s: float
    miss_bytes: int
    miss_s: float
    decode_s: float


class ItemCache:
    """The cache of one dataset as one owner (a job on this server) sees it.

    Open it in the main process of the job; workers of a DataLoader that are forked or spawned later open their own with
    the same owner. The owner leaves with ``leave``, or when another owner finds its main process gone.
    """

    def __init__(self, directory: Path, *, owner: str, budget_bytes: int | None = None) -> None:
        """Join the cache.

        Args:
            directory: Folder of the dataset in shared memory, the same for all jobs that read it.
            owner: Name of the job, unique on the server.
            budget_bytes: Bytes it may pay for; None to use what its main process has set.
        """
        self._items = directory / "items"
        self._mine = directory / "owners" / owner
        self._dataset = directory
        self._owner = owner
        for folder in (self._items, self._mine):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = os.open(self._mine / ACCOUNT_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if os.fstat(file).st_size < ACCOUNT.size:
            os.ftruncate(file, ACCOUNT.size)
        self._account = mmap.mmap(file, ACCOUNT.size)
        self._lock_file = file
        self._threads = threading.Lock()
        self._alive: int | None = None
        if budget_bytes is not None:
            self._alive = hold(self._mine / ALIVE_FILE)
            if self._alive is None:
                raise MainProcessTaken(f"another process is already the main process of {owner} in {directory}")
            self.resize(budget_bytes)
            sweep_dataset(directory, but=self._mine)

    def get(self, key: str, read: Callable[[], bytes]) -> bytes:
        """Return the raw item ``key``: from the cache, else by ``read``; keep it while the budget has room."""
        name = hashlib.sha256(key.encode()).hexdigest()
        began_ns = time.perf_counter_ns()
        try:
            content = (self._items / name).read_bytes()
        except FileNotFoundError:
            content = read()
            self._admit(name, content, took_ns=time.perf_counter_ns() - began_ns)
            return content
        took_ns = time.perf_counter_ns() - began_ns
        with self._locked():
            self._count(hits=1, hit_bytes=len(content), hit_ns=took_ns)
        return content

    def figures(self) -> CacheFigures:
        """Return budget, use, hits and misses."""
        account = dict(zip(FIELDS, ACCOUNT.unpack_from(self._account), strict=True))
        return CacheFigures(
            budget_bytes=account["budget"],
            used_bytes=account["used"],
            hits=account["hits"],
            misses=account["misses"],
            hit_bytes=account["hit_bytes"],
            hit_s=account["hit_ns"] / 1e9,
            miss_bytes=account["miss_bytes"],
            miss_s=account["miss_ns"] / 1e9,
            decode_s=account["decode_ns"] / 1e9,
        )

    def num_items(self) -> int:
        """Return how many items of the dataset are cached on this server."""
        return len(os.listdir(self._items))

    def decoded(self, *, took_ns: int) -> None:
        """Note how long it took to decode an item."""
        with self._locked():
            self._count(decode_ns=took_ns)

    def resize(self, budget_bytes: int) -> int:
        """Set the budget; return the bytes freed. What does not fit any more goes at once, highest hash first."""
        with self._locked():
            counts = ACCOUNT.unpack_from(self._account)[2:]
            paid = {entry.name: entry.stat().st_size for entry in links(self._mine)}
            used = sum(paid.values())
            freed = 0
            for name in sorted(paid, reverse=True):
                if used - freed <= budget_bytes:
                    break
                drop(self._dataset, self._mine, name)
                freed += paid[name]
            ACCOUNT.pack_into(self._account, 0, budget_bytes, used - freed, *counts)
        return freed

    def leave(self) -> None:
        """Stop paying: items go to other owners with room, else they are deleted."""
        hand_over(self._dataset, self._mine)
        self.close()

    def close(self) -> None:
        """Close the files; the owner goes on paying while its main process lives."""
        self._account.close()
        os.close(self._lock_file)
        if self._alive is not None:
            os.close(self._alive)
            self._alive = None

    def _admit(self, name: str, content: bytes, *, took_ns: int) -> None:
        with self._locked():
            budget, used = ACCOUNT.unpack_from(self._account)[:2]
            self._count(misses=1, miss_bytes=len(content), miss_ns=took_ns)
            if used + len(content) > budget:
                return
            partial = self._mine / f".{uuid.uuid4().hex}"
            try:
                partial.write_bytes(content)
                os.link(partial, self._items / name)
                partial.rename(self._mine / name)
            except FileExistsError:
                return  # another owner was faster, and pays
            except OSError:
                return  # the memory of the server is full; the item is read again next time
            finally:
                partial.unlink(missing_ok=True)
            self._count(used=len(content))

    def _count(self, **more: int) -> None:
        """Add to fields of the account."""
        account = dict(zip(FIELDS, ACCOUNT.unpack_from(self._account), strict=True))
        ACCOUNT.pack_into(self._account, 0, *(value + more.get(name, 0) for name, value in account.items()))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock against other processes and threads of this owner."""
        with self._threads, lock(self._lock_file):
            yield
