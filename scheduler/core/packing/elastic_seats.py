"""Seats of elastic jobs whose number of GPUs changes: a job that grows takes GPUs near its own where it can.

No job is displaced for another one here. A share that finds no seats is cut: a job that grows keeps at least what it
has, a job that starts begins with the most that fits. Checked by tests/oracle/test_shares.py and
tests/oracle/test_loans.py.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from scheduler.core.packing.draft import Seats
from scheduler.core.packing.free_gpus import Fits, Gang
from scheduler.core.packing.locality import Locality
from scheduler.core.packing.seating import SeatBoard, are_free


def shrunk(seats: Seats, num_gpus: int) -> Seats:
    """Return the seats less some GPUs, taken from the servers where the job has the fewest."""
    surplus = max(0, sum(gpus for _, gpus in seats) - num_gpus)
    left = dict(seats)
    for server, gpus in sorted(seats, key=lambda seat: (seat[1], -seat[0])):
        left[server] -= min(gpus, surplus)
        surplus -= min(gpus, surplus)
    return tuple((server, gpus) for server, gpus in sorted(left.items()) if gpus)


def is_inside(seats: Seats, home: Seats) -> bool:
    """Return whether there are some seats, all of them among those of ``home``."""
    held = dict(home)
    return bool(seats) and all(gpus <= held.get(server, 0) for server, gpus in seats)


class ElasticBoard(SeatBoard, Protocol):
    """A board that knows how wide its rows are, and whether cores and memory let them sit."""

    num_gpus: list[int]

    def fits(self, row: int) -> Fits | None:
        """Return the test whether cores and memory of a server allow so many GPUs of the row; None when always."""

    def fits_after(self, row: int, server: int, gpus: int, leaving: Sequence[int]) -> bool:
        """Return whether cores and memory of the server are enough for so many more GPUs of the row."""


class ElasticSeats:
    """Finds seats for shares, one job after another.

    Attributes:
        num_gpus: (n,) GPUs of each job: its share, less where that found no seats.
    """

    def __init__(
        self,
        board: ElasticBoard,
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
        self._widest = sorted(board.space.topology.gpus, reverse=True)

    @property
    def seats(self) -> dict[int, Seats]:
        """Where every job sits now."""
        return self._board.seats

    def serve(
        self, rows: Sequence[int], *, home: Mapping[int, Seats] | None = None, leaving: Sequence[int] = ()
    ) -> set[int]:
        """Seat jobs that get more GPUs than they have: first those that run grow, then the others start.

        A job that grows gets them on its own servers, else elsewhere, else as far as its servers go. One that starts
        gets free GPUs, or those that rows outside the table are leaving. Borrowers that have a share now go on where
        they are, unless another job gets more where they do not: then the last 1, 2, 4 ... of them start anew.

        Args:
            rows: The jobs, in the order of the policy.
            home: Former seats of those of them that had a loan; they are free now.
            leaving: Rows outside the table that are on their way out.

        Returns:
            Borrowers that go on where they are.
        """
        if not home:
            self._try(rows, {}, leaving)
            return set()
        seats = self._board.seats
        wanted = {row: self.num_gpus[row] for row in rows}
        seated = {row: seats[row] for row in (*rows, *leaving) if row in seats}

        def again(stay: Mapping[int, Seats]) -> list[int]:
            self._undo(wanted, seated)
            self._try(rows, stay, leaving)
            return [sum(gpus for _, gpus in seats.get(row, ())) for row in rows]

        best = again({})
        if again(home) >= best:
            return set(home)
        last_first = [row for row in reversed(rows) if row in home]
        count = 1
        while count < len(home):
            stay = {row: home[row] for row in last_first[count:]}
            if again(stay) >= best:
                return set(stay)
            count *= 2
        again({})
        return set()

    def _try(self, rows: Sequence[int], home: Mapping[int, Seats], leaving: Iterable[int]) -> None:
        """Seat the jobs, those in ``home`` where they are."""
        board = self._board
        for row, seats in home.items():
            board.sit(row, seats)
        for row in rows:
            if row in board.seats:
                self._grow(row)
        for row in leaving:
            board.leave(row)
        for row in rows:
            if row not in board.seats and (seats := self._choose(row, self.num_gpus[row]) or self._most(row)):
                self._sit(row, seats)

    def _undo(self, wanted: Mapping[int, int], seated: Mapping[int, Seats]) -> None:
        board = self._board
        for row, gpus in wanted.items():
            if row in board.seats:
                board.leave(row)
            self.num_gpus[row] = board.num_gpus[row] = gpus
        for row in seated:
            if row in board.seats:  # one on its way out, before the first try
                board.leave(row)
        for row, seats in seated.items():
            board.sit(row, seats)

    def lend(self, rows: Iterable[int], home: Mapping[int, Seats], may: Callable[[int], bool]) -> list[int]:
        """Seat jobs without a share, at their least, on what is free; return them.

        Those that run stay where they are if they can, and go before the others.

        Args:
            rows: The jobs, in the order of the policy; their former seats are free.
            home: Former seats of those that run.
            may: Whether a job may have its least beside those that sit already.
        """
        board, rows, lent = self._board, list(rows), list[int]()
        for row in rows:
            seats = shrunk(home.get(row, ()), self._min_gpus[row])
            if sum(gpus for _, gpus in seats) == self._min_gpus[row] and self.is_free(row, seats) and may(row):
                self._sit(row, seats)
                lent.append(row)
        shut: set[tuple[object, ...]] = set()  # kinds of jobs that found no seats; free GPUs only get fewer
        for row in rows:
            kind = self._min_gpus[row], self._max_servers[row], self._kind[row]
            if row in board.seats or kind in shut or not may(row):
                continue
            seats = self._choose(row, self._min_gpus[row])
            if seats:
                self._sit(row, seats)
                lent.append(row)
            elif board.fits(row) is None:
                shut.add(kind)
        return lent

    def _grow(self, row: int) -> None:
        wider = self._wider(row)
        own = self._board.leave(row)
        wanted = self.num_gpus[row]
        if sum(gpus for _, gpus in wider) < wanted:
            wider = self._choose(row, wanted) or wider or own
        self._sit(row, wider)

    def is_free(self, row: int, seats: Seats) -> bool:
        """Return whether a row that sits nowhere could sit there."""
        return are_free(self._board.space, seats, self._board.fits(row))

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
