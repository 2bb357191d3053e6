"""Least attained service first, in levels (discretized 2D-LAS of Tiresias)."""

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from scheduler.core.model.tables import BoolArray, FloatArray, IntArray, JobTable, Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Las:
    """Least attained service first, in levels by GPU-seconds; inside a level the job that started first.

    Source: Gu et al., "Tiresias", NSDI 2019, discretized 2D-LAS. Differs: a level is a function of the attained service
    alone, so nothing but that column is remembered; a threshold moved by an admin takes effect at the next round.
    """

    name: ClassVar[str] = "las"
    preemptive: ClassVar[bool] = True

    queue_limits_gpu_s: tuple[float, ...] = field(
        default=(3_250.0,),
        metadata={"help": "Attained service at which a job falls to the next level.", "minimum": 0.001},
    )
    promote_after: float = field(
        default=math.inf,
        metadata={
            "help": "A job begins again at the top level when it has waited this many times as long as it ran; "
            "empty for never.",
            "minimum": 0.001,
        },
    )

    @property
    def steady(self) -> bool:
        """Return whether waiting changes nothing: no job is promoted."""
        return math.isinf(self.promote_after)

    def levels(self, jobs: JobTable) -> IntArray:
        """Return (n,) levels, 0 the top."""
        return np.searchsorted(self.queue_limits_gpu_s, jobs.attained_gpu_s, side="right")

    def priority(self, snapshot: Snapshot) -> FloatArray:
        """Return (n,) levels; the tie-break of every policy puts the first started first inside a level."""
        return self.levels(snapshot.jobs).astype(np.float64)

    def service_steps(self) -> tuple[FloatArray, FloatArray]:
        """Return the limits and the levels."""
        limits = np.array(self.queue_limits_gpu_s, dtype=np.float64)
        return limits, np.arange(len(limits) + 1, dtype=np.float64)

    def promoted(self, jobs: JobTable) -> BoolArray:
        """Return (n,) waiting jobs below the top level that have waited ``promote_after`` times their run time."""
        if math.isinf(self.promote_after):
            return np.zeros(len(jobs), dtype=np.bool_)
        waited_enough = jobs.waited_s >= self.promote_after * jobs.executed_s
        return ~jobs.running & (jobs.executed_s > 0) & (self.levels(jobs) > 0) & waited_enough

    def next_change_s(self, jobs: JobTable) -> FloatArray:
        """Return (n,) whole seconds until a running job crosses its limit, or a waiting job is promoted."""
        limits = np.array((*self.queue_limits_gpu_s, np.inf))
        levels = self.levels(jobs)
        crossing = np.ceil((limits[levels] - jobs.attained_gpu_s) / jobs.num_gpus)
        if math.isinf(self.promote_after):
            return np.where(jobs.running, crossing, np.inf)
        may_rise = (jobs.executed_s > 0) & (levels > 0)
        rise = np.where(may_rise, np.maximum(0.0, self.promote_after * jobs.executed_s - jobs.waited_s), np.inf)
        return np.where(jobs.running, crossing, rise)
