"""Shortest remaining service first."""

from dataclasses import dataclass
from typing import ClassVar

from scheduler.core.model.tables import FloatArray, Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Srsf:
    """Least remaining GPU time first, a wide job counts as much as a long one; unknown times come last.

    Source: Gu et al., "Tiresias", NSDI 2019, the baseline with perfect knowledge: GPUs times remaining time. Hwang et
    al., "AFS", NSDI 2021, write it as ``k_max * t(k_max)``, the same for a job that asks for the most it can use; an
    elastic job is measured here by the GPUs it gets under this policy, which are those it asks for.
    """

    name: ClassVar[str] = "srsf"
    preemptive: ClassVar[bool] = True
    steady: ClassVar[bool] = True

    def priority(self, snapshot: Snapshot) -> FloatArray:
        """Return (n,) remaining services at the GPU-proportional share, GPU-seconds; +inf when unknown."""
        return snapshot.jobs.num_gpus * snapshot.jobs.remaining_s
