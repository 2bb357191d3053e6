"""Cores and memory as demanded, or not at all."""

from dataclasses import dataclass
from typing import ClassVar

from scheduler.core.model.tables import Placements
from scheduler.core.packing.draft import Draft
from scheduler.mechanisms.proportional import as_needed


@dataclass(frozen=True, slots=True, kw_only=True)
class Greedy:
    """Every job gets the cores and memory of its demand; a job that finds no server with them waits.

    GPUs are left over where cores or memory ran out, and a job may wait for ever: the baseline that Tune improves on.
    With the order of DRF or Tetris this is how big-data schedulers treat training jobs, so there is no mechanism of
    their own.

    Source: Mohan et al., "Synergy", OSDI 2022, section 3.2 (greedy). Differs: a demand beyond one server counts as that
    of the server with the most cores that holds the gang; a gang wider than every server gets what it can use of its
    proportional share.
    """

    name: ClassVar[str] = "greedy"
    trims: ClassVar[bool] = True
    insists: ClassVar[bool] = True

    def grant(self, draft: Draft) -> Placements:
        """Return the seats of the draft, which were chosen with room for the demands."""
        return as_needed(draft)
