"""Record the cluster and the placements of jobs over time while a replay runs; nothing by default."""

import numpy as np

from scheduler.core.model.changes import Grant
from scheduler.core.model.plan import WaitReason
from scheduler.core.model.tables import IntArray, ServerTable
from scheduler.simulator.state.outcome import Series, Stays
from scheduler.simulator.state.waits import WaitTimes


class Tally:
    """Notes of a replay.

    Attributes:
        wants_series: Whether the cluster over time is noted.
        wants_stays: Whether placements over time are noted.
        waits: How long each job waited for which reason; None when not noted.
    """

    def __init__(
        self,
        servers: ServerTable,
        queue: IntArray,
        *,
        num_queues: int,
        wants_series: bool,
        wants_stays: bool,
        wants_reasons: bool = False,
    ) -> None:
        """Begin with an empty cluster; ``queue`` holds the queue of each job."""
        self.waits = WaitTimes(len(queue)) if wants_reasons else None
        self.wants_series, self.wants_stays = wants_series, wants_stays
        self._queue: list[int] = queue.tolist()
        self._free: list[int] = servers.num_gpus.tolist()
        self._held = [0] * num_queues
        self._allocated, self._useful = 0, 0.0
        self._useful_of: dict[int, float] = {}
        self._running, self._waiting = 0, 0
        self._rows: list[tuple[float, ...]] = []
        self._guests: set[int] = set()
        self._begun: dict[int, float] = {}
        self._stays: list[tuple[int, int, int, float, float]] = []

    @property
    def notes(self) -> bool:
        """Return whether anything is noted at all."""
        return self.wants_series or self.wants_stays or self.waits is not None

    def arrived(self, row: int, at_s: float) -> None:
        """Note that a job joined the line."""
        if self.waits:
            self.waits.begin(row, WaitReason.NEW, at_s)
        if self.wants_series:
            self._waiting += 1
            self._note(at_s)

    def held(self, row: int, reason: WaitReason, at_s: float) -> None:
        """Note that a job has come and waits outside the line."""
        if self.waits:
            self.waits.begin(row, reason, at_s)

    def sat(self, row: int, seats: Grant, at_s: float) -> None:
        """Note that a job began on seats."""
        if self.waits:
            self.waits.end(row, at_s)
        if self.wants_stays:
            self._begun[row] = at_s
        if self.wants_series:
            self._waiting -= 1
            self._running += 1
            self._move(row, seats, 1)

    def rate(self, row: int, gpus: int, rate: float, at_s: float) -> None:
        """Note the speed of a job that sits."""
        if self.wants_series:
            self._useful += gpus * rate - self._useful_of.get(row, 0.0)
            self._useful_of[row] = gpus * rate
            self._note(at_s)

    def left(self, row: int, seats: Grant, at_s: float) -> None:
        """Note that a job left its seats."""
        if self.waits:
            self.waits.begin(row, WaitReason.NEW, at_s)
        if self.wants_stays:
            begin_s = self._begun.pop(row)
            self._stays += [(row, server, gpus, begin_s, at_s) for server, gpus, _, _ in seats]
        if self.wants_series:
            self._running -= 1
            self._waiting += 1
            self._useful -= self._useful_of.pop(row, 0.0)
            if row in self._guests:
                self._guests.discard(row)
            else:
                self._move(row, seats, -1)
            self._note(at_s)

    def shares(self, row: int, seats: Grant, at_s: float, *, is_guest: bool) -> None:
        """Note that a seated job is from now on a guest on the GPUs of another job, or has GPUs of its own."""
        if self.wants_series and is_guest != (row in self._guests):
            self._guests ^= {row}
            self._move(row, seats, -1 if is_guest else 1)
            self._note(at_s)

    def gone(self, row: int, at_s: float) -> None:
        """Note that a job that sits nowhere is done, or comes back later only."""
        if self.waits:
            self.waits.begin(row, WaitReason.BACKOFF, at_s)  # counted when it comes back
        if self.wants_series:
            self._waiting -= 1
            self._note(at_s)

    def _move(self, row: int, seats: Grant, sign: int) -> None:
        for server, gpus, _, _ in seats:
            self._free[server] -= sign * gpus
            self._allocated += sign * gpus
            self._held[self._queue[row]] += sign * gpus

    def _note(self, at_s: float) -> None:
        if self._rows and self._rows[-1][0] == at_s:
            self._rows.pop()
        largest = max(self._free, default=0)
        self._rows.append((at_s, self._allocated, self._useful, self._running, self._waiting, largest, *self._held))

    def series(self, now_s: float) -> Series | None:
        """Return the cluster over time; jobs that still run hold their GPUs until ``now_s``."""
        if not self.wants_series:
            return None
        if self._allocated and self._rows[-1][0] < now_s:
            self._note(now_s)
        table = np.array(self._rows, dtype=np.float64).reshape(len(self._rows), 6 + len(self._held))
        return Series(
            at_s=table[:, 0],
            allocated_gpus=table[:, 1],
            useful_gpus=table[:, 2],
            running_jobs=table[:, 3].astype(np.int64),
            waiting_jobs=table[:, 4].astype(np.int64),
            largest_free_gpus=table[:, 5].astype(np.int64),
            queue_gpus=table[:, 6:],
        )

    def stays(self, seats: dict[int, Grant], now_s: float) -> Stays | None:
        """Return placements over time; ``seats`` are those of jobs that still run."""
        if not self.wants_stays:
            return None
        rows = list(self._stays)
        for row, grant in seats.items():
            rows += [(row, server, gpus, self._begun[row], now_s) for server, gpus, _, _ in grant]
        table = np.array(rows, dtype=np.float64).reshape(-1, 5).T
        job, server, gpus = (column.astype(np.int64) for column in table[:3])
        return Stays(job=job, server=server, num_gpus=gpus, begin_s=table[3], end_s=table[4])
