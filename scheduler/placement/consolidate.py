"""Fewest servers, best fit."""

from dataclasses import dataclass
from typing import ClassVar

from scheduler.core.packing.draft import Seats
from scheduler.core.packing.space import Fits, Space
from scheduler.core.tables import NO_ROW


@dataclass(frozen=True, slots=True, kw_only=True)
class Consolidate:
    """As few servers as possible; among those the ones that leave the fewest GPUs over.

    Source: Jeon et al., "Philly", ATC 2019, level 0 to 1 of the locality rules: emptiest servers first for a wide gang,
    then the remainder on the server with the fewest free GPUs that still has enough. Differs: racks are not looked at.
    """

    name: ClassVar[str] = "consolidate"

    def seats(self, space: Space, *, num_gpus: int, max_servers: int, fits: Fits | None) -> Seats:
        """Return one server by best fit, else the emptiest servers and a best fit for what remains; empty for none."""
        server = space.best_fit(num_gpus, fits)
        if server != NO_ROW:
            return ((server, num_gpus),)
        if max_servers == 1 or space.total < num_gpus:
            return ()
        return _spread(space, num_gpus=num_gpus, max_servers=max_servers, fits=fits)


def _spread(space: Space, *, num_gpus: int, max_servers: int, fits: Fits | None) -> Seats:
    seats: list[tuple[int, int]] = []
    left = num_gpus
    for server in space.largest_first():
        count = space.free[server]
        while fits is not None and count and not fits(server, count):
            count -= 1
        if count >= left:
            break
        if count:
            seats.append((server, count))
            left -= count
        if max_servers and len(seats) == max_servers:
            return ()
    used = {server for server, _ in seats}
    last = space.best_fit(left, lambda server, gpus: server not in used and (fits is None or fits(server, gpus)))
    return (*seats, (last, left)) if last != NO_ROW else ()
