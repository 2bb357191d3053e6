"""Fewest servers, best fit."""

from dataclasses import dataclass
from typing import ClassVar

from scheduler.core.packing.draft import Seats
from scheduler.core.packing.space import Gang, Space
from scheduler.core.tables import NO_ROW, FloatArray, JobTable


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

    def seats(self, space: Space, gang: Gang) -> Seats:
        """Return one server by best fit, else the emptiest servers and a best fit for what remains; empty for none."""
        server = space.best_fit(gang.num_gpus, gang.fits)
        if server != NO_ROW:
            return ((server, gang.num_gpus),)
        if gang.max_servers == 1 or space.total < gang.num_gpus:
            return ()
        return _spread(space, gang)


def _spread(space: Space, gang: Gang) -> Seats:
    seats: list[tuple[int, int]] = []
    left, fits = gang.num_gpus, gang.fits
    for server in space.largest_first():
        count = space.free[server]
        while fits is not None and count and not fits(server, count):
            count -= 1
        if count >= left:
            break
        if count:
            seats.append((server, count))
            left -= count
        if gang.max_servers and len(seats) == gang.max_servers:
            return ()
    used = {server for server, _ in seats}
    last = space.best_fit(left, lambda server, gpus: server not in used and (fits is None or fits(server, gpus)))
    return (*seats, (last, left)) if last != NO_ROW else ()
