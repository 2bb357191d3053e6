"""Running jobs as those see them who would like their seats: who is weaker, and what that would free."""

from collections.abc import Callable, Iterable, Set

import numpy as np

from scheduler.core.packing.draft import Seats
from scheduler.core.tables import BoolArray, FloatArray, IntArray

# Place of a job in the order of the policy: (key, first start, arrival, row), smallest first.
Key = tuple[float, float, float, int]


class Roster:
    """Who sits where, as columns: one entry for each pair of job and server, in any order.

    Attributes:
        count: Entries in use; those from here on mean nothing.
        job: Row of the job.
        server: Row of the server.
        gpus: GPUs there.
        first: Whether it is the first entry of its job.
    """

    __slots__ = ("_at", "_rows", "count", "first", "gpus", "job", "server")

    def __init__(self, num_jobs: int, num_gpus: int) -> None:
        self.count = 0
        self.job, self.server = np.zeros(num_gpus, dtype=np.int64), np.zeros(num_gpus, dtype=np.int64)
        self.gpus, self.first = np.zeros(num_gpus), np.zeros(num_gpus, dtype=np.bool_)
        self._rows: list[int] = []
        self._at: dict[int, list[int]] = {}

    def add(self, row: int, seats: Seats) -> None:
        """Enter the seats of a job."""
        entries = []
        for server, gpus in seats:
            at = self.count
            self.job[at], self.server[at], self.gpus[at], self.first[at] = row, server, gpus, not entries
            self._rows.append(row)
            entries.append(at)
            self.count = at + 1
        self._at[row] = entries

    def remove(self, row: int) -> None:
        """Strike the seats of a job; the last entries move into the gaps."""
        for at in sorted(self._at.pop(row), reverse=True):
            last = self.count = self.count - 1
            moved = self._rows.pop()
            if at != last:
                for column in (self.job, self.server, self.gpus, self.first):
                    column[at] = column[last]
                self._rows[at] = moved
                entries = self._at[moved]
                entries[entries.index(last)] = at


class Rivals:
    """The running jobs at one moment of a walk, with their places in the order of the policy.

    Attributes:
        weakest: Largest key of all.
        order: Rows of rivals, weakest first: those weaker than the first job that asked.
    """

    def __init__(
        self,
        roster: Roster,
        ranks: Callable[[IntArray], tuple[FloatArray, FloatArray, FloatArray]],
        fresh: Set[int],
    ) -> None:
        """Take everybody on the roster but the ``fresh`` ones, who keep the seats they just took."""
        size = roster.count
        self._job, self._server = roster.job[:size].copy(), roster.server[:size].copy()
        self._gpus, self._first = roster.gpus[:size].copy(), roster.first[:size].copy()
        self._key, self._start_s, self._arrival_s = ranks(self._job)
        self._there = np.ones(size, dtype=np.bool_)
        if fresh:
            self._there &= ~np.isin(self._job, list(fresh))
        self.weakest = float(self._key[self._there].max(initial=-np.inf))
        self.order: list[int] = []
        self._sorted: IntArray | None = None
        self._place: dict[int, int] = {}
        self._movable = 0

    def weaker(self, key: Key) -> BoolArray:
        """Return the entries of jobs that come after ``key``."""
        weaker: BoolArray = self._key > key[0]
        same = np.flatnonzero(self._key == key[0])
        if len(same):
            weaker[same] = self._after(same, key)
        weaker &= self._there
        return weaker

    def _after(self, same: IntArray, key: Key) -> BoolArray:
        start_s, arrival_s = self._start_s[same], self._arrival_s[same]
        later = (arrival_s > key[2]) | ((arrival_s == key[2]) & (self._job[same] > key[3]))
        after: BoolArray = (start_s > key[1]) | ((start_s == key[1]) & later)
        return after

    def gpus_on(self, entries: BoolArray, num_servers: int) -> FloatArray:
        """Return (m,) GPUs of the entries by server."""
        return np.bincount(self._server[entries], weights=self._gpus[entries], minlength=num_servers)

    def line_up(self, key: Key, weaker: BoolArray) -> int:
        """Make the order for the first that asks; return how many of it come after ``key``."""
        if self._sorted is None:
            entries = np.flatnonzero(weaker & self._first)
            columns = (self._job, self._arrival_s, self._start_s, self._key)
            self._sorted = entries[np.lexsort([column[entries] for column in columns])][::-1]
            self.order = self._job[self._sorted].tolist()
            self._place = {row: at for at, row in enumerate(self.order)}
            self._movable = len(self.order)
            return self._movable
        return self._count_after(key)

    def _count_after(self, key: Key) -> int:
        """Return how many of the order come after ``key``, those that have left included."""
        assert self._sorted is not None
        keys = self._key[self._sorted]
        after: BoolArray = keys > key[0]
        same = np.flatnonzero(keys == key[0])
        after[same] = self._after(self._sorted[same], key)
        return int(after.sum())

    def settle(self, movable: int) -> Iterable[int]:
        """Let all but the ``movable`` weakest keep their seats; return those who do so from now on."""
        settled = self.order[movable : self._movable]
        self._movable = min(self._movable, movable)
        return settled

    def is_settled(self, row: int) -> bool:
        """Return whether the row keeps its seats."""
        return self._place[row] >= self._movable

    def drop(self, row: int) -> Key:
        """Take a job that leaves out, and return its key."""
        entries = np.flatnonzero(self._job == row)
        self._there[entries] = False
        at = entries[0]
        return float(self._key[at]), float(self._start_s[at]), float(self._arrival_s[at]), row
