"""Any free GPUs."""

from dataclasses import dataclass
from typing import ClassVar

from scheduler.core.model.tables import FloatArray, JobTable
from scheduler.core.packing.draft import Seats
from scheduler.core.packing.free_gpus import Gang, FreeGpus
from scheduler.placement.scattered import on_any_gpus


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyGpus:
    """Any free GPUs, wherever they are; servers with the fewest free ones first.

    Source: the placement of jobs without skew of Gu et al., "Tiresias", NSDI 2019. Differs: the paper leaves open which
    free GPUs; those that leave the most servers whole are taken.
    """

    name: ClassVar[str] = "any"

    def kinds(self, jobs: JobTable, now_s: float) -> tuple[FloatArray, ...]:
        """Return nothing: only the size of a gang counts."""
        return ()

    def seats(self, space: FreeGpus, gang: Gang) -> Seats:
        """Return free GPUs, from the servers with the fewest of them first; empty when there are not enough."""
        return on_any_gpus(space, gang)
