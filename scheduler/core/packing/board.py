"""The state of a walk: where each row sits, what is free, and what each queue holds."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from scheduler.core.model.barred import NO_SERVERS
from scheduler.core.model.cpu_memory_bounds import Needs
from scheduler.core.model.queue_tree import QueueTree, subtree_sums
from scheduler.core.model.tables import NO_ROW, IntArray, JobTable, Placements, ServerTable
from scheduler.core.packing.draft import Seats
from scheduler.core.packing.free_gpus import Fits, FreeGpus, Topology
from scheduler.core.packing.kept_placements import seats_by_job

# Float sums of cores and bytes may miss their exact value by this share of a server.
TOLERANCE = 1e-9
_DUST_GPUS = 1e-6
# With more changes of servers, or more kinds of jobs, to remember than this, what fits is counted anew.
_MOST_CHANGES, _MOST_COUNTS = 4_096, 512

# What stands in ``Board.server`` for a row on several servers.
SEVERAL = -2


class Board:
    """Seats of running and granted jobs.

    Rows below ``len(jobs)`` are jobs. Rows from there on stand for GPUs that jobs outside the table are about to leave:
    they keep their seats until a job takes them, and cost nothing to displace.

    Attributes:
        space: GPUs that no row sits on.
        seats: Where each row sits now.
        server: (rows,) the same for rows on one server; NO_ROW for rows on none, ``SEVERAL`` for more.
        num_gpus: GPUs of each row.
        queue: Queue of each row, NO_ROW for GPUs that are being left.
        held_gpus: (k,) GPUs that each queue holds now, with all queues below it.
        departures: How many rows have left seats that others did not take at once.
    """

    __slots__ = (
        "_barred",
        "_changed",
        "_cpus_left",
        "_gpus",
        "_least",
        "_memory_left",
        "_paths",
        "_queue",
        "_usable",
        "departures",
        "held_gpus",
        "num_gpus",
        "queue",
        "seats",
        "server",
        "space",
        "tight",
    )

    def __init__(
        self,
        *,
        jobs: JobTable,
        servers: ServerTable,
        needs: Needs,
        tree: QueueTree,
        held: Placements,
        releasing: Placements,
        by_size: bool = False,
    ) -> None:
        """Seat the running jobs, and in rows of their own the GPUs that jobs outside the table are about to leave.

        ``by_size`` keeps account of the sizes of the gangs on each server.
        """
        num_jobs, num_leaving = len(jobs), len(releasing.server)
        leaving = np.arange(num_jobs, num_jobs + num_leaving)
        self._gpus = np.concatenate((jobs.num_gpus, releasing.num_gpus))
        self.num_gpus: list[int] = self._gpus.tolist()
        self._queue = np.concatenate((jobs.queue, np.full(num_leaving, NO_ROW)))
        self.queue: list[int] = self._queue.tolist()
        self._paths = [*tree.paths, ()]  # NO_ROW, the queue of GPUs that are being left, finds the last path
        self.seats: dict[int, Seats] = seats_by_job(held)
        self.seats |= seats_by_job(replace(releasing, job=leaving))
        seats_each = np.bincount(held.job, minlength=num_jobs)
        sits = seats_each > 0
        self.held_gpus: list[int] = subtree_sums(tree, jobs.queue[sits], jobs.num_gpus[sits]).tolist()
        self.departures = 0
        self.tight = needs.tight
        self._barred = needs.barred
        row, server = np.concatenate((held.job, leaving)), np.concatenate((held.server, releasing.server))
        self.server = np.full(num_jobs + num_leaving, NO_ROW)
        self.server[row] = server
        self.server[:num_jobs][seats_each > 1] = SEVERAL
        self.space = _free_gpus(servers, server, np.concatenate((held.num_gpus, releasing.num_gpus)))
        if by_size:
            self.space.sizes = [{} for _ in range(len(servers))]
            for each, seats in self.seats.items():
                self._count_sizes(each, seats, 1)
        if self.tight:
            self._book_all(servers, needs, releasing)

    def _book_all(self, servers: ServerTable, needs: Needs, releasing: Placements) -> None:
        """Begin the account of cores and memory with what the seated rows must have."""
        self._least = _Least(needs, releasing)
        self._cpus_left = (servers.num_cpus * (1 + TOLERANCE)).tolist()
        self._memory_left = (servers.memory_bytes * (1 + TOLERANCE)).tolist()
        self._usable: dict[tuple[float, float], _Usable] = {}
        self._changed: list[int] = []
        for row, seats in self.seats.items():
            self._book(row, seats, 1)

    def _book(self, row: int, seats: Seats, sign: int) -> None:
        for server, gpus in seats:
            cpus, memory = self._least.of(row, server)
            self._cpus_left[server] -= sign * gpus * cpus
            self._memory_left[server] -= sign * gpus * memory
        if self._least.alike:
            self._changed += [server for server, _ in seats]

    def _count_sizes(self, row: int, seats: Seats, sign: int) -> None:
        sizes = self.space.sizes
        if sizes is None or self.queue[row] == NO_ROW:
            return  # GPUs that are being left belong to no gang
        for server, gpus in seats:
            here = sizes[server]
            here[self.num_gpus[row]] = here.get(self.num_gpus[row], 0) + sign * gpus

    def fits(self, row: int) -> Fits | None:
        """Return the test whether a server, its cores and memory allow so many GPUs of the row; None when always."""
        if not self.tight:
            return None
        everywhere = None if self._barred else self._least.everywhere(row)
        if everywhere is None:
            return lambda server, gpus: self.fits_after(row, server, gpus, ())
        (cpus, memory), cpus_left, memory_left = everywhere, self._cpus_left, self._memory_left
        # Asked of hundreds of servers for one gang, so as little as can be.
        return lambda server, gpus: gpus * cpus <= cpus_left[server] and gpus * memory <= memory_left[server]

    def may_fit(self, row: int) -> bool:
        """Return False where too few free GPUs have the cores and memory beside them that the row needs.

        Never False where a search finds seats. Most jobs that insist on cores are asked of again and again in vain,
        so what fits is counted once for all that need the same, and from then on as servers change.
        """
        everywhere = self._least.everywhere(row) if self.tight else None
        if everywhere is None:
            return True
        if len(self._changed) > _MOST_CHANGES or len(self._usable) > _MOST_COUNTS:
            self._changed.clear()
            self._usable.clear()
        usable, num_servers = self._usable.get(everywhere), len(self.space.free)
        if usable is None:
            usable = self._usable[everywhere] = _Usable(num_servers)
            changed: Iterable[int] = range(num_servers)
        elif len(self._changed) - usable.seen < num_servers:
            changed = self._changed[usable.seen :]
        else:
            changed = range(num_servers)
        usable.seen = len(self._changed)
        free, cpus_left, memory_left, (cpus, memory) = self.space.free, self._cpus_left, self._memory_left, everywhere
        fitting = usable.fitting
        for server in changed:
            # Rounded up by a little, since a search multiplies where this divides.
            most = min(
                free[server],
                int(cpus_left[server] / cpus + _DUST_GPUS) if cpus else free[server],
                int(memory_left[server] / memory + _DUST_GPUS) if memory else free[server],
            )
            usable.total += max(most, 0) - fitting[server]
            fitting[server] = max(most, 0)
        return usable.total >= self.num_gpus[row]

    def fits_after(self, row: int, server: int, gpus: int, leaving: Sequence[int]) -> bool:
        """Return whether the row may use the server, and has enough cores and memory once ``leaving`` have left it."""
        if not self.tight:
            return True
        if self._barred and server in self._barred.get(row, NO_SERVERS):
            return False
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
        return self._paths[self.queue[row]]

    def columns(self, rows: IntArray) -> tuple[IntArray, IntArray]:
        """Return GPUs and queues of the rows."""
        return self._gpus[rows], self._queue[rows]

    def sit(self, row: int, seats: Seats) -> None:
        """Seat a row on free GPUs."""
        self.seats[row] = seats
        self.server[row] = seats[0][0] if len(seats) == 1 else SEVERAL
        for server, gpus in seats:
            self.space.take(server, gpus)
        if self.space.sizes is not None:
            self._count_sizes(row, seats, 1)
        if self.tight:
            self._book(row, seats, 1)
        for node in self._paths[self.queue[row]]:
            self.held_gpus[node] += self.num_gpus[row]

    def leave(self, row: int) -> Seats:
        """Take a row off its seats, and return them."""
        seats = self.seats.pop(row)
        self.server[row] = NO_ROW
        self.departures += 1
        if self.tight:
            self._book(row, seats, -1)
        if self.space.sizes is not None:
            self._count_sizes(row, seats, -1)
        for server, gpus in seats:
            self.space.give(server, gpus)
        for node in self._paths[self.queue[row]]:
            self.held_gpus[node] -= self.num_gpus[row]
        return seats

    def hand_over(self, row: int, other: int) -> None:
        """Take a row off its seats and seat another on the very same ones; what is free does not change."""
        if self.tight or self.space.sizes is not None:
            self.sit(other, self.leave(row))
            return
        self.seats[other] = self.seats.pop(row)
        self.server[other] = self.server.item(row)
        self.server[row] = NO_ROW
        left, taken, gpus = self.queue[row], self.queue[other], self.num_gpus[row]
        if left != taken:
            for node in self._paths[left]:
                self.held_gpus[node] -= gpus
            for node in self._paths[taken]:
                self.held_gpus[node] += gpus

    def swap(self, row: int, other: int) -> None:
        """Let two rows that ask for the same change seats."""
        for column in (self.seats, self.server):
            column[row], column[other] = column[other], column[row]

    def entries(self, rows: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Return the seats of rows that all sit, one entry for each server of each row, in the order of the rows.

        Returns:
            (e,) positions in ``rows``, servers, and GPUs there.
        """
        at, server = np.arange(len(rows)), self.server[rows]
        gpus = self._gpus[rows]
        several = np.flatnonzero(server == SEVERAL)
        if len(several):
            seats = [self.seats[row] for row in rows[several].tolist()]
            times = np.ones(len(rows), dtype=np.int64)
            times[several] = [len(each) for each in seats]
            at = np.repeat(at, times)
            gang = np.flatnonzero(np.repeat(server == SEVERAL, times))
            server, gpus = server[at], gpus[at]
            server[gang] = [each for seat in seats for each, _ in seat]
            gpus[gang] = [each for seat in seats for _, each in seat]
        return at, server, gpus


def _free_gpus(servers: ServerTable, server: IntArray, gpus: IntArray) -> FreeGpus:
    """Return what is free when each entry holds so many GPUs of its server."""
    free = servers.num_gpus - np.bincount(server, weights=gpus, minlength=len(servers)).astype(np.int64)
    return FreeGpus(free.tolist(), Topology(gpus=servers.num_gpus.tolist(), rack=servers.rack.tolist()))


class Seated(Mapping[int, Seats]):
    """Where rows of a board sit, in an order: a look at the board, of which nothing is copied."""

    __slots__ = ("_board", "_rows")

    def __init__(self, board: Board, rows: IntArray) -> None:
        """Look at rows that all sit."""
        self._board, self._rows = board, rows

    def __getitem__(self, row: int) -> Seats:
        return self._board.seats[row]

    def __iter__(self) -> Iterator[int]:
        return iter(self._rows.tolist())

    def __len__(self) -> int:
        return len(self._rows)

    def columns(self) -> tuple[IntArray, IntArray, IntArray]:
        """Return the seats as columns (row, server, GPUs)."""
        at, server, gpus = self._board.entries(self._rows)
        return self._rows[at], server, gpus


class _Usable:
    """Number of free GPUs beside which one kind of job finds its cores and bytes: by server (``fitting``), in all
    (``total``), as of change number ``seen``.
    """

    __slots__ = ("fitting", "seen", "total")

    def __init__(self, num_servers: int) -> None:
        self.fitting, self.total, self.seen = [0] * num_servers, 0, 0


class _Least:
    """Cores and bytes per GPU that a row must have on a server."""

    __slots__ = ("_cpus", "_cpus_share", "_everywhere", "_memory", "_memory_share", "alike")

    def __init__(self, needs: Needs, releasing: Placements) -> None:
        fixed_cpus = (releasing.cpus / releasing.num_gpus).tolist()
        fixed_memory = (releasing.memory_bytes / releasing.num_gpus).tolist()
        self._cpus = [*zip(needs.cpus_least.tolist(), needs.cpus_most.tolist(), strict=True)]
        self._cpus += zip(fixed_cpus, fixed_cpus, strict=True)
        self._memory = [*zip(needs.memory_least.tolist(), needs.memory_most.tolist(), strict=True)]
        self._memory += zip(fixed_memory, fixed_memory, strict=True)
        self._cpus_share = needs.cpus_share.tolist()
        self._memory_share = needs.memory_share.tolist()
        self.alike = len({*zip(self._cpus_share, self._memory_share, strict=True)}) == 1
        self._everywhere: dict[int, tuple[float, float]] = {}

    def everywhere(self, row: int) -> tuple[float, float] | None:
        """Return what the row must have on each server; None where servers differ."""
        if not self.alike:
            return None
        found = self._everywhere.get(row)
        if found is None:
            found = self._everywhere[row] = self.of(row, 0)
        return found

    def of(self, row: int, server: int) -> tuple[float, float]:
        least_cpus, most_cpus = self._cpus[row]
        least_memory, most_memory = self._memory[row]
        return (
            max(least_cpus, min(most_cpus, self._cpus_share[server])),
            max(least_memory, min(most_memory, self._memory_share[server])),
        )
