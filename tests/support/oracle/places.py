"""Where each locality seats a gang on free GPUs."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tests.support.oracle.cases import Case
from tests.support.simulator.strategies import JobRow

# (server, GPUs on it), servers ascending; () for none.
Seats = tuple[tuple[int, int], ...]
PACK_LIMIT = 0.3
# Three tries of 150 s with a pause of 120 s after each, then the next level.
LEVEL_S = 3 * (150.0 + 120.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """Free GPUs of each server, and the jobs there: (size of the gang, its GPUs on the server)."""

    free: list[int]
    sizes: list[list[tuple[int, int]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seeker:
    """A gang that looks for seats.

    Attributes:
        row: The job.
        num_gpus: GPUs it needs.
        max_servers: Most servers it may use, 0 for any number.
        least_servers: Fewest servers that could hold it if they were empty.
        fits: Whether GPUs, cores and memory of a server allow that many of its GPUs.
    """

    row: JobRow
    num_gpus: int
    max_servers: int
    least_servers: int
    fits: Callable[[int, int], bool]


Place = Callable[[Case, Floor, Seeker], Seats]


def _best_fit(floor: Floor, gang: Seeker, gpus: int, among: Iterable[int]) -> int | None:
    """Return the server with the fewest free GPUs among those that can take so many."""
    roomy = [server for server in among if floor.free[server] >= gpus and gang.fits(server, gpus)]
    return min(roomy, key=lambda server: (floor.free[server], server), default=None)


def _usable(floor: Floor, gang: Seeker, server: int) -> int:
    """Return how many GPUs of the gang the server can take."""
    return max(count for count in range(floor.free[server] + 1) if gang.fits(server, count))


def _fewest(floor: Floor, gang: Seeker, most: int, among: list[int]) -> Seats:
    """Return the best fit on one server, else the emptiest servers and a best fit for the rest; 0: any number."""
    server = _best_fit(floor, gang, gang.num_gpus, among)
    if server is not None:
        return ((server, gang.num_gpus),)
    seats: list[tuple[int, int]] = []
    left = gang.num_gpus
    for server in sorted(among, key=lambda server: (-floor.free[server], server)):
        count = _usable(floor, gang, server)
        if count >= left:
            break
        if count:
            seats.append((server, count))
            left -= count
    used = {server for server, _ in seats}
    last = _best_fit(floor, gang, left, [server for server in among if server not in used])
    if last is None or (most and len(seats) + 1 > most):
        return ()
    return tuple(sorted([*seats, (last, left)]))


def consolidate(case: Case, floor: Floor, gang: Seeker) -> Seats:
    """Return as few servers as possible."""
    return _fewest(floor, gang, gang.max_servers, list(range(len(floor.free))))


def any_gpus(case: Case, floor: Floor, gang: Seeker) -> Seats:
    """Return the servers with the fewest GPUs to give until the gang is complete; of one server, the best fit."""
    every = list(range(len(floor.free)))
    if gang.num_gpus == 1 or gang.max_servers == 1:
        server = _best_fit(floor, gang, gang.num_gpus, every)
        return ((server, gang.num_gpus),) if server is not None else ()
    assert gang.max_servers == 0, "which servers to take when only so many are allowed is left open"
    seats: list[tuple[int, int]] = []
    left = gang.num_gpus
    usable = {server: min(gang.num_gpus, _usable(floor, gang, server)) for server in every}
    for server in sorted(every, key=lambda server: (usable[server], floor.free[server], server)):
        count = min(left, usable[server])
        if count:
            seats.append((server, count))
            left -= count
    return () if left else tuple(sorted(seats))


def relax(case: Case, floor: Floor, gang: Seeker) -> Seats:
    """Return servers of one rack, the one with the most free GPUs, as many as the time waited allows."""
    level = int((gang.row.waited_s + 1e-6) // LEVEL_S)
    most = {0: gang.least_servers, 1: 2 * gang.least_servers}.get(level, 0)
    if gang.max_servers:
        most = min(most, gang.max_servers) if most else gang.max_servers
    in_rack = {rack: [at for at, other in enumerate(case.racks) if other == rack] for rack in case.racks}
    free = {rack: sum(floor.free[server] for server in servers) for rack, servers in in_rack.items()}
    for rack in sorted(in_rack, key=lambda rack: (-free[rack], rack)):
        seats = _fewest(floor, gang, most, in_rack[rack])
        if seats:
            return seats
    return _fewest(floor, gang, most, list(range(len(floor.free)))) if level >= 3 else ()


def skew(case: Case, floor: Floor, gang: Seeker) -> Seats:
    """Return the fewest servers for a job with a dominating tensor, or nothing; any GPUs for the others."""
    profile = gang.row.profile
    if profile is None or profile.skew is None or profile.skew <= PACK_LIMIT:
        return any_gpus(case, floor, gang)
    if gang.max_servers and gang.least_servers > gang.max_servers:
        return ()
    return _fewest(floor, gang, max(1, gang.least_servers), list(range(len(floor.free))))


def _class(num_gpus: int) -> int:
    """Return 1, 2, 4, 8 ...: the first that is not below."""
    size = 1
    while size < num_gpus:
        size *= 2
    return size


def _affinity(sizes: list[tuple[int, int]]) -> int:
    """Return the class that holds the most GPUs of a server, the smaller one on ties; 0 when no job sits there."""
    held: dict[int, int] = {}
    for size, gpus in sizes:
        held[_class(size)] = held.get(_class(size), 0) + gpus
    return min(held, key=lambda kind: (-held[kind], kind), default=0)


def affinity(case: Case, floor: Floor, gang: Seeker) -> Seats:
    """Return the least loaded server with gangs of its class, else an empty one, else the least loaded other one."""
    mine = _class(gang.num_gpus)
    roomy = [server for server in range(len(floor.free)) if gang.fits(server, gang.num_gpus)]
    load = {server: 1 - floor.free[server] / case.servers[server].num_gpus for server in roomy}
    theirs = {server: _affinity(floor.sizes[server]) for server in roomy}
    same = [server for server in roomy if theirs[server] == mine]
    empty = [server for server in roomy if theirs[server] == 0]
    for group in (same, empty, roomy):
        if group:
            return ((min(group, key=lambda server: (load[server], server)), gang.num_gpus),)
    return consolidate(case, floor, gang)


PLACES: dict[str, Place] = {
    "any": any_gpus,
    "consolidate": consolidate,
    "relax": relax,
    "skew": skew,
    "affinity": affinity,
}
