"""First in, first out."""

from dataclasses import dataclass
from typing import ClassVar

from scheduler.core.tables import FloatArray, Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Fifo:
    """Earliest submission first; a running job keeps its GPUs until it ends."""

    name: ClassVar[str] = "fifo"
    preemptive: ClassVar[bool] = False

    def priority(self, snapshot: Snapshot) -> FloatArray:
        """Return (n,) submission times, seconds."""
        return snapshot.jobs.arrival_s
