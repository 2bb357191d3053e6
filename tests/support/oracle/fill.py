"""Tune, step by step: a job gets what it wants; else its share; else its neighbours are cut back to theirs.

Source: Mohan et al., "Synergy", OSDI 2022, section 4. As the core documents, a running job stays on its servers, what a
server gives depends on the jobs on it alone, a gang on several servers gets its share, and a job that was cut back
keeps what it can use of its share.
"""

import math
from dataclasses import dataclass

from tests.support.oracle.cases import Case
from tests.support.oracle.places import Seats

TOLERANCE = 1e-9


class CornerError(Exception):
    """A job found no server with enough free GPUs."""


@dataclass(slots=True)
class Given:
    """What a job has on a server: GPUs, cores and bytes per GPU."""

    job: int
    server: int
    gpus: int
    cpus: float
    memory: float


class Tune:
    """One pass over the jobs that run."""

    def __init__(self, case: Case, *, stay: dict[int, Seats], start: list[int], order: list[int]) -> None:
        """Take the seats of jobs that stay, the jobs that start on a server of free choice, and the policy's order."""
        self._case, self._stay, self._order = case, stay, [job for job in order if job in stay or job in start]
        self._widest = max(server.num_gpus for server in case.servers)
        self.given: list[Given] = []

    def run(self, *, sort: bool = True) -> list[Given]:
        """Serve the widest gangs first, then those that want the most cores, then the most memory."""
        order = self._order
        if sort:
            order = sorted(order, key=self._rank)
        for job in [job for job in order if job in self._stay]:
            self._sit(job, self._stay[job], order)
        for job in [job for job in order if job not in self._stay]:
            self._sit(job, ((self._server_for(job), self._case.jobs[job].num_gpus),), order)
        return self.given

    def _rank(self, job: int) -> tuple[float, ...]:
        return (-self._case.jobs[job].num_gpus, *(-amount for amount in self._sort_by(job)), job)

    def _sit(self, job: int, seats: Seats, order: list[int]) -> None:
        """Seat a job and give all jobs on its servers their amounts anew, in order."""
        for server, gpus in seats:
            here = {one.job: one.gpus for one in self.given if one.server == server} | {job: gpus}
            self.given = [one for one in self.given if one.server != server]
            for other in order:
                if other in here:
                    self._serve(other, server, here[other])

    def _sort_by(self, job: int) -> tuple[float, float]:
        """Return the cores and bytes a job is sorted by; its largest share where nothing is known."""
        row, servers = self._case.jobs[job], self._case.servers
        cpus = row.num_gpus * max(server.num_cpus / server.num_gpus for server in servers)
        memory = row.num_gpus * max(server.memory_bytes / server.num_gpus for server in servers)
        return (
            cpus if math.isinf(row.demand_cpus) else row.demand_cpus,
            memory if math.isinf(row.demand_memory_bytes) else row.demand_memory_bytes,
        )

    def _share(self, job: int, server: int) -> tuple[float, float]:
        """Return what a job can use of its share, per GPU."""
        row, at = self._case.jobs[job], self._case.servers[server]
        return (
            min(row.demand_cpus / row.num_gpus, at.num_cpus / at.num_gpus),
            min(row.demand_memory_bytes / row.num_gpus, at.memory_bytes / at.num_gpus),
        )

    def _want(self, job: int, server: int) -> tuple[float, float]:
        """Return what a job wants per GPU: its demand up to a whole server, its share where it knows of none."""
        row, at, share = self._case.jobs[job], self._case.servers[server], self._share(job, server)
        if row.num_gpus > self._widest:
            return share
        cpus, memory = row.demand_cpus / row.num_gpus, row.demand_memory_bytes / row.num_gpus
        return (
            share[0] if math.isinf(cpus) else max(share[0], min(cpus, at.num_cpus / row.num_gpus)),
            share[1] if math.isinf(memory) else max(share[1], min(memory, at.memory_bytes / row.num_gpus)),
        )

    def _free_gpus(self, server: int) -> int:
        """Return GPUs that neither jobs that stay nor jobs that were seated hold."""
        staying = sum(gpus for seats in self._stay.values() for at, gpus in seats if at == server)
        seated = sum(one.gpus for one in self.given if one.server == server and one.job not in self._stay)
        return self._case.servers[server].num_gpus - staying - seated

    def _fits(self, server: int, gpus: int, amounts: tuple[float, float]) -> bool:
        at, here = self._case.servers[server], [one for one in self.given if one.server == server]
        cpus = at.num_cpus * (1 + TOLERANCE) - sum(one.gpus * one.cpus for one in here)
        memory = at.memory_bytes * (1 + TOLERANCE) - sum(one.gpus * one.memory for one in here)
        return gpus * amounts[0] <= cpus and gpus * amounts[1] <= memory

    def _server_for(self, job: int) -> int:
        """Return the best fit for the demand, else for the share, else by GPUs alone."""
        gpus = self._case.jobs[job].num_gpus
        roomy = [server for server in range(len(self._case.servers)) if self._free_gpus(server) >= gpus]
        for amounts in (self._want, self._share):
            fitting = [server for server in roomy if self._fits(server, gpus, amounts(job, server))]
            if fitting:
                return min(fitting, key=lambda server: (self._free_gpus(server), server))
        if not roomy:
            raise CornerError(job)
        return min(roomy, key=lambda server: (self._free_gpus(server), server))

    def _serve(self, job: int, server: int, gpus: int) -> None:
        want, share = self._want(job, server), self._share(job, server)
        if gpus < self._case.jobs[job].num_gpus:
            want = share
        amounts = want if self._fits(server, gpus, want) else share
        if not self._fits(server, gpus, amounts):
            self._cut_back(server, gpus, share)
        self.given.append(Given(job, server, gpus, *amounts))

    def _cut_back(self, server: int, gpus: int, amounts: tuple[float, float]) -> None:
        """Cut neighbours back to their shares, the most demanding first."""
        here = [one for one in self.given if one.server == server]
        for peer in sorted(here, key=lambda one: (-one.cpus, -one.memory)):
            if self._fits(server, gpus, amounts):
                return
            share = self._share(peer.job, peer.server)
            peer.cpus, peer.memory = min(peer.cpus, share[0]), min(peer.memory, share[1])
