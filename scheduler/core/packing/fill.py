"""Seats gangs where their demand for cores and memory fits, and takes cores and memory back where it does not.

Three steps for each job, the first that works: what it wants, on the best fitting server; what it must have there; the
best fit by GPUs alone, with the peers on it held to what they must have, which always is enough.
"""

import math

import numpy as np

from scheduler.core.needs import must_have
from scheduler.core.packing.draft import Draft, Seats
from scheduler.core.packing.stock import Portion, Stock, Want
from scheduler.core.tables import NO_ROW, FloatArray, Placements


def fill(draft: Draft, *, sort_by_demand: bool) -> Placements:
    """Return what every job of the draft holds.

    Args:
        draft: Gangs with their GPUs.
        sort_by_demand: Widest gangs first, then most cores, then most memory; else in the order of the policy.
    """
    order = _by_demand(draft) if sort_by_demand else list(draft.seats)
    grants = _Fill(draft, draft.movable).run(order)
    if grants is None:  # the demands led into a corner: leave everybody on the seats that are known to fit together
        grants = _Fill(draft, frozenset()).run(order)
    if grants is None:
        raise AssertionError("the seats of the draft do not fit together")
    return grants


def _by_demand(draft: Draft) -> list[int]:
    rows = np.array(list(draft.seats), dtype=np.int64)
    needs, gpus = draft.needs, draft.jobs.num_gpus[rows]
    cpus, memory = needs.cpus_most[rows], needs.memory_most[rows]
    # A job that nothing is known about wants its share; servers rarely differ in it.
    cpus = np.where(np.isinf(cpus), np.maximum(needs.cpus_least[rows], needs.cpus_share.max(initial=0)), cpus)
    memory = np.where(np.isinf(memory), np.maximum(needs.memory_least[rows], needs.memory_share.max(initial=0)), memory)
    ranked = np.lexsort((np.arange(len(rows)), -gpus * memory, -gpus * cpus, -gpus))
    return [int(row) for row in rows[ranked].tolist()]


class _Fill:
    """One pass over the jobs."""

    def __init__(self, draft: Draft, movable: frozenset[int]) -> None:
        self._draft = draft
        self._movable = movable
        servers, needs = draft.servers, draft.needs
        free = draft.room if movable else (0,) * len(servers)
        self._stock = Stock(servers, free, tight=needs.tight)
        columns = (needs.cpus_least, needs.cpus_most, needs.memory_least, needs.memory_most)
        bounds = (draft.jobs.num_gpus, *columns)
        self._kinds = [*zip(*(column.tolist() for column in bounds), strict=True)]
        self._widest = int(servers.num_gpus.max(initial=0))
        self._want: Want | None = None
        self._portions: dict[int, list[Portion]] = {}
        if needs.tight:
            fixed = [(job, *seat) for job, seats in draft.seats.items() if job not in movable for seat in seats]
            self._stock.reserve((self._want_of(job), server, gpus) for job, server, gpus in fixed)

    def run(self, order: list[int]) -> Placements | None:
        """Return the grants, or None when a movable job found no server."""
        for job in order:
            want = self._want_of(job)
            if job not in self._movable:
                self._serve(job, want, self._draft.seats[job])
            elif not self._seat(job, want):
                return None
        return self._grants()

    def _want_of(self, job: int) -> Want:
        kind = self._kinds[job]
        if self._want is None or self._want.kind != kind:
            gpus, cpus_least, cpus_most, memory_least, memory_most = kind
            needs, servers = self._draft.needs, self._draft.servers
            must = (
                must_have(cpus_least, cpus_most, needs.cpus_share),
                must_have(memory_least, memory_most, needs.memory_share),
            )
            wanted = must
            if gpus <= self._widest:  # a gang wider than any server gets its share, not its demand
                wanted = (
                    _up_to(cpus_most, servers.num_cpus / gpus, must[0]),
                    _up_to(memory_most, servers.memory_bytes / gpus, must[1]),
                )
            self._want = Want(kind, gpus=int(gpus), wanted=wanted, must=must, alike=self._stock.alike)
        return self._want

    def _seat(self, job: int, want: Want) -> bool:
        """Give a job that starts now its server; False when no server has the GPUs."""
        stock, demoted = self._stock, False
        server = stock.find(want, demoted=False)
        if server == NO_ROW:
            demoted = True
            server = stock.find(want, demoted=True) if want.demotable else NO_ROW
        if server == NO_ROW:
            server = stock.find_gpus(want)
            if server == NO_ROW:
                return False
            self._demote_peers(want, server, want.gpus)
        stock.take_gpus(want, server)
        self._give(job, want, ((server, want.gpus),), demoted=demoted)
        return True

    def _serve(self, job: int, want: Want, seats: Seats) -> None:
        """Give a job that keeps its seats what fits there."""
        for demoted in (False, True):
            if all(self._stock.has(want, server, gpus, demoted=demoted) for server, gpus in seats):
                return self._give(job, want, seats, demoted=demoted)
        for server, gpus in seats:
            self._demote_peers(want, server, gpus)
        return self._give(job, want, seats, demoted=True)

    def _give(self, job: int, want: Want, seats: Seats, *, demoted: bool) -> None:
        portions = []
        for server, gpus in seats:
            must = want.at(server, demoted=True)
            given = must if demoted else want.at(server, demoted=False)
            portion = Portion(job, server, gpus, given, must)
            self._stock.give(portion)
            portions.append(portion)
        self._portions[job] = portions

    def _demote_peers(self, want: Want, server: int, gpus: int) -> None:
        """Hold peers to what they must have, the least spread and most demanding first, until the gang fits."""
        stock = self._stock
        peers = sorted(
            stock.on_server[server], key=lambda peer: (len(self._portions[peer.job]), -peer.cpus, -peer.memory)
        )
        for peer in peers:
            if stock.has(want, server, gpus, demoted=True):
                return
            if peer.cpus > peer.must_cpus or peer.memory > peer.must_memory:
                for portion in self._portions[peer.job]:
                    stock.demote(portion)

    def _grants(self) -> Placements:
        portions = [portion for job in self._draft.seats for portion in self._portions[job]]
        cpus = [portion.gpus * portion.cpus for portion in portions]
        memory = [portion.gpus * portion.memory for portion in portions]
        return Placements(
            job=np.array([portion.job for portion in portions], dtype=np.int64),
            server=np.array([portion.server for portion in portions], dtype=np.int64),
            num_gpus=np.array([portion.gpus for portion in portions], dtype=np.int64),
            cpus=np.array(cpus, dtype=np.float64),
            memory_bytes=np.array(memory, dtype=np.float64),
        )


def _up_to(most: float, capacity: FloatArray, must: FloatArray) -> FloatArray:
    """Return what a job wants per GPU: its demand up to a whole server, its share when the demand is unknown."""
    return must if math.isinf(most) else np.maximum(must, np.minimum(most, capacity))
