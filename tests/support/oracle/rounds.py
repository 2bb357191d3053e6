"""The jobs that run after one round, in one queue: a walk over the jobs in their order.

A job that runs stays where it is unless a stronger one needs its GPUs. A waiting job takes free GPUs; failing that, and
if the policy preempts, the GPUs of weaker jobs on the server where the strongest job that has to leave is the weakest;
failing that it waits, and the next jobs take what is left.
"""

from dataclasses import dataclass, field

from tests.support.oracle.cases import Case
from tests.support.oracle.places import Floor, Place, Seats, Seeker

TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """Cores and bytes per GPU that a job does not start without, by server."""

    cpus: tuple[float, ...]
    memory_bytes: tuple[float, ...]


@dataclass(slots=True)
class Room:
    """What is left on every server: GPUs, cores, bytes."""

    case: Case
    needs: list[Need]
    seats: dict[int, Seats] = field(default_factory=dict)

    def free(self) -> list[int]:
        """Return the free GPUs of each server."""
        free = [server.num_gpus for server in self.case.servers]
        for seats in self.seats.values():
            for server, gpus in seats:
                free[server] -= gpus
        return free

    def fits(self, job: int, server: int, gpus: int, *, without: frozenset[int] = frozenset()) -> bool:
        """Return whether so many GPUs of the job fit on the server once the jobs of ``without`` are gone."""
        row = self.case.servers[server]
        left = [float(row.num_gpus), row.num_cpus * (1 + TOLERANCE), row.memory_bytes * (1 + TOLERANCE)]
        for other, seats in self.seats.items():
            for at, count in seats:
                if at == server and other not in without:
                    need = self.needs[other]
                    used = (count, count * need.cpus[server], count * need.memory_bytes[server])
                    left = [a - b for a, b in zip(left, used, strict=True)]
        need = self.needs[job]
        wanted = (gpus, gpus * need.cpus[server], gpus * need.memory_bytes[server])
        return all(a <= b for a, b in zip(wanted, left, strict=True))


def brute_round(case: Case, order: list[int], *, preemptive: bool, place: Place, needs: list[Need]) -> dict[int, Seats]:
    """Return the seats of every job that runs after the round; gangs that run already sit on one server each."""
    before = _staying(case, order, needs)
    room = Room(case, needs, dict(before))
    locked = {job for job in before if not preemptive or not case.jobs[job].preemptible}
    firm = set(locked)
    taker: dict[int, int] = {}  # displaced job -> the job that took its seats
    for job in order:
        if job in firm:
            continue
        if job in room.seats:
            firm.add(job)
            continue
        seats = _home(room, job, before) or _choose(room, place, job)
        victims: list[int] = []
        if not seats:
            seats, victims = _push_out(room, place, job, [other for other in reversed(order) if other not in firm])
        if not seats:
            continue
        for victim in victims:
            taker[victim] = job
            del room.seats[victim]
        room.seats[job] = seats
        firm.add(job)
        _trade_back(case, room, job, before, taker)
    return room.seats


def _staying(case: Case, order: list[int], needs: list[Need]) -> dict[int, Seats]:
    """Return the seats of running jobs, without those, last in the order, for whose needs a server is too small."""
    room = Room(case, needs, {job: row.seats for job, row in enumerate(case.jobs) if row.seats})
    for server in range(len(case.servers)):
        for job in reversed(order):
            here = any(at == server for at, _ in room.seats.get(job, ()))
            if here and not room.fits(job, server, 0):  # more is held than the server has
                del room.seats[job]
    return room.seats


def _home(room: Room, job: int, before: dict[int, Seats]) -> Seats:
    """Return the seats that a displaced job had, when they are free again."""
    seats = before.get(job, ())
    return seats if all(room.fits(job, server, gpus) for server, gpus in seats) else ()


def _choose(room: Room, place: Place, job: int, *, without: frozenset[int] = frozenset()) -> Seats:
    row = room.case.jobs[job]
    free = room.free()
    for other in without:
        for server, gpus in room.seats[other]:
            free[server] += gpus

    def fits(server: int, gpus: int) -> bool:
        return room.fits(job, server, gpus, without=without)

    sizes: list[list[tuple[int, int]]] = [[] for _ in free]
    for other, seats in room.seats.items():
        if other not in without:
            for server, gpus in seats:
                sizes[server].append((room.case.jobs[other].num_gpus, gpus))
    seeker = Seeker(
        row=row, num_gpus=row.num_gpus, max_servers=row.max_servers, least_servers=_least_servers(room, job), fits=fits
    )
    return place(room.case, Floor(free=free, sizes=sizes), seeker)


def _least_servers(room: Room, job: int) -> int:
    """Return how few servers could hold the job if they were empty."""
    empty, gpus = frozenset(room.seats), room.case.jobs[job].num_gpus
    counts = [
        max(count for count in range(server.num_gpus + 1) if room.fits(job, at, count, without=empty))
        for at, server in enumerate(room.case.servers)
    ]
    for servers in range(1, len(counts) + 1):
        if sum(sorted(counts, reverse=True)[:servers]) >= gpus:
            return servers
    return 0


def _push_out(room: Room, place: Place, job: int, weaker: list[int]) -> tuple[Seats, list[int]]:
    """Return seats that jobs of ``weaker`` leave, and those jobs; weakest first, and no job leaves in vain."""
    gpus = room.case.jobs[job].num_gpus
    sitting = [other for other in weaker if other in room.seats]
    for count in range(1, len(sitting) + 1):
        gone = sitting[:count]
        for server, _ in room.seats[gone[-1]]:
            if room.fits(job, server, gpus, without=frozenset(gone)):
                return ((server, gpus),), _needed(room, job, server, gpus, gone)
    if room.case.jobs[job].max_servers == 1 or gpus == 1:
        return (), []
    seats = _choose(room, place, job, without=frozenset(sitting))
    victims = [other for server, part in seats for other in _needed(room, job, server, part, sitting)]
    return seats, list(dict.fromkeys(victims))


def _needed(room: Room, job: int, server: int, gpus: int, gone: list[int]) -> list[int]:
    """Return as few of ``gone`` as must leave the server: the weakest first, none in vain."""
    here = [other for other in gone if any(at == server for at, _ in room.seats[other])]
    leaving: list[int] = []
    for other in here:
        if room.fits(job, server, gpus, without=frozenset(leaving)):
            break
        leaving.append(other)
    for other in reversed(list(leaving)):
        if room.fits(job, server, gpus, without=frozenset(leaving) - {other}):
            leaving.remove(other)
    return leaving


def _trade_back(case: Case, room: Room, job: int, before: dict[int, Seats], taker: dict[int, int]) -> None:
    """Let a displaced job that found other seats keep its own, if the job that took them asks for just the same."""
    if job not in taker or room.seats[job] == before[job]:
        return
    other = taker[job]
    mine, its = case.jobs[job], case.jobs[other]
    alike = (mine.num_gpus, mine.max_servers) == (its.num_gpus, its.max_servers) and room.needs[job] == room.needs[
        other
    ]
    if alike and room.seats[other] == before[job] and other not in taker:
        room.seats[job], room.seats[other] = room.seats[other], room.seats[job]
