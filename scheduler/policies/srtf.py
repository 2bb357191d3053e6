"""Shortest remaining time first."""

from dataclasses import dataclass
from typing import ClassVar

from scheduler.core.tables import FloatArray, JobTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Srtf:
    """Shortest remaining time first; jobs whose remaining time is not known come last."""

    name: ClassVar[str] = "srtf"
    preemptive: ClassVar[bool] = True

    def priority(self, jobs: JobTable, now_s: float) -> FloatArray:
        """Return (n,) remaining run times at the GPU-proportional share, seconds; +inf when unknown."""
        return jobs.remaining_s
