"""Seats of elastic jobs whose number of GPUs changes: who shrinks gives up GPUs, who grows takes GPUs near its own.

Nobody is moved for another job here. What was given by the policy and finds no seats is not given in the end: a job
that grows keeps at least what it has, a job that starts begins with the most that fits.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from scheduler.core.config import Locality
from scheduler.core.packing.draft import Seats
from scheduler.core.packing.space import Fits, Gang, Space


def shrunk(seats: Seats, num_gpus: int) -> Seats:
    """Return the seats less some GPUs, taken from the servers where the job has the fewest."""
    surplus = max(0, sum(gpus for _, gpus in seats) - num_gpus)
    left = dict(seats)
    for server, gpus in sorted(seats, key=lambda seat: (seat[1], -seat[0])):
        left[server] -= min(gpus, surplus)
        surplus -= min(gpus, surplus)
    return tuple((server, gpus) for server, gpus in sorted(left.items()) if gpus)


class Floor(Protocol):
    """Who sits where: a ``Board``, or as much of one as is asked for here."""

    space: Space
    seats: dict[int, Seats]
    num_gpus: list[int]

    def sit(self, row: int, seats: Seats) -> None:
        """Seat a row on free GPUs."""

    def leave(self, row: int) -> Seats:
        """Take a row off its seats and return them."""

    def fits(self, row: int) -> Fits | None:
        """Return the test whether cores and memory of a server allow so many GPUs of the row; None when always."""

    def fits_after(self, row: int, server: int, gpus: int, leaving: Sequence[int]) -> bool:
        """Return whether cores and memory of the server are enough for so many more GPUs of the row."""


class Reseat:
    """Finds seats for shares, one job after another.

    Attributes:
        num_gpus: (n,) GPUs of each job: its share, less where that found no seats.
    """

    def __init__(
        self,
        board: Floor,
        locality: Locality,
        *,
        num_gpus: list[int],
        min_gpus: Sequence[int],
        max_servers: Sequence[int],
        kind: Sequence[tuple[float, ...]],
    ) -> None:
        self.num_gpus = num_gpus
        self._board, self._locality = board, locality
        self._min_gpus, self._max_servers, self._kind = min_gpus, max_servers, kind
        self._widest = sorted(board.space.site.gpus, reverse=True)

    @property
    def seats(self) -> dict[int, Seats]:
        """Where every job sits now."""
        return self._board.seats

    def grow(self, rows: Iterable[int]) -> None:
        """Seat running jobs with more GPUs: on their own servers, else elsewhere, else as far as their servers go."""
        board = self._board
        for row in rows:
            wider = self._wider(row)
            own = board.leave(row)
            wanted = self.num_gpus[row]
            if sum(gpus for _, gpus in wider) < wanted:
                wider = self._choose(row, wanted) or wider or own
            self._sit(row, wider)

    def start(self, rows: Iterable[int], *, leaving: Iterable[int] = ()) -> None:
        """Look for seats of jobs that start, on free GPUs and on those that rows outside the table are leaving."""
        for row in leaving:
            self._board.leave(row)
        for row in rows:
            seats = self._choose(row, self.num_gpus[row]) or self._most(row)
            if seats:
                self._sit(row, seats)

    def _wider(self, row: int) -> Seats:
        """Return the seats of the row with as many more GPUs of the same servers as it wants and they have."""
        board = self._board
        seats = dict(board.seats[row])
        missing = self.num_gpus[row] - sum(seats.values())
        for server in sorted(seats, key=lambda server: (-seats[server], server)):
            extra = min(missing, board.space.free[server])
            while extra and not board.fits_after(row, server, extra, ()):
                extra -= 1
            seats[server] += extra
            missing -= extra
        return tuple(sorted(seats.items()))

    def _most(self, row: int) -> Seats:
        """Return seats for the most GPUs below its share for which there are any; nothing if there are none."""
        low, high = self._min_gpus[row], self.num_gpus[row] - 1
        found: Seats = ()
        while low <= high:
            middle = (low + high + 1) // 2
            seats = self._choose(row, middle)
            if seats:
                found, low = seats, middle + 1
            else:
                high = middle - 1
        return found

    def _choose(self, row: int, num_gpus: int) -> Seats:
        board = self._board
        if board.space.total < num_gpus:
            return ()
        gang = Gang(
            num_gpus=num_gpus,
            max_servers=self._max_servers[row],
            least_servers=self._least_servers(num_gpus),
            kind=self._kind[row],
            fits=board.fits(row),
        )
        return self._locality.seats(board.space, gang)

    def _least_servers(self, num_gpus: int) -> int:
        for count, gpus in enumerate(self._widest, start=1):
            num_gpus -= gpus
            if num_gpus <= 0:
                return count
        return 0

    def _sit(self, row: int, seats: Seats) -> None:
        self.num_gpus[row] = sum(gpus for _, gpus in seats)
        self._board.num_gpus[row] = self.num_gpus[row]
        self._board.sit(row, tuple(sorted(seats)))
