"""Running jobs as those see them who would like their seats: who is weaker, and what that would free."""

from collections.abc import Callable

import numpy as np

from scheduler.core.packing.draft import Seats
from scheduler.core.tables import NO_ROW, BoolArray, FloatArray, IntArray

# Place of a job in the order of the policy: (key, rank of seniority, row), smallest first.
Key = tuple[float, float, int]


class Roster:
    """Who sits where, as columns: one entry for each pair of job and server, in any order.

    Attributes:
        count: Entries in use; those from here on mean nothing.
        job: Row of the job.
        server: Row of the server.
        gpus: GPUs there.
    """

    __slots__ = ("_at", "_rows", "count", "gpus", "job", "server")

    def __init__(self, num_jobs: int, num_gpus: int) -> None:
        self.count = 0
        self.job, self.server = np.zeros(num_gpus, dtype=np.int64), np.zeros(num_gpus, dtype=np.int64)
        self.gpus = np.zeros(num_gpus)
        self._rows: list[int] = []
        self._at: dict[int, list[int]] = {}

    def add(self, row: int, seats: Seats) -> None:
        """Enter the seats of a job."""
        entries: list[int] = []
        for server, gpus in seats:
            at = self.count
            self.job[at], self.server[at], self.gpus[at] = row, server, gpus
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
                for column in (self.job, self.server, self.gpus):
                    column[at] = column[last]
                self._rows[at] = moved
                entries = self._at[moved]
                entries[entries.index(last)] = at


class Rivals:
    """The running jobs at one moment of a walk, with their places in the order of the policy.

    Attributes:
        weakest: The last of those still there in the order of the policy.
        most_on_one: GPUs that one server can have free at most without those who are weaker than whoever asks next.
        most_in_all: The same for all servers together.
        limit: How many entries of the line may still be moved; the jobs of the others keep their seats.
        job: Rows of the jobs in line, weakest first: those weaker than the first job that asked, an entry for each
            server.
        server: (e,) server of each entry.
        gpus: (e,) GPUs of each entry.
        there: (e,) whether the job of the entry still sits there.
    """

    def __init__(
        self,
        roster: Roster,
        ranks: Callable[[IntArray], tuple[FloatArray, FloatArray]],
        fresh: BoolArray,
    ) -> None:
        """Take everybody on the roster but the ``fresh`` ones, (n,) who keep the seats they just took."""
        size = roster.count
        self._job, self._server = roster.job[:size].copy(), roster.server[:size].copy()
        self._gpus = roster.gpus[:size].copy()
        self._key, self._rank = ranks(self._job)
        self._there = ~fresh[self._job]
        self.weakest = self._last_of_all()
        self.most_on_one = self.most_in_all = np.inf
        self._line: IntArray | None = None
        self.limit = 0

    def _last_of_all(self) -> Key:
        entries = self._there.nonzero()[0]
        if not len(entries):
            return -np.inf, -np.inf, NO_ROW
        keys = self._key[entries]
        last = entries[keys == keys.max()]
        at = int(last[self._rank[last].argmax()])
        return float(self._key[at]), float(self._rank[at]), int(self._job[at])

    def seat_of_weakest(self) -> tuple[int, int]:
        """Return the first server of the weakest of all, and that job."""
        row = self.weakest[2]
        return int(self._server[(self._job == row) & self._there].min()), row

    def weaker(self, key: Key) -> BoolArray:
        """Return the entries, in any order, of jobs that come after ``key``."""
        weaker = self._after(slice(None), key)
        weaker &= self._there
        return weaker

    def _after(self, entries: IntArray | slice, key: Key) -> BoolArray:
        keys = self._key[entries]
        after: BoolArray = keys > key[0]
        same = keys == key[0]
        if same.any():
            same &= self._rank[entries] > key[1]
            after |= same
        return after

    def gpus_on(self, entries: BoolArray, num_servers: int) -> FloatArray:
        """Return (m,) GPUs of the entries by server."""
        gpus = np.bincount(self._server[entries], weights=self._gpus[entries], minlength=num_servers)
        return np.asarray(gpus, dtype=np.float64)

    def line_up(self, key: Key, weaker: BoolArray) -> None:
        """Make the line for the first that asks; for later ones let those keep their seats that are not weaker."""
        if self._line is not None:
            self.limit = int(self._after(self._line, key).sum())
            return
        entries = weaker.nonzero()[0]
        ranked = entries[self._rank[entries].argsort()[::-1]]
        line = ranked[(-self._key[ranked]).argsort(kind="stable")]
        jobs = self._job[line]
        if (jobs[1:] == jobs[:-1]).any():  # gangs on several servers
            columns = (self._server[entries], -self._rank[entries], -self._key[entries])
            line = entries[np.lexsort(columns)]
        self._line, self.limit = line, len(line)
        self.job, self.server, self.gpus = self._job[line], self._server[line], self._gpus[line]
        self.there = self._there[line]

    def drop(self, row: int) -> Key:
        """Take a job that leaves out, and return its key."""
        entries = (self._job == row).nonzero()[0]
        self._there[entries] = False
        if self._line is not None:
            self.there[self.job == row] = False
        if row == self.weakest[2]:
            self.weakest = self._last_of_all()
        at = entries[0]
        return float(self._key[at]), float(self._rank[at]), row


class Search:
    """Finds room for gangs of one shape among free GPUs and those of rivals; a ``VictimSearch`` over columns.

    It goes past the rivals, weakest first, until some server would have enough without those passed; the next gang of
    the shape goes on from there.
    """

    def __init__(self, rivals: Rivals, num_gpus: int) -> None:
        self._rivals, self._num_gpus = rivals, num_gpus
        self._at = 0
        self._spent = False
        self._found: list[int] = []
        self._seen: list[IntArray] = []

    def notice(self, server: int) -> None:
        """Look at a server again whose free GPUs have grown."""
        if any((servers == server).any() for servers in self._seen):
            self._found.append(server)

    def one_server(self, free: FloatArray) -> int:
        """Return a server that holds the whole gang once the rivals of ``victims`` have left, or NO_ROW."""
        while self._found:
            server = self._found[-1]
            if free[server] + self._rivals.gpus[self._passed_on(server)].sum() >= self._num_gpus:
                return server
            self._found.pop()
        rivals, at = self._rivals, self._at
        ahead = at + rivals.there[at : rivals.limit].nonzero()[0]
        if not len(ahead):
            return NO_ROW
        sums = _running_sums(rivals.server[ahead], rivals.gpus[ahead])
        hits = (sums >= self._missing(free, ahead)).nonzero()[0]
        if not len(hits):
            self._at = len(rivals.job)
            self._seen.append(rivals.server[ahead])
            return NO_ROW
        hit = ahead[hits[0]]
        # All entries of the job are passed with the one that is enough.
        same_job = np.flatnonzero(rivals.job[hit:] == rivals.job[hit])
        self._at = int(hit) + int(same_job[-1]) + 1
        self._seen.append(rivals.server[ahead[ahead < self._at]])
        server = int(rivals.server[hit])
        self._found.append(server)
        return server

    def _missing(self, free: FloatArray, ahead: IntArray) -> FloatArray:
        """Return what the server of each entry lacks before any rival ahead leaves it."""
        missing = self._num_gpus - free
        if self._at:
            missing = missing - self.gain(len(free))
        return np.asarray(missing[self._rivals.server[ahead]], dtype=np.float64)

    def _passed(self) -> IntArray:
        """Return the entries passed whose jobs may still be moved."""
        return self._rivals.there[: min(self._at, self._rivals.limit)].nonzero()[0]

    def _passed_on(self, server: int) -> IntArray:
        passed = self._passed()
        on_server: IntArray = passed[self._rivals.server[passed] == server]
        return on_server

    def gain(self, num_servers: int) -> FloatArray:
        """Return (m,) GPUs by server that come free if all rivals passed leave."""
        passed = self._passed()
        gain = np.bincount(self._rivals.server[passed], weights=self._rivals.gpus[passed], minlength=num_servers)
        return np.asarray(gain, dtype=np.float64)

    def several_servers(self, free: FloatArray, choose: Callable[[list[int]], Seats]) -> Seats:
        """Return seats on several servers once everybody who is weaker has left, or nothing; after ``one_server``."""
        if self._spent:
            return ()
        room = free + self.gain(len(free))
        seats = choose(room.astype(np.int64).tolist()) if room.sum() >= self._num_gpus else ()
        self._spent = not seats
        return seats

    def victims(self, server: int, gpus: int, free: FloatArray) -> list[int]:
        """Return who has to leave the server so that ``gpus`` come free: the least important, and none in vain."""
        entries = self._passed_on(server)
        rows, counts = self._rivals.job[entries].tolist(), self._rivals.gpus[entries].tolist()
        missing = gpus - float(free[server])
        taken: list[tuple[int, float]] = []
        for row, count in zip(rows, counts, strict=True):
            if missing <= 0:
                break
            taken.append((row, count))
            missing -= count
        for victim in reversed(taken):
            if missing + victim[1] <= 0:
                taken = [other for other in taken if other is not victim]
                missing += victim[1]
        return [row for row, _ in taken]


def _running_sums(servers: IntArray, gpus: FloatArray) -> FloatArray:
    """Return for each entry the GPUs of all entries of its server up to it."""
    by_server = servers.argsort(kind="stable")
    ordered, amounts = servers[by_server], gpus[by_server]
    sums = amounts.cumsum()
    begins = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=begins[1:])
    # What the servers before had in all, carried along to the entries of each server.
    before = np.maximum.accumulate(np.where(begins, sums - amounts, 0.0))
    running = np.empty_like(sums)
    running[by_server] = sums - before
    return running
