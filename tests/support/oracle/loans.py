"""One round under a policy that chooses shares: the seats of each job, and which jobs run on lent GPUs.

What the policy gives is taken as given (``tests/oracle/test_shares.py`` holds it against plain loops); here is what
becomes of it on servers, for one queue whose jobs ask for nothing but GPUs and may all be stopped. A borrower counts as
waiting, and as never started, when the policy is asked. Then, each time the widest first: a job with too many GPUs
gives some up where it has the fewest; one with too few takes more; one that begins takes its share, or the most below
it that fits; and on what is still free sit the jobs that got nothing, on the fewest GPUs they can run on, first those
that can stay where they are. A borrower that has a share now stays where it is, unless others get more when it does
not: then the last one in the order begins like them, or the last two, four ... until they get what they would get if
all borrowers began.
"""

import math
from dataclasses import dataclass, field, replace

from scheduler.core.round.config import SharePolicy
from tests.support.oracle.cases import Case
from tests.support.oracle.places import Floor, Place, Seats, Seeker
from tests.support.simulator.strategies import JobRow


@dataclass(slots=True)
class Hall:
    """Seats of jobs; a job that grows counts as having its new size already."""

    case: Case
    place: Place
    seats: dict[int, Seats] = field(default_factory=dict)
    grows: dict[int, int] = field(default_factory=dict)

    def free(self) -> list[int]:
        """Return the free GPUs of each server."""
        free = [server.num_gpus for server in self.case.servers]
        for seats in self.seats.values():
            for server, gpus in seats:
                free[server] -= gpus
        return free

    def find(self, job: int, gpus: int) -> Seats:
        """Return free seats for so many GPUs of a job, by the locality; () for none."""
        row, free = self.case.jobs[job], self.free()
        if gpus > sum(free):
            return ()
        sizes: list[list[tuple[int, int]]] = [[] for _ in free]
        for other, seats in self.seats.items():
            for server, count in seats:
                sizes[server].append((self.grows.get(other, _count(seats)), count))
        seeker = Seeker(
            row=row,
            num_gpus=gpus,
            max_servers=row.max_servers,
            least_servers=self._least_servers(gpus),
            fits=lambda server, count: count <= free[server],
        )
        return self.place(self.case, Floor(free=free, sizes=sizes), seeker)

    def _least_servers(self, gpus: int) -> int:
        sizes = sorted((server.num_gpus for server in self.case.servers), reverse=True)
        return next((count for count in range(1, len(sizes) + 1) if sum(sizes[:count]) >= gpus), 0)

    def is_free(self, seats: Seats) -> bool:
        """Return whether no job sits on these."""
        free = self.free()
        return all(free[server] >= gpus for server, gpus in seats)

    def grow(self, job: int, gpus: int) -> None:
        """Give a job more GPUs beside its own, most where it has most; else elsewhere; else what its servers have."""
        here, free = dict(self.seats[job]), self.free()
        for server in sorted(here, key=lambda server: (-here[server], server)):
            more = min(free[server], gpus - sum(here.values()))
            here[server] += more
        del self.seats[job], self.grows[job]
        elsewhere = self.find(job, gpus) if sum(here.values()) < gpus else ()
        self.seats[job] = elsewhere or tuple(sorted(here.items()))

    def begin(self, job: int, gpus: int) -> None:
        """Seat a job on so many GPUs, or on the most below that fit."""
        least = _least(self.case.jobs[job])
        for count in range(gpus, least - 1, -1):
            if seats := self.find(job, count):
                self.seats[job] = seats
                return


def shared_round(case: Case, policy: SharePolicy, place: Place) -> tuple[dict[int, Seats], set[int]]:
    """Return the seats of every job that runs after the round, and which of them run on lent GPUs."""
    shares = _shares(case, policy)
    before = {job: row.seats for job, row in enumerate(case.jobs) if row.seats}
    lent = {job for job in before if case.jobs[job].lent}
    wanted = {job: gpus or _least(case.jobs[job]) for job, gpus in shares.items()}
    rows = case.jobs
    order = sorted(wanted, key=lambda job: (-wanted[job], rows[job].first_start_s, rows[job].arrival_s, job))
    served = [job for job in order if shares[job]]
    homes = {job: fewer(before[job], shares[job]) for job in served if job in lent}
    runs = {job: fewer(before[job], shares[job]) for job in served if job in before and job not in lent}
    halls = [_served(case, place, runs | homes, served, shares), _served(case, place, runs, served, shares)]
    best = [_count(halls[1].seats.get(job, ())) for job in served]
    borrowers = [job for job in served if job in homes]
    count = 1
    while count < len(borrowers):
        stay = {job: homes[job] for job in borrowers[: len(borrowers) - count]}
        halls.insert(-1, _served(case, place, runs | stay, served, shares))
        count *= 2
    hall = next(hall for hall in halls if [_count(hall.seats.get(job, ())) for job in served] >= best)
    without = [job for job in order if not shares[job]]
    for job in without:
        home = fewer(before.get(job, ()), _least(case.jobs[job]))
        if home and hall.is_free(home):
            hall.seats[job] = home
    for job in without:
        if job not in hall.seats and (seats := hall.find(job, _least(case.jobs[job]))):
            hall.seats[job] = seats
    return hall.seats, {job for job in without if job in hall.seats}


def _served(case: Case, place: Place, sitting: dict[int, Seats], served: list[int], shares: dict[int, int]) -> Hall:
    """Return the seats once running jobs have grown and the others have begun."""
    grows = {job: shares[job] for job, seats in sitting.items() if _count(seats) < shares[job]}
    hall = Hall(case, place, dict(sitting), dict(grows))
    for job in served:
        if job in grows:
            hall.grow(job, shares[job])
    for job in served:
        if job not in sitting:
            hall.begin(job, shares[job])
    return hall


def fewer(seats: Seats, gpus: int) -> Seats:
    """Return the seats less those over ``gpus``, given up where there are fewest, of equals on the later server."""
    left = dict(seats)
    while sum(left.values()) > gpus:
        # All of one server before any of the next: it was the one with the fewest at the start.
        server = min((at for at in left if left[at]), key=lambda at: (dict(seats)[at], -at))
        left[server] -= 1
    return tuple((server, count) for server, count in sorted(left.items()) if count)


def _shares(case: Case, policy: SharePolicy) -> dict[int, int]:
    """Return what the policy gives, by job; those that no servers could ever hold are not asked about."""
    able, rows = [], []
    for job, row in enumerate(case.jobs):
        sizes = sorted((server.num_gpus for server in case.servers), reverse=True)
        widest = sum(sizes[: row.max_servers or len(sizes)])
        if widest < _least(row):
            continue
        most = min(row.max_gpus or row.num_gpus, widest)
        if row.lent:
            row = replace(row, seats=(), lent=False, first_start_s=math.inf)
        able.append(job)
        rows.append(replace(row, min_gpus=_least(row), max_gpus=most))
    if not able:
        return {}
    asked = replace(case, jobs=tuple(rows))
    gpus = min(case.num_gpus, sum(row.max_gpus or 0 for row in rows))
    return dict(zip(able, policy.shares(asked.snapshot(), gpus).tolist(), strict=True))


def _least(row: JobRow) -> int:
    return row.num_gpus if row.min_gpus is None else row.min_gpus


def _count(seats: Seats) -> int:
    return sum(gpus for _, gpus in seats)
