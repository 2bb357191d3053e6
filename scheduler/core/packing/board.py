"""The state of a selection: who sits where, what is free, what each queue holds, and who can no longer be moved."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from scheduler.core.needs import Needs
from scheduler.core.packing.draft import Seats
from scheduler.core.packing.space import Fits, Site, Space
from scheduler.core.queues import QueueTree, limiting, subtree_sums
from scheduler.core.tables import JobTable, ServerTable

if TYPE_CHECKING:
    from scheduler.core.packing.victims import VictimSearch

# Float sums of cores and bytes may miss their exact value by this share of a server.
TOLERANCE = 1e-9


class Board:
    """Seats of running and granted jobs.

    Rows below ``len(jobs)`` are jobs. Rows from there on stand for GPUs that jobs outside the table are about to leave:
    they sit in their place until somebody takes it, and cost nothing to move.

    Attributes:
        space: GPUs that nobody sits on.
        seats: Where each row sits now.
        firm: (rows,) 1 for rows that keep their seats for the rest of the round.
        held_gpus: (k,) GPUs that each queue holds now, with all queues below it.
        firm_gpus: (k,) the part of them that firm rows hold; kept up for queues that could be full only.
        open_gpus: GPUs that no firm row holds.
        departures: How many rows have left their seats.
        starved: Whether a fit since this was last cleared met a server with the GPUs but not the cores or memory.
    """

    __slots__ = (
        "_cpus_left",
        "_least",
        "_limits_of",
        "_memory_left",
        "_noticing",
        "_paths_of",
        "departures",
        "firm",
        "firm_gpus",
        "held_gpus",
        "num_gpus",
        "open_gpus",
        "seats",
        "space",
        "starved",
        "tight",
    )

    def __init__(
        self,
        *,
        jobs: JobTable,
        servers: ServerTable,
        needs: Needs,
        tree: QueueTree,
        held: Mapping[int, Seats],
        releasing: Sequence[tuple[int, int, float, float]],
        by_size: bool = False,
    ) -> None:
        """Seat the running jobs and the GPUs that are being left, given as (server, GPUs, cores, bytes).

        ``by_size`` keeps account of the sizes of the gangs on each server.
        """
        num_jobs = len(jobs)
        self.num_gpus = jobs.num_gpus.tolist() + [gpus for _, gpus, _, _ in releasing]
        queues: list[int] = jobs.queue.tolist()
        outside: list[tuple[int, ...]] = [()] * len(releasing)
        self._paths_of = [tree.paths[queue] for queue in queues] + outside
        limits = limiting(tree, subtree_sums(tree, jobs.queue, jobs.num_gpus))
        self._limits_of = [limits[queue] for queue in queues] + outside
        self.seats: dict[int, Seats] = dict(held)
        self.seats.update({num_jobs + i: ((row[0], row[1]),) for i, row in enumerate(releasing)})
        self.firm = bytearray(num_jobs + len(releasing))
        here = np.fromiter(held, dtype=np.int64, count=len(held))
        self.held_gpus: list[int] = subtree_sums(tree, jobs.queue[here], jobs.num_gpus[here]).tolist()
        self.firm_gpus = [0] * len(tree.paths)
        self.starved = False
        self.departures = 0
        self.tight = needs.tight
        self._noticing: dict[int, list[VictimSearch]] = {}
        free = servers.num_gpus.tolist()
        self.open_gpus: int = sum(free)
        for seats in self.seats.values():
            for server, gpus in seats:
                free[server] -= gpus
        self.space = Space(free, Site(gpus=servers.num_gpus.tolist(), rack=servers.rack.tolist()))
        if by_size:
            self.space.sizes = [{} for _ in free]
            for row in held:
                self._count_sizes(row, self.seats[row], 1)
        if self.tight:
            self._least = _Least(needs, releasing)
            self._cpus_left = (servers.num_cpus * (1 + TOLERANCE)).tolist()
            self._memory_left = (servers.memory_bytes * (1 + TOLERANCE)).tolist()
            for row, seats in self.seats.items():
                self._book(row, seats, 1)

    def _book(self, row: int, seats: Seats, sign: int) -> None:
        for server, gpus in seats:
            cpus, memory = self._least.of(row, server)
            self._cpus_left[server] -= sign * gpus * cpus
            self._memory_left[server] -= sign * gpus * memory

    def _count_sizes(self, row: int, seats: Seats, sign: int) -> None:
        sizes = self.space.sizes
        if sizes is None or not self._paths_of[row]:
            return  # GPUs that are being left belong to no gang
        for server, gpus in seats:
            here = sizes[server]
            here[self.num_gpus[row]] = here.get(self.num_gpus[row], 0) + sign * gpus

    def fits(self, row: int) -> Fits | None:
        """Return the test whether cores and memory of a server allow so many GPUs of the row; None when always."""
        if not self.tight:
            return None

        def fit(server: int, gpus: int) -> bool:
            enough = self.fits_after(row, server, gpus, ())
            self.starved |= not enough
            return enough

        return fit

    def fits_after(self, row: int, server: int, gpus: int, leaving: Sequence[int]) -> bool:
        """Return whether cores and memory of the server are enough for the row once ``leaving`` have left it."""
        if not self.tight:
            return True
        cpus, memory = self._least.of(row, server)
        cpus_left, memory_left = self._cpus_left[server], self._memory_left[server]
        for other in leaving:
            other_cpus, other_memory = self._least.of(other, server)
            count = self.gpus_on(other, server)
            cpus_left += count * other_cpus
            memory_left += count * other_memory
        return bool(gpus * cpus <= cpus_left and gpus * memory <= memory_left)

    def gpus_on(self, row: int, server: int) -> int:
        """Return the GPUs of the row on the server."""
        seats = self.seats[row]
        return seats[0][1] if len(seats) == 1 else sum(gpus for at, gpus in seats if at == server)

    def path(self, row: int) -> tuple[int, ...]:
        """Return the queue of the row and those above it, nearest first."""
        return self._paths_of[row]

    def limits(self, row: int) -> tuple[int, ...]:
        """Return the part of the path with queues that could be full."""
        return self._limits_of[row]

    def watch(self, row: int, search: "VictimSearch") -> None:
        """Tell ``search`` when the row leaves or becomes firm."""
        if row in self._noticing:
            self._noticing[row].append(search)
        else:
            self._noticing[row] = [search]

    def sit(self, row: int, seats: Seats) -> None:
        """Seat a row on free GPUs, for good."""
        self.seats[row] = seats
        for server, gpus in seats:
            self.space.take(server, gpus)
        if self.space.sizes is not None:
            self._count_sizes(row, seats, 1)
        if self.tight:
            self._book(row, seats, 1)
        for node in self._paths_of[row]:
            self.held_gpus[node] += self.num_gpus[row]
        self._settle(row)

    def confirm(self, row: int) -> None:
        """Let a seated row keep its seats for good."""
        if row in self._noticing:
            for search in self._noticing.pop(row):
                search.forget(row, self.seats[row])
        self._settle(row)

    def _settle(self, row: int) -> None:
        self.firm[row] = 1
        self.open_gpus -= self.num_gpus[row]
        for node in self._limits_of[row]:
            self.firm_gpus[node] += self.num_gpus[row]

    def leave(self, row: int) -> Seats:
        """Take a row that is not firm off its seats, and return them."""
        seats = self.seats[row]
        self.departures += 1
        if row in self._noticing:
            for search in self._noticing.pop(row):
                search.forget(row, seats)
        if self.tight:
            self._book(row, seats, -1)
        if self.space.sizes is not None:
            self._count_sizes(row, seats, -1)
        del self.seats[row]
        for server, gpus in seats:
            self.space.give(server, gpus)
        for node in self._paths_of[row]:
            self.held_gpus[node] -= self.num_gpus[row]
        return seats


class _Least:
    """Cores and bytes per GPU that a row must have on a server."""

    __slots__ = ("_cpus", "_cpus_share", "_memory", "_memory_share")

    def __init__(self, needs: Needs, releasing: Sequence[tuple[int, int, float, float]]) -> None:
        fixed_cpus = [cpus / gpus for _, gpus, cpus, _ in releasing]
        fixed_memory = [memory / gpus for _, gpus, _, memory in releasing]
        self._cpus = [*zip(needs.cpus_least.tolist(), needs.cpus_most.tolist(), strict=True)]
        self._cpus += zip(fixed_cpus, fixed_cpus, strict=True)
        self._memory = [*zip(needs.memory_least.tolist(), needs.memory_most.tolist(), strict=True)]
        self._memory += zip(fixed_memory, fixed_memory, strict=True)
        self._cpus_share = needs.cpus_share.tolist()
        self._memory_share = needs.memory_share.tolist()

    def of(self, row: int, server: int) -> tuple[float, float]:
        least_cpus, most_cpus = self._cpus[row]
        least_memory, most_memory = self._memory[row]
        return (
            max(least_cpus, min(most_cpus, self._cpus_share[server])),
            max(least_memory, min(most_memory, self._memory_share[server])),
        )
