"""What the file ``scheduler/policies/smallest_first.py`` would hold: a policy that is added by its recipe."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from scheduler.core.model.tables import FloatArray, Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallestFirst:
    """Fewest GPUs first; among equals earliest submission first."""

    name: ClassVar[str] = "smallest-first"
    preemptive: ClassVar[bool] = True
    steady: ClassVar[bool] = True

    cap_gpus: int = field(
        default=1_000_000, metadata={"help": "Jobs that ask for more count as this many GPUs.", "minimum": 1}
    )

    def priority(self, snapshot: Snapshot) -> FloatArray:
        """Return (n,) GPUs asked for."""
        return np.minimum(snapshot.jobs.num_gpus, self.cap_gpus).astype(np.float64)
