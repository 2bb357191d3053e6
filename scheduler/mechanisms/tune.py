"""Cores and memory as much as a job can use, taken back where others would fall below their share."""

from dataclasses import dataclass, field
from typing import ClassVar

from scheduler.core.packing.draft import Draft
from scheduler.core.packing.fill import fill
from scheduler.core.tables import Placements


@dataclass(frozen=True, slots=True, kw_only=True)
class Tune:
    """Every job gets what it needs for full speed where that fits, and never less than its share would give it.

    Source: Mohan et al., "Synergy", OSDI 2022, Tune. Differs: a running job stays on its servers; a demoted job keeps
    what it can use of its proportional share, not more.
    """

    name: ClassVar[str] = "tune"
    trims: ClassVar[bool] = True
    insists: ClassVar[bool] = False

    sort_by_demand: bool = field(
        default=True,
        metadata={"help": "Place the widest and most demanding jobs first, as published; off: in the policy's order."},
    )

    def grant(self, draft: Draft) -> Placements:
        """Return the seats with cores and memory; jobs that start now go where their demand fits."""
        return fill(draft, sort_by_demand=self.sort_by_demand)
