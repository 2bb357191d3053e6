"""Most important first."""

from dataclasses import dataclass, field
from typing import ClassVar

from scheduler.core.tables import FloatArray, Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Priority:
    """Largest priority first; among equals earliest submission first."""

    name: ClassVar[str] = "priority"
    steady: ClassVar[bool] = True

    preemptive: bool = field(
        default=False,
        metadata={"help": "A more important job may stop less important ones; off: it waits until they end."},
    )
    backfill: bool = field(
        default=True,
        metadata={"help": "Less important jobs of a queue may start while a more important one finds no room."},
    )

    def priority(self, snapshot: Snapshot) -> FloatArray:
        """Return (n,) priorities, negative."""
        return -snapshot.jobs.priority
