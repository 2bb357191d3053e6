"""Shortest remaining time first."""

from dataclasses import dataclass
from typing import ClassVar

from scheduler.core.tables import FloatArray, Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Srtf:
    """Shortest remaining time first; jobs whose remaining time is not known come last."""

    name: ClassVar[str] = "srtf"
    preemptive: ClassVar[bool] = True

    def priority(self, snapshot: Snapshot) -> FloatArray:
        """Return (n,) remaining run times at the GPU-proportional share, seconds; +inf when unknown."""
        return snapshot.jobs.remaining_s
