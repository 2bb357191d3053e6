"""A planner for share policies in one queue without limits: it touches only jobs whose number of GPUs changes.

It needs jobs that insist on no cores or memory, a locality that treats jobs of a size alike, and a mechanism under
which every GPU brings its share of cores and memory. tests/property/test_simulator_shares.py holds plans equal.
"""

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from scheduler.core.model.changes import Changes
from scheduler.core.model.plan import PreemptRule
from scheduler.core.model.tables import (
    DEFAULT_ROUND_S,
    NO_ROW,
    IntArray,
    JobTable,
    Placements,
    ServerTable,
    Snapshot,
)
from scheduler.core.packing.cpu_memory_ledger import ProportionalLedger
from scheduler.core.packing.draft import Seats
from scheduler.core.packing.elastic_seats import ElasticSeats, is_inside, shrunk
from scheduler.core.packing.free_gpus import Fits
from scheduler.core.packing.seating import GpuBoard
from scheduler.core.round.capabilities import ChangesBySelf
from scheduler.core.round.config import SharePolicy
from scheduler.simulator.incremental.planner_input import PlannerInput, why_queues_bind
from scheduler.simulator.state.world import World

_NO_SHARE, _MOVED = (str(PreemptRule.NO_SHARE), NO_ROW), (str(PreemptRule.MOVED), NO_ROW)


def share_rounds(given: PlannerInput) -> "ShareRounds | str":
    """Return the planner, or why it does not apply."""
    config, servers, jobs, policy = given.config, given.servers, given.jobs, given.config.policy
    if not isinstance(policy, SharePolicy):
        return f"{policy.name} orders jobs of fixed size"
    if given.interrupted:
        return "shares made from what changed are not part of a saved state"
    if config.min_run_s:
        return f"jobs may not be stopped in their first {config.min_run_s:g} s"
    if not config.preempt:
        return "no job may be stopped"
    if why := why_queues_bind(given):
        return why
    if jobs.min_cpus.any() or jobs.min_memory_bytes.any():
        return "jobs insist on cores or memory"
    if config.locality.kinds(jobs, 0.0):
        return f"{config.locality.name} treats jobs of the same size differently"
    if not isinstance(given.ledger, ProportionalLedger):
        return f"under {config.mechanism.name} cores and memory depend on the other jobs of the server"
    widest = np.sort(servers.num_gpus)[::-1].cumsum()  # on 1, 2, 3 ... servers
    most_servers = np.where(jobs.max_servers == 0, len(servers), np.minimum(jobs.max_servers, len(servers)))
    if (jobs.max_gpus > widest[most_servers - 1]).any():
        return "a job may ask for more GPUs than its servers have"
    return ShareRounds(given, policy, given.ledger)


class _Floor(GpuBoard):
    """Which job sits where: the part of a ``Board`` that resizing uses, kept from round to round."""

    __slots__ = ("num_gpus",)

    def __init__(self, servers: ServerTable, num_gpus: list[int]) -> None:
        super().__init__(servers)
        self.num_gpus = num_gpus

    def fits(self, row: int) -> Fits | None:
        return None

    def fits_after(self, row: int, server: int, gpus: int, leaving: Sequence[int]) -> bool:
        return True


class ShareRounds:
    """Rounds planned from the shares that changed."""

    def __init__(self, given: PlannerInput, policy: SharePolicy, ledger: ProportionalLedger) -> None:
        servers, jobs = given.servers, given.jobs
        self.unsettled, self._round_s = False, DEFAULT_ROUND_S
        self._drifts = not isinstance(policy, ChangesBySelf)
        self._columns, self._servers, self._queues, self._policy = given.columns, servers, given.queues, policy
        self._ledger, self._capacity = ledger, int(servers.num_gpus.sum())
        self._floor = _Floor(servers, jobs.num_gpus.tolist())
        self._reseat = ElasticSeats(
            self._floor,
            given.config.locality,
            num_gpus=self._floor.num_gpus,
            min_gpus=jobs.min_gpus.tolist(),
            max_servers=jobs.max_servers.tolist(),
            kind=[()] * len(jobs),
        )

    def plan(self, world: World) -> Changes:
        """Return what the round changes."""
        floor, columns, now_s = self._floor, self._columns, world.now_s
        self._round_s = world.round_s
        for row in world.released:
            floor.leave(row)
        world.released.clear()
        world.arrived.clear()
        rows = columns.active
        changes = Changes()
        self.unsettled = False
        if not len(rows):
            return changes
        jobs = columns.look(rows, now_s)
        held = columns.held_gpus[rows].astype(np.int64)
        is_lent = bool(columns.lent.any())  # rarely: otherwise its columns are not gathered
        shares = self._shares(jobs, held, now_s, is_lent=is_lent)
        rises = (held > 0) & (shares == 0)
        if is_lent:
            rises |= jobs.lent
        home = {row: floor.leave(row) for row in rows[rises].tolist()}
        moved, stay = self._resize(jobs, shares, held, home, now_s)
        if floor.space.total and not shares.all():
            order = self._order(jobs, np.flatnonzero(shares == 0), shares, held, now_s)
            lent = self._reseat.lend(rows[order].tolist(), home, lambda _: True)
            stay.update(row for row in lent if is_inside(floor.seats[row], home.get(row, ())))
            changes.lent = frozenset(lent)
            moved += lent
        gone = [row for row in home if row not in stay and floor.seats.get(row) != home[row]]
        changes.stopped = {row: _MOVED if row in floor.seats else _NO_SHARE for row in gone}
        before = {row: world.seats.get(row, ()) for row in moved}
        seats = {row: floor.seats[row] for row in moved if row in floor.seats}
        grants = self._ledger.sit(seats, (), floor.space.free)
        changes.started = {row: grant for row, grant in sorted(grants.items()) if grant != before[row]}
        # A policy that does not say when its shares change is called in every round.
        self.unsettled = bool(changes.started or changes.stopped) or (self._drifts and bool(world.seats))
        return changes

    def _shares(self, jobs: JobTable, held: IntArray, now_s: float, *, is_lent: bool) -> IntArray:
        """Return the shares; to the policy, jobs on lent GPUs wait and have never run."""
        if is_lent:
            lent = jobs.lent
            asked: Any = self._columns.look(jobs.job_id, now_s)  # a Glimpse keeps what is assigned
            for name in ("executed_s", "waited_s", "rate"):
                getattr(asked, name)  # gathered while they still run
            asked.running, asked.held_at_s = jobs.running & ~lent, np.where(lent, np.inf, jobs.held_at_s)
            asked.first_start_s = np.where(lent, np.inf, jobs.first_start_s)
            jobs, held = asked, np.where(lent, 0, held)
        num_gpus = min(self._capacity, int(jobs.max_gpus.sum()))
        return self._policy.shares(self._snapshot(jobs, held, now_s), num_gpus)

    def _resize(
        self, jobs: JobTable, shares: IntArray, held: IntArray, home: dict[int, Seats], now_s: float
    ) -> tuple[list[int], set[int]]:
        """Shrink, grow and start jobs; return the jobs tried, and those that go on where they are in ``home``."""
        floor, reseat, rows = self._floor, self._reseat, jobs.job_id
        tried: list[int] = []
        less, more = (shares < held) & (shares > 0), shares > held
        if home:
            less &= ~jobs.lent
            more |= jobs.lent & (shares > 0)
        for row, share in zip(rows[less].tolist(), shares[less].tolist(), strict=True):
            floor.sit(row, shrunk(floor.leave(row), share))
            tried.append(row)
        if not more.any():
            return tried, set()
        back = {}
        for row, share in zip(rows[more].tolist(), shares[more].tolist(), strict=True):
            floor.num_gpus[row] = share
            if row in home:
                back[row] = shrunk(home[row], share)
        order = self._order(jobs, np.flatnonzero(more), shares, held, now_s)
        served = rows[order].tolist()
        return [*tried, *served], reseat.serve(served, home=back)

    def _order(self, jobs: JobTable, which: IntArray, shares: IntArray, held: IntArray, now_s: float) -> IntArray:
        """Return some of the rows of the table in the order of the policy."""
        asked = self._columns.look(jobs.job_id, now_s)
        cast(Any, asked).num_gpus = np.where(shares > 0, shares, jobs.min_gpus)  # a Glimpse keeps what is assigned
        keys = self._policy.priority(self._snapshot(asked, held, now_s))
        by = (jobs.job_id, jobs.arrival_s, jobs.first_start_s, keys)
        return which[np.lexsort([column[which] for column in by])]

    def _snapshot(self, jobs: JobTable, held: IntArray, now_s: float) -> Snapshot:
        """Return what policies look at; of the placements only how many GPUs each job holds."""
        running = np.flatnonzero(held)
        nothing = np.zeros(len(running))
        return Snapshot(
            now_s=now_s,
            jobs=jobs,
            servers=self._servers,
            queues=self._queues,
            held=Placements(
                job=running,
                server=np.zeros(len(running), dtype=np.int64),
                num_gpus=held[running],
                cpus=nothing,
                memory_bytes=nothing,
            ),
            round_s=self._round_s,
        )

    def restore(self, world: World) -> None:
        """Go on from a state: ``world`` has the seats."""
        for row, grant in world.seats.items():
            self._floor.sit(row, tuple((server, gpus) for server, gpus, _, _ in grant))

    def rests_s(self, world: World) -> float:
        """Return for how long the shares stay as they are while nothing arrives or ends, seconds."""
        if not isinstance(self._policy, ChangesBySelf):
            return math.inf
        jobs = self._columns.look(self._columns.active, world.now_s)
        return float(self._policy.next_change_s(jobs).min(initial=math.inf))
