"""Any free GPUs: the leftovers of used servers first, so that whole servers stay free for gangs that need them."""

from scheduler.core.model.tables import NO_ROW
from scheduler.core.packing.draft import Seats
from scheduler.core.packing.free_gpus import Gang, FreeGpus


def on_any_gpus(space: FreeGpus, gang: Gang) -> Seats:
    """Return servers with few free GPUs before servers with many; empty when no allowed number of servers has room.

    Where the gang may use only so many servers, it takes the neighbours in that ranking with the fewest free GPUs that
    together are enough.
    """
    if gang.num_gpus == 1 or gang.max_servers == 1:
        server = space.best_fit(gang.num_gpus, gang.fits)
        return ((server, gang.num_gpus),) if server != NO_ROW else ()
    if space.total < gang.num_gpus:
        return ()
    # Of servers that could take the whole gang, too, the one with the fewest free GPUs comes first.
    ranked = sorted(
        (count, space.free[server], server)
        for server in range(len(space.free))
        if (count := _usable(space, gang, server))
    )
    most = gang.max_servers or len(ranked)
    end = room = 0
    while room < gang.num_gpus:
        if end == len(ranked):
            return ()
        room += ranked[end][0] - (ranked[end - most][0] if end >= most else 0)
        end += 1
    seats, left = [], gang.num_gpus
    for count, _, server in ranked[max(0, end - most) : end]:
        if left:
            seats.append((server, min(count, left)))
            left -= seats[-1][1]
    return tuple(seats)


def _usable(space: FreeGpus, gang: Gang, server: int) -> int:
    """Return how many GPUs of the gang the server could take."""
    count = min(space.free[server], gang.num_gpus)
    while gang.fits is not None and count and not gang.fits(server, count):
        count -= 1
    return count
