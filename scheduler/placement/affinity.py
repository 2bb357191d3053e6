"""Keeps gangs of one size together on servers (Gandiva)."""

from dataclasses import dataclass
from typing import ClassVar

from scheduler.core.model.tables import NO_ROW, FloatArray, JobTable
from scheduler.core.packing.draft import Seats
from scheduler.core.packing.free_gpus import Gang, FreeGpus
from scheduler.placement.fewest import on_fewest_servers

# Affinity of a server on which nobody sits.
NOBODY = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Affinity:
    """Servers that already run gangs of the same size first, then empty ones, then those of other sizes.

    Sizes count in classes of 1, 2, 4, 8 and so on; inside each step the server with the least load.
    Source: Xiao et al., "Gandiva", OSDI 2018, section 4.1, reactive mode. Differs: the affinity of a server follows
    from who sits on it now, the class with the most GPUs. Where Gandiva over-subscribes a server (its last two steps),
    the gang is spread over as few servers as possible when it may be, else it waits: GPUs are shared in time by the
    introspection, not by the placement.
    """

    name: ClassVar[str] = "affinity"
    looks_at_sizes: ClassVar[bool] = True

    def kinds(self, jobs: JobTable, now_s: float) -> tuple[FloatArray, ...]:
        """Return nothing: only the size of a gang counts."""
        return ()

    def seats(self, space: FreeGpus, gang: Gang) -> Seats:
        """Return a server of the same class, an empty or another one; else the fewest servers; empty for none."""
        if space.best_fit(gang.num_gpus, gang.fits) == NO_ROW:
            return on_fewest_servers(space, gang, max_servers=gang.max_servers)
        mine, gpus = size_class(gang.num_gpus), space.topology.gpus
        roomy = [server for server, free in enumerate(space.free) if free >= gang.num_gpus]
        if gang.fits is not None:
            roomy = [server for server in roomy if gang.fits(server, gang.num_gpus)]

        def rank(server: int) -> tuple[int, float, int]:
            theirs = affinity(space, server)
            step = 0 if theirs == mine else 1 if theirs == NOBODY else 2
            return step, 1.0 - space.free[server] / gpus[server], server

        return ((min(roomy, key=rank), gang.num_gpus),)


def size_class(num_gpus: int) -> int:
    """Return the power of two at or above ``num_gpus``."""
    return 1 << (num_gpus - 1).bit_length()


def affinity(space: FreeGpus, server: int) -> int:
    """Return the class whose gangs hold the most GPUs of the server, the smaller class on ties; NOBODY when empty."""
    sizes = space.sizes[server] if space.sizes is not None else {}
    held: dict[int, int] = {}
    for size, gpus in sizes.items():
        if gpus:
            held[size_class(size)] = held.get(size_class(size), 0) + gpus
    return min(held, key=lambda kind: (-held[kind], kind), default=NOBODY)
