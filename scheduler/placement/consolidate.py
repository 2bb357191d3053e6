"""Fewest servers, best fit."""

from dataclasses import dataclass
from typing import ClassVar

from scheduler.core.model.tables import FloatArray, JobTable
from scheduler.core.packing.draft import Seats
from scheduler.core.packing.free_gpus import Gang, FreeGpus
from scheduler.placement.fewest import on_fewest_servers


@dataclass(frozen=True, slots=True, kw_only=True)
class Consolidate:
    """As few servers as possible; among those the ones that leave the fewest GPUs over.

    Source: Jeon et al., "Philly", ATC 2019, level 0 to 1 of the locality rules: emptiest servers first for a wide gang,
    then the remainder on the server with the fewest free GPUs that still has enough. Differs: racks are not looked at.
    """

    name: ClassVar[str] = "consolidate"

    def kinds(self, jobs: JobTable, now_s: float) -> tuple[FloatArray, ...]:
        """Return nothing: only the size of a gang counts."""
        return ()

    def seats(self, space: FreeGpus, gang: Gang) -> Seats:
        """Return one server by best fit, else the emptiest servers and a best fit for what remains; empty for none."""
        return on_fewest_servers(space, gang, max_servers=gang.max_servers)
