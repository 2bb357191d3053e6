"""Finds room for gangs of one shape among free GPUs and those of rivals, for walks in which only GPUs count."""

from collections.abc import Callable, Mapping

from scheduler.core.packing.draft import Seats
from scheduler.core.packing.rivals import Key, Rivals
from scheduler.core.packing.space import Space
from scheduler.core.tables import NO_ROW


class Search:
    """The ``VictimSearch`` of ``victims`` where cores and memory cannot bind.

    It goes past the rivals, weakest first, until some server would have enough without those passed; the next gang of
    the shape goes on from there.
    """

    __slots__ = (
        "_at",
        "_found",
        "_gain",
        "_num_gpus",
        "_passed",
        "_rivals",
        "_rows",
        "_seats",
        "_space",
        "_spent",
        "_trail",
    )

    def __init__(self, rivals: Rivals, space: Space, seats: Mapping[int, Seats], num_gpus: int) -> None:
        self._rivals, self._space, self._seats, self._num_gpus = rivals, space, seats, num_gpus
        self._at = 0
        self._spent = False  # no set of servers had room; there is only less room later
        # Rivals passed who may still be moved: their keys in the order in which they were passed, their rows, and by
        # server the rows in that order and the sum of their GPUs.
        self._trail: list[Key] = []
        self._rows: set[int] = set()
        self._passed: dict[int, list[int]] = {}
        self._gain = [0] * len(space.free)
        self._found: list[int] = []  # servers that had enough when last looked at

    def leave(self, row: int, seats: Seats) -> None:
        """Note that a rival left its seats: look at these servers again."""
        self._forget(row, seats)
        self._found += [server for server, _ in seats if server in self._passed]

    def _forget(self, row: int, seats: Seats) -> None:
        if row in self._rows:
            self._rows.discard(row)
            for server, gpus in seats:
                self._passed[server].remove(row)
                self._gain[server] -= gpus

    def one_server(self, key: Key) -> int:
        """Return a server that holds the whole gang once the rivals of ``victims`` have left, or NO_ROW."""
        trail, found, seats = self._trail, self._found, self._seats
        while trail and trail[-1] < key:  # stronger than who asks from now on
            row = trail.pop()[3]
            if row in self._rows:
                self._forget(row, seats[row])
        free, gain, num_gpus = self._space.free, self._gain, self._num_gpus
        while found:
            if free[found[-1]] + gain[found[-1]] >= num_gpus:
                return found[-1]
            found.pop()
        rivals = self._rivals
        order, gone = rivals.order, rivals.gone
        while self._at < len(order) or rivals.more(key):
            other = order[self._at]
            if other < key:
                break
            self._at += 1
            if other[3] not in gone:
                self._pass(other)
                for server, _ in seats[other[3]]:
                    if free[server] + gain[server] >= num_gpus:
                        found.append(server)
                        return server
        return NO_ROW

    def _pass(self, key: Key) -> None:
        passed, gain, row = self._passed, self._gain, key[3]
        self._trail.append(key)
        self._rows.add(row)
        for server, gpus in self._seats[row]:
            gain[server] += gpus
            if server in passed:
                passed[server].append(row)
            else:
                passed[server] = [row]

    def several_servers(self, choose: Callable[[Space], Seats]) -> Seats:
        """Return seats on several servers once everybody who is weaker has left, or nothing; after ``one_server``."""
        if self._spent:
            return ()
        seats: Seats = ()
        if self._space.total + sum(self._gain) >= self._num_gpus:
            seats = choose(self._space.with_more(self._gain))
        self._spent = not seats
        return seats

    def victims(self, server: int, gpus: int) -> list[int]:
        """Return who has to leave the server so that ``gpus`` come free: the least important, and none in vain."""
        missing = gpus - self._space.free[server]
        taken: list[tuple[int, int]] = []
        for row in self._passed.get(server, ()):
            if missing <= 0:
                break
            count = sum(held for at, held in self._seats[row] if at == server)
            taken.append((row, count))
            missing -= count
        for victim in reversed(taken):
            if missing + victim[1] <= 0:
                taken = [other for other in taken if other is not victim]
                missing += victim[1]
        return [row for row, _ in taken]
