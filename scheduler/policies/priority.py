"""Most important first."""

from dataclasses import dataclass, field
from typing import ClassVar

from scheduler.core.model.tables import FloatArray, Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Priority:
    """Largest priority first; among equals earliest submission first."""

    name: ClassVar[str] = "priority"
    reads_priority: ClassVar[bool] = True

    preemptive: bool = field(
        default=False,
        metadata={"help": "A more important job may stop less important ones; off: it waits until they end."},
    )
    backfill: bool = field(
        default=True,
        metadata={"help": "Less important jobs of a queue may start while a more important one finds no room."},
    )

    @property
    def steady(self) -> bool:
        """Return whether the order stays as it is: no stopped job has to wait behind others of its queue again."""
        return self.backfill or not self.preemptive

    def priority(self, snapshot: Snapshot) -> FloatArray:
        """Return (n,) priorities, negative."""
        return -snapshot.jobs.priority
