"""Follow the grant of a running job: adapt threads and caches when it changes, and measure the job where asked.

The supervisor pins the whole process tree by itself; this file adapts the job to its cores. A job of unknown speed is
measured at a few core counts while it trains (``agents/profiler``).
"""

import gc
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from agents.host.cores import pin_tree
from agents.profiler.meter import CoreMeter
from agents.protocol.grant import Grant
from agents.runtime.cache.reading import Reading, follow_memory
from agents.runtime.reports import ReportFile

LOOK_EVERY_S = 0.25


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
        self._began_s = 0.0
        self._reading: Reading | None = None

    def boundary(self, now_s: float, *, alone: bool, is_step: bool) -> None:
        """Look at the grant now and then, and count a step for what is being measured. Cheap at every step.

        Args:
            now_s: The present.
            alone: No other process trains with this one, so its cores can be changed.
            is_step: A step has ended.
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
        if is_step and self._meter is not None and self._reading is not None:
            self._measure(self._meter, self._reading, now_s)

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
            follow_memory(grant.memory_bytes)
        free = (*grant.cores, *grant.idle_cores)
        if self._meter is not None:
            self._meter.limit(free)
        elif self._is_due(grant, len(free)):
            self._began_s = self._clock()
            self._meter, self._reading = CoreMeter(free, _use), Reading(self._began_s)
        elif before is not None and grant.num_cpus != before.num_cpus:
            _use_threads(grant.num_cpus)

    def _is_due(self, grant: Grant, free: int) -> bool:
        above = grant.measure_above
        return self._alone and not self._is_measured and bool(grant.cores) and above is not None and free > above

    def _measure(self, meter: CoreMeter, reading: Reading, now_s: float) -> None:
        cores = max(1, len(os.sched_getaffinity(0)))
        stalled_s = reading.step(now_s, cores=cores)
        meter.step(now_s - stalled_s, readers=reading.readers)
        if not meter.is_done or self._grant is None:
            return
        self._meter, self._is_measured = None, True
        _use(self._grant.cores)
        _use_threads(self._grant.num_cpus)
        if not meter.rates:
            return
        took_s = self._clock() - self._began_s
        told = {"rates": sorted(meter.rates.items()), "free_cores": max(meter.rates), "took_s": took_s}
        if meter.error is not None:
            told["error"] = meter.error
        self._reports.send("measured", measured=told | _model_sizes() | reading.told())


def _use(cores: Sequence[int]) -> None:
    """Pin this process and its children to cores, with as many threads."""
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
