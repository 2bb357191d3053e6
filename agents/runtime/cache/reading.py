"""Dataset reads of a job: fits caches to its memory and, while it is measured, counts its waits for storage.

With all items in memory it would not wait; so speeds by core count are reported without the waiting, and the scheduler
models memory from the rate of storage.
"""

import os
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing import active_children
from typing import Any

# Readers that are busier than this with reading and decoding hold the training up.
BUSY_FRAC = 0.9
_CPU_CLOCK = 2  # of a process, all its threads: Linux, CPUCLOCK_SCHED


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """What was read of all datasets, and what it took.

    Attributes:
        hit_bytes, hit_s: Of items in the cache: bytes, and seconds summed over the processes that read.
        miss_bytes, miss_s: The same of items from storage.
        decode_s: Seconds of decoding, likewise.
        own_cpu_s: Time on cores of the main process.
        readers_cpu_s: The same of all processes that it started.
    """

    hit_bytes: int = 0
    hit_s: float = 0.0
    miss_bytes: int = 0
    miss_s: float = 0.0
    decode_s: float = 0.0
    own_cpu_s: float = 0.0
    readers_cpu_s: float = 0.0

    @property
    def busy_s(self) -> float:
        """Return the seconds that the readers were at work."""
        return self.hit_s + self.miss_s + self.decode_s


@dataclass(frozen=True, slots=True, kw_only=True)
class _Point:
    """What has been seen at one core count.

    Attributes:
        cores: How many.
        since_s, before: When it began, and what had been read by then.
        storage_s: How long of it items came from storage.
    """

    cores: int
    since_s: float
    before: Read
    storage_s: float = 0.0


class Reading:
    """Follows the datasets of this process from step to step of a measurement.

    Attributes:
        readers: Processes that it has started.
    """

    def __init__(self, now_s: float) -> None:
        """Begin at ``now_s``."""
        self.readers = 0
        self._began = self._last = _read()
        self._last_s = now_s
        self._point = _Point(cores=0, since_s=now_s, before=self._began)
        self._earlier_s = self._stalled_s = 0.0
        self._most_missed_bytes, self._storage_bytes_per_s = 0, 0.0
        self._steps = 0

    def step(self, now_s: float, *, cores: int) -> float:
        """Take note of the end of a step on so many cores; return how long all steps so far waited for storage."""
        self._steps += 1
        self.readers = len(active_children())
        after = _read()
        if cores != self._point.cores:
            self._point, self._earlier_s = _Point(cores=cores, since_s=now_s, before=after), self._stalled_s
        elif after.miss_bytes > self._last.miss_bytes:
            self._point = replace(self._point, storage_s=self._point.storage_s + now_s - self._last_s)
            self._note_storage(after)
        self._last, self._last_s = after, now_s
        self._stalled_s = max(self._stalled_s, self._earlier_s + self._stall_s(now_s, after))
        return self._stalled_s

    def _note_storage(self, after: Read) -> None:
        """Believe the point in which most came from storage: there it had most to do.

        Readers that wait side by side for a storage that is busy get its rate together; one at a time, each gets it.
        """
        missed_bytes = after.miss_bytes - self._point.before.miss_bytes
        if missed_bytes >= self._most_missed_bytes:
            self._most_missed_bytes = missed_bytes
            waited_s = after.miss_s - self._point.before.miss_s
            self._storage_bytes_per_s = missed_bytes / max(min(self._point.storage_s, waited_s), 1e-9)

    def _stall_s(self, now_s: float, after: Read) -> float:
        """Return how long this point waited for storage.

        What readers wait while others of them keep the cores busy is no loss: steps never take less than the work of
        all processes takes on these cores.
        """
        before, cores = self._point.before, self._point.cores
        passed_s, waited_s = now_s - self._point.since_s, after.miss_s - before.miss_s
        if not self.readers:
            return waited_s
        if after.busy_s - before.busy_s < BUSY_FRAC * self.readers * passed_s:
            return 0.0  # the readers are ahead: their waits for storage delayed no step
        readers_s, own_s = after.readers_cpu_s - before.readers_cpu_s, after.own_cpu_s - before.own_cpu_s
        working_s = max(readers_s / min(cores, self.readers), (readers_s + own_s) / cores)
        return max(0.0, min(waited_s / self.readers, passed_s - working_s))

    def told(self) -> dict[str, float]:
        """Return what the measured steps read, by the names of the record."""
        datasets, after = _datasets(), self._last
        read_bytes = after.hit_bytes + after.miss_bytes - self._began.hit_bytes - self._began.miss_bytes
        if not self._storage_bytes_per_s or read_bytes <= 0:
            return {}
        found = {
            "read_bytes_per_step": read_bytes / self._steps,
            "dataset_bytes": float(sum(dataset.total_bytes() for dataset in datasets)),
            "disk_bytes_per_s": self._storage_bytes_per_s,
            "cache_bytes": float(sum(dataset.figures().used_bytes for dataset in datasets)),
        }
        if after.hit_s > 0:  # each reader waits for itself alone
            found["memory_bytes_per_s"] = max(1, self.readers) * after.hit_bytes / after.hit_s
        return found


def cached_frac() -> float | None:
    """Return the share of the items of all datasets that is in memory on this server; None without datasets."""
    datasets = _datasets()
    total = sum(len(dataset) for dataset in datasets)
    return sum(dataset.num_cached() for dataset in datasets) / total if total else None


def follow_memory(memory_bytes: int) -> None:
    """Fit the caches of all datasets to the memory that is granted now."""
    for dataset in _datasets():
        dataset.follow(memory_bytes)


def _datasets() -> list[Any]:
    """Return the cached datasets of this process; their module needs torch and is not imported for this."""
    module = sys.modules.get("agents.runtime.dataset")
    return [] if module is None else list(module.open_datasets())


def _read() -> Read:
    figures = [dataset.figures() for dataset in _datasets()]
    if not figures:
        return Read()
    return Read(
        hit_bytes=sum(one.hit_bytes for one in figures),
        hit_s=sum(one.hit_s for one in figures),
        miss_bytes=sum(one.miss_bytes for one in figures),
        miss_s=sum(one.miss_s for one in figures),
        decode_s=sum(one.decode_s for one in figures),
        own_cpu_s=time.process_time(),
        readers_cpu_s=_children_cpu_s(),
    )


def _children_cpu_s() -> float:
    """Return the time on cores of the processes that this one started, those that have ended included."""
    ended = os.times()
    total_s = ended.children_user + ended.children_system
    for child in active_children():
        with suppress(OSError):  # it ends just now
            total_s += time.clock_gettime((~(child.pid or 0) << 3) | _CPU_CLOCK)
    return total_s
