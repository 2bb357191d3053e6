"""Whom a job may take GPUs from, and which of them it takes: as little important work as possible.

A search goes through the rows that may be moved, least important first, and adds up what each server would have free
without them; the first server that is good enough is the one whose most important victim is the least important. A
search is kept for the next job that asks for the same, and never looks at a row twice, so all jobs together cost one
pass over the running ones.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from scheduler.core.packing.draft import Seats
from scheduler.core.packing.space import Fits, Space
from scheduler.core.tables import NO_ROW

# Rows looked at between two tries to seat a gang on several servers; doubles after every try.
_FIRST_STRIDE = 64

ChooseSeats = Callable[[Space, Fits | None], Seats]


class Seated(Protocol):
    """The part of a board that a search looks at."""

    @property
    def tight(self) -> bool:
        """Return whether cores or memory may bind before GPUs."""

    @property
    def seats(self) -> Mapping[int, Seats]:
        """Return where each row sits now."""

    @property
    def firm(self) -> bytearray:
        """Return 1 for rows that keep their seats for the rest of the round."""

    @property
    def space(self) -> Space:
        """Return the GPUs that nobody sits on."""

    def gpus_on(self, row: int, server: int) -> int:
        """Return the GPUs of the row on the server."""

    def fits_after(self, row: int, server: int, gpus: int, leaving: Sequence[int]) -> bool:
        """Return whether cores and memory of the server are enough for the row once ``leaving`` have left it."""

    def watch(self, row: int, search: "VictimSearch") -> None:
        """Tell ``search`` when the row leaves or becomes firm."""


class VictimSearch:
    """Finds room for gangs of one shape among free GPUs and the GPUs of rows that may be moved.

    Attributes:
        starved: Whether it ever met a server with the GPUs but not the cores or memory.
    """

    __slots__ = ("_at", "_board", "_found", "_gain", "_gpus", "_order", "_passed", "_spent", "_stride", "starved")

    def __init__(self, board: Seated, *, order: Sequence[int], num_gpus: int) -> None:
        """Prepare a search for ``num_gpus`` over the rows of ``order``, least important first."""
        self._board = board
        self._order = order
        self._gpus = num_gpus
        self._at = 0
        self._stride = _FIRST_STRIDE
        self._spent = False  # no set of servers had room; there is only less room later
        self.starved = False
        # Rows passed that may still be moved, by server, in the order in which they were passed, and their GPUs.
        self._passed: dict[int, list[int]] = {}
        self._gain: dict[int, int] = {}
        # Servers that had enough when last looked at.
        self._found: list[int] = []

    def forget(self, row: int, seats: Seats) -> None:
        """Take a row that leaves or became firm off the passed ones."""
        for server, gpus in seats:
            self._passed[server].remove(row)
            self._gain[server] -= gpus

    def notice(self, server: int) -> None:
        """Look at a server again whose free GPUs have grown."""
        if server in self._passed:
            self._found.append(server)

    def one_server(self, row: int) -> int:
        """Return a server that holds the whole gang once the rows of ``victims`` have left, or NO_ROW."""
        while self._found:
            if self._enough(row, self._found[-1]):
                return self._found[-1]
            self._found.pop()
        order, firm, seats = self._order, self._board.firm, self._board.seats
        while self._at < len(order):
            other = order[self._at]
            self._at += 1
            if firm[other] or other not in seats:
                continue
            self._pass(other)
            for server, _ in seats[other]:
                if self._enough(row, server):
                    self._found.append(server)
                    return server
        return NO_ROW

    def several_servers(self, row: int, choose: ChooseSeats) -> Seats:
        """Return seats for the gang on as many servers as ``choose`` allows, or nothing."""
        board = self._board
        while not self._spent:
            free = list(board.space.free)
            for server, gain in self._gain.items():
                free[server] += gain
            if sum(free) >= self._gpus:
                seats = choose(
                    Space(free, board.space.site, board.space.sizes), self._fits_without(row) if board.tight else None
                )
                if seats:
                    return seats
            self._spent = self._at >= len(self._order)
            for other in self._order[self._at : self._at + self._stride]:
                if not board.firm[other] and other in board.seats:
                    self._pass(other)
            self._at = min(self._at + self._stride, len(self._order))
            self._stride *= 2
        return ()

    def victims(self, row: int, server: int, gpus: int) -> list[int]:
        """Return who has to leave the server so that ``gpus`` of the row fit: the least important, and none in vain."""
        board = self._board
        taken: list[int] = []
        missing = gpus - board.space.free[server]
        for other in self._passed.get(server, ()):
            if missing <= 0 and board.fits_after(row, server, gpus, taken):
                break
            taken.append(other)
            missing -= board.gpus_on(other, server)
        for other in reversed(taken):
            without = [victim for victim in taken if victim != other]
            count = board.gpus_on(other, server)
            if missing + count <= 0 and board.fits_after(row, server, gpus, without):
                taken = without
                missing += count
        return taken

    def _pass(self, row: int) -> None:
        """Go past a row that may be moved."""
        passed, gain = self._passed, self._gain
        self._board.watch(row, self)
        for server, gpus in self._board.seats[row]:
            if server in passed:
                passed[server].append(row)
                gain[server] += gpus
            else:
                passed[server] = [row]
                gain[server] = gpus

    def _enough(self, row: int, server: int) -> bool:
        """Return whether the gang fits on a server, on which passed rows sit, once they have left."""
        board = self._board
        if board.space.free[server] + self._gain[server] < self._gpus:
            return False
        if not board.tight or board.fits_after(row, server, self._gpus, self._passed.get(server, ())):
            return True
        self.starved = True
        return False

    def _fits_without(self, row: int) -> Fits:
        def fit(server: int, gpus: int) -> bool:
            enough = self._board.fits_after(row, server, gpus, self._passed.get(server, ()))
            self.starved |= not enough
            return enough

        return fit
