"""What a running job is granted, and what follows when that changes: threads, cache, measuring.

The supervisor limits the cores of the whole process tree by itself; here the job makes the best of them. A job whose
speed nobody knows is measured at a few core counts while it trains (``agents/profiler``).
"""

import gc
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import active_children
from pathlib import Path
from typing import Any

from agents.cores import pin_tree
from agents.grant import Grant
from agents.profiler.meter import CoreMeter
from agents.runtime.reports import ReportFile

LOOK_EVERY_S = 0.25
# Readers that are busier than this with reading and decoding hold the training up.
BUSY_FRAC = 0.9


@dataclass(frozen=True, slots=True)
class Read:
    """What was read of all datasets: bytes and seconds, summed over the processes that read."""

    hit_bytes: int = 0
    hit_s: float = 0.0
    miss_bytes: int = 0
    miss_s: float = 0.0
    decode_s: float = 0.0
    decode_cpu_s: float = 0.0

    @property
    def num_bytes(self) -> int:
        """Return the bytes read from anywhere."""
        return self.hit_bytes + self.miss_bytes

    @property
    def busy_s(self) -> float:
        """Return the seconds that the readers were at work."""
        return self.hit_s + self.miss_s + self.decode_s


class Granted:
    """Follows the grant of one job."""

    def __init__(self, path: Path | None, reports: ReportFile, *, clock: Callable[[], float]) -> None:
        """Follow the grant in ``path``."""
        self._path, self._reports, self._clock, self._alone = path, reports, clock, True
        self._seen: tuple[int, int] | None = None
        self._looked_s = -LOOK_EVERY_S
        self._grant: Grant | None = None
        self._meter: CoreMeter | None = None
        self._is_measured = False
        self._began_s, self._began, self._steps = 0.0, Read(), 0
        self._stalled_s = 0.0
        self._point_cores, self._point, self._earlier_s = 0, (0.0, Read()), 0.0

    def boundary(self, now_s: float, *, alone: bool) -> None:
        """Look at the grant now and then, and count a step for what is being measured. Cheap at every step.

        ``alone``: no other process trains with this one, so its cores can be changed.
        """
        if self._path is None:
            return
        self._alone = alone
        if self._meter is not None and self._grant is not None and not alone:
            self._meter = None
            _use(self._grant.cores)
        if now_s - self._looked_s >= LOOK_EVERY_S:
            self._looked_s = now_s
            self._look(self._path)
        if self._meter is not None:
            self._measure(self._meter, now_s)

    def _look(self, path: Path) -> None:
        try:
            status = os.stat(path)
            seen = (status.st_ino, status.st_mtime_ns)
            if seen == self._seen:
                return
            self._seen = seen
            grant = Grant.parse(path.read_bytes())
        except OSError:
            return
        if grant is not None and grant != self._grant:
            self._take(grant)

    def _take(self, grant: Grant) -> None:
        before, self._grant = self._grant, grant
        if before is not None and grant.memory_bytes != before.memory_bytes:
            for dataset in _datasets():
                dataset.follow(grant.memory_bytes)
        free = (*grant.cores, *grant.idle_cores)
        if self._meter is not None:
            self._meter.limit(free)
        elif self._is_due(grant, len(free)):
            self._began_s, self._began = self._clock(), _read()
            self._meter = CoreMeter(free, _use)
        elif before is not None and grant.num_cpus != before.num_cpus:
            _use_threads(grant.num_cpus)

    def _is_due(self, grant: Grant, free: int) -> bool:
        above = grant.measure_above
        return self._alone and not self._is_measured and bool(grant.cores) and above is not None and free > above

    def _measure(self, meter: CoreMeter, now_s: float) -> None:
        self._steps += 1
        cores = max(1, len(os.sched_getaffinity(0)))
        if cores != self._point_cores:
            self._point_cores, self._point, self._earlier_s = cores, (now_s, _read()), self._stalled_s
        self._stalled_s = max(self._stalled_s, self._earlier_s + self._stall_s(now_s, cores=cores))
        meter.step(now_s - self._stalled_s)
        if not meter.is_done or self._grant is None:
            return
        self._meter, self._is_measured = None, True
        _use(self._grant.cores)
        _use_threads(self._grant.num_cpus)
        if not meter.rates:
            return
        took_s = self._clock() - self._began_s
        told = {"rates": sorted(meter.rates.items()), "free_cores": max(meter.rates), "took_s": took_s}
        self._reports.send("measured", measured=told | _model_sizes() | self._reading())

    def _stall_s(self, now_s: float, *, cores: int) -> float:
        """Return how long this point waited for storage: with all items in memory it would not have.

        What readers wait while others of them keep the cores busy is no loss: steps never take less than decoding
        their items on these cores.
        """
        (since_s, before), after = self._point, _read()
        passed_s, waited_s = now_s - since_s, after.miss_s - before.miss_s
        workers = len(active_children())
        if not workers:
            return waited_s
        if after.busy_s - before.busy_s < BUSY_FRAC * workers * passed_s:
            return 0.0  # the readers are ahead: what they waited for storage held nobody up
        decoding_s = (after.decode_cpu_s - before.decode_cpu_s) / min(cores, workers)
        return max(0.0, min(waited_s / workers, passed_s - decoding_s))

    def _reading(self) -> dict[str, float]:
        """Return what the measured steps read, by the names of the record."""
        datasets, after = _datasets(), _read()
        num_bytes = after.num_bytes - self._began.num_bytes
        if not datasets or num_bytes <= 0 or after.miss_s <= 0:
            return {}
        readers = max(1, len(active_children()))  # each of them waits for itself
        found = {
            "read_bytes_per_step": num_bytes / self._steps,
            "dataset_bytes": float(sum(dataset.total_bytes() for dataset in datasets)),
            "disk_bytes_per_s": readers * after.miss_bytes / after.miss_s,
            "cache_bytes": float(sum(dataset.figures().used_bytes for dataset in datasets)),
        }
        if after.hit_s > 0:
            found["memory_bytes_per_s"] = readers * after.hit_bytes / after.hit_s
        return found


def _datasets() -> list[Any]:
    """Return the cached datasets of this process; their module needs torch and is not imported for this."""
    module = sys.modules.get("agents.runtime.dataset")
    return [] if module is None else list(module.open_datasets())


def _read() -> Read:
    figures = [dataset.figures() for dataset in _datasets()]
    return Read(
        sum(one.hit_bytes for one in figures),
        sum(one.hit_s for one in figures),
        sum(one.miss_bytes for one in figures),
        sum(one.miss_s for one in figures),
        sum(one.decode_s for one in figures),
        sum(one.decode_cpu_s for one in figures),
    )


def _use(cores: Sequence[int]) -> None:
    """Keep this process and all it started on some cores, with as many threads."""
    pin_tree(os.getpid(), cores)
    _use_threads(len(cores))


def _use_threads(count: int) -> None:
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(count)


def _model_sizes() -> dict[str, float]:
    """Return the bytes of all parameters and of the largest one, as found among the living objects."""
    torch = sys.modules.get("torch")
    if torch is None:
        return {}
    sizes = [
        float(found.numel() * found.element_size()) for found in gc.get_objects() if type(found) is torch.nn.Parameter
    ]
    return {"model_bytes": sum(sizes), "largest_tensor_bytes": max(sizes)} if sizes else {}
