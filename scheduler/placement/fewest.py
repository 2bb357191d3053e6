"""As few servers as possible: what every locality falls back on for gangs that gain from being close together."""

from scheduler.core.model.tables import NO_ROW
from scheduler.core.packing.draft import Seats
from scheduler.core.packing.free_gpus import Gang, FreeGpus


def on_fewest_servers(space: FreeGpus, gang: Gang, *, max_servers: int) -> Seats:
    """Return one server by best fit, else the emptiest servers and a best fit for what remains; empty for none.

    Args:
        space: Free GPUs.
        gang: The gang.
        max_servers: Most servers to use, 0 for any number. ``gang.max_servers`` is not looked at.
    """
    server = space.best_fit(gang.num_gpus, gang.fits)
    if server != NO_ROW:
        return ((server, gang.num_gpus),)
    if max_servers == 1 or space.total < gang.num_gpus:
        return ()
    return _emptiest_first(space, gang, max_servers)


def _emptiest_first(space: FreeGpus, gang: Gang, max_servers: int) -> Seats:
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
        if max_servers and len(seats) == max_servers:
            return ()
    used = {server for server, _ in seats}
    last = space.best_fit(left, lambda server, gpus: server not in used and (fits is None or fits(server, gpus)))
    return (*seats, (last, left)) if last != NO_ROW else ()
