"""The seat rules that every walk shares: which rows take seats or lose them, and which moves are spared.

`Walk` uses them in a round, the incremental walks of the simulator in a replay. The walks differ only in how they order
the claims and how they search for victims; tests/property/test_simulator_short_rounds.py holds their plans equal.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from scheduler.core.model.tables import ServerTable
from scheduler.core.packing.draft import Seats
from scheduler.core.packing.free_gpus import Fits, FreeGpus, Topology


class SeatBoard(Protocol):
    """Where each row sits, and which GPUs are free: a ``Board`` or a ``GpuBoard``."""

    space: FreeGpus
    seats: dict[int, Seats]

    def sit(self, row: int, seats: Seats) -> None:
        """Seat a row on free GPUs."""

    def leave(self, row: int) -> Seats:
        """Take a row off its seats, and return them."""

    def hand_over(self, row: int, other: int) -> None:
        """Take a row off its seats and seat another on the very same ones."""

    def swap(self, row: int, other: int) -> None:
        """Let two rows that ask for the same change seats."""


class GpuBoard:
    """A ``SeatBoard`` on which only GPUs count: no queues, no cores or memory.

    Attributes:
        space: GPUs that no row sits on.
        seats: Where each row sits now.
    """

    __slots__ = ("seats", "space")

    def __init__(self, servers: ServerTable) -> None:
        """Begin with empty servers."""
        gpus: list[int] = servers.num_gpus.tolist()
        self.space = FreeGpus(gpus, Topology(gpus=gpus, rack=servers.rack.tolist()))
        self.seats: dict[int, Seats] = {}

    def sit(self, row: int, seats: Seats) -> None:
        """Seat a row on free GPUs."""
        self.seats[row] = seats
        for server, gpus in seats:
            self.space.take(server, gpus)

    def leave(self, row: int) -> Seats:
        """Take a row off its seats, and return them."""
        seats = self.seats.pop(row)
        for server, gpus in seats:
            self.space.give(server, gpus)
        return seats

    def hand_over(self, row: int, other: int) -> None:
        """Take a row off its seats and seat another on the very same ones."""
        self.seats[other] = self.seats.pop(row)

    def swap(self, row: int, other: int) -> None:
        """Let two rows that ask for the same change seats."""
        seats = self.seats
        seats[row], seats[other] = seats[other], seats[row]


class Seating:
    """What one walk changed on a board.

    Attributes:
        before: Seats that each displaced row had before the walk.
        displaced: Rows that lost their seats and did not get them back, with the row that took them.
        on_free: Rows that took seats without being displaced before and without displacing another row.
        taken: Rows that took seats, in that order, with the seats they took first.
    """

    __slots__ = ("_board", "_shape", "before", "displaced", "on_free", "taken")

    def __init__(self, board: SeatBoard, shape: Sequence[int]) -> None:
        """Begin a walk; ``shape`` has the shape of each row: rows of equal shape ask for the same."""
        self._board, self._shape = board, shape
        self.begin()

    def begin(self) -> None:
        """Begin another walk. What the last one changed stays as it was handed out."""
        self.before: dict[int, Seats] = {}
        self.displaced: dict[int, int] = {}
        self.on_free: set[int] = set()
        self.taken: dict[int, Seats] = {}

    def home(self, row: int, fits: Fits | None = None) -> Seats:
        """Return the seats that a displaced row had before the walk when they are free again, else nothing."""
        seats = self.before[row]
        return seats if are_free(self._board.space, seats, fits) else ()

    def take(self, row: int, seats: Seats, victims: Sequence[int]) -> bool:
        """Seat a row after its victims have left; return whether it changed seats with a row seated before.

        A displaced row that sits again where it sat before the walk was not displaced after all.
        """
        board, before, displaced = self._board, self.before, self.displaced
        if len(seats) > 1:
            seats = tuple(sorted(seats))  # as they are read from what is held, so that the same seats compare equal
        if not victims:
            board.sit(row, seats)
        elif len(victims) == 1 and board.seats[victims[0]] == seats:
            displaced[victims[0]] = row
            before[victims[0]] = seats
            board.hand_over(victims[0], row)
        else:
            for victim in victims:
                displaced[victim] = row
                before[victim] = board.leave(victim)
            board.sit(row, seats)
        self.taken[row] = seats
        if row not in displaced:
            if not victims:
                self.on_free.add(row)
            return False
        swapped = self._spare_a_move(row)
        if before[row] == board.seats[row]:
            taker = displaced.pop(row)  # it has the seats of the rows that left for this one
            displaced.update({victim: taker for victim, by_row in displaced.items() if by_row == row})
        return swapped

    def _spare_a_move(self, row: int) -> bool:
        """Let a displaced row change seats with the row on its former seats if both ask for the same."""
        board, taker = self._board, self.displaced[row]
        alike = self._shape[row] == self._shape[taker]
        if alike and board.seats[taker] == self.before[row] and taker not in self.displaced:
            board.swap(row, taker)
            return True
        return False

    def started(self) -> dict[int, Seats]:
        """Return the new seats of rows that sit where they did not sit before the walk, in the order they took them."""
        seats, before = self._board.seats, self.before
        if not before:
            return self.taken
        return {row: seats[row] for row in self.taken if before.get(row) != seats[row]}

    def undo(self) -> None:
        """Put every row back to where it sat before the walk."""
        for row in self.taken:
            self._board.leave(row)
        for row, seats in self.before.items():
            self._board.sit(row, seats)


def are_free(space: FreeGpus, seats: Seats, fits: Fits | None) -> bool:
    """Return whether all GPUs of these seats are free, and cores and memory there are enough."""
    free = space.free
    return all(free[server] >= gpus and (fits is None or fits(server, gpus)) for server, gpus in seats)


def one_gpu(seats: Seats) -> Seats:
    """Return a seat on one of the GPUs of a victim, on its first server."""
    return seats if seats[0][1] == len(seats) == 1 else ((min(seats)[0], 1),)


def fewest_victims(
    candidates: Iterable[tuple[int, int]], missing: int, fits: Callable[[Sequence[tuple[int, int]]], bool] | None = None
) -> list[int]:
    """Return which candidates on a server have to leave it: the least important, and none in vain.

    Args:
        candidates: Rows with their GPUs there, least important first.
        missing: GPUs that have to come free.
        fits: Whether cores and memory are enough once some of them have left; None where only GPUs count.
    """
    taken: list[tuple[int, int]] = []
    for candidate in candidates:
        if missing <= 0 and (fits is None or fits(taken)):
            break
        taken.append(candidate)
        missing -= candidate[1]
    for candidate in reversed(taken if missing < 0 else ()):
        if missing + candidate[1] <= 0:
            without = [other for other in taken if other is not candidate]
            if fits is None or fits(without):
                taken = without
                missing += candidate[1]
    return [row for row, _ in taken]


def all_victims(seats: Seats, victims: Callable[[int, int], list[int]]) -> list[int]:
    """Return the victims on all servers of some seats, each once; ``victims`` returns those on one server."""
    return list(dict.fromkeys([victim for server, gpus in seats for victim in victims(server, gpus)]))
