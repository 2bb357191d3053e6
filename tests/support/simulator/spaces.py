"""Free GPUs of servers and gangs that look for seats, for tests of localities."""

from scheduler.core.packing.draft import Seats
from scheduler.core.packing.free_gpus import Fits, Gang, Topology, FreeGpus


def space_of(
    free: list[int],
    *,
    gpus: list[int] | None = None,
    racks: list[int] | None = None,
    sizes: list[dict[int, int]] | None = None,
) -> FreeGpus:
    """Return servers with these free GPUs; by default of eight GPUs each, in one rack."""
    return FreeGpus(free, Topology(gpus=gpus or [8] * len(free), rack=racks or [0] * len(free)), sizes)


def gang_of(
    num_gpus: int,
    *,
    max_servers: int = 0,
    least_servers: int | None = None,
    kind: tuple[float, ...] = (),
    fits: Fits | None = None,
) -> Gang:
    """Return a gang; its fewest servers are by default those of eight GPUs each."""
    least = -(-num_gpus // 8) if least_servers is None else least_servers
    return Gang(num_gpus=num_gpus, max_servers=max_servers, least_servers=least, kind=kind, fits=fits)


def counts(space: FreeGpus, seats: Seats) -> list[tuple[int, int]]:
    """Return for each seat (free GPUs of its server, GPUs taken), so that equal servers compare equal."""
    return [(space.free[server], gpus) for server, gpus in seats]
