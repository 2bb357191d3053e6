"""First in, first out."""

from dataclasses import dataclass
from typing import ClassVar

from scheduler.core.tables import FloatArray, JobTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Fifo:
    """Earliest submission first; a running job keeps its GPUs until it ends."""

    name: ClassVar[str] = "fifo"
    preemptive: ClassVar[bool] = False

    def priority(self, jobs: JobTable, now_s: float) -> FloatArray:
        """Return (n,) submission times, seconds."""
        return jobs.arrival_s
