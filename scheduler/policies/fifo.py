"""First in, first out."""

from dataclasses import dataclass, field
from typing import ClassVar

from scheduler.core.model.tables import FloatArray, Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Fifo:
    """Earliest submission first; a running job keeps its GPUs until it ends.

    Source: the YARN capacity scheduler as in Gu et al., "Tiresias", NSDI 2019, strict inside a queue: with
    ``backfill`` off.
    """

    name: ClassVar[str] = "fifo"
    preemptive: ClassVar[bool] = False
    steady: ClassVar[bool] = True

    backfill: bool = field(
        default=True,
        metadata={"help": "Later jobs of a queue may start while an earlier one finds no room; off: strictly in line."},
    )

    def priority(self, snapshot: Snapshot) -> FloatArray:
        """Return (n,) submission times, seconds."""
        return snapshot.jobs.arrival_s
