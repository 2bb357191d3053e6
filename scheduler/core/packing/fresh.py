"""The walk of ``ShortWalk`` where the order moves from round to round: it is given anew before each walk.

Who was refused in an earlier round may be the strongest now, so every shape is asked again; what is left out is to look
at anybody behind the first refused job of a shape, and at running jobs past those who have to leave. The outcome is
that of ``select``.
"""

from collections.abc import Callable, MutableSequence, Sequence

from scheduler.core.config import Locality
from scheduler.core.packing.rivals import Key, Rivals
from scheduler.core.packing.short import ShortWalk
from scheduler.core.packing.space import Gang
from scheduler.core.tables import BoolArray, IntArray, ServerTable


class Places:
    """Where each job stands in the order of the present round.

    Attributes:
        key: (n,) key of the policy; only those of active jobs are kept up.
        first_start_s: (n,) when each job started first, seconds; +inf for never.
        arrival_s: (n,) when each arrived, seconds.
    """

    __slots__ = ("arrival_s", "first_start_s", "key")

    def __init__(
        self, key: MutableSequence[float], first_start_s: MutableSequence[float], arrival_s: MutableSequence[float]
    ) -> None:
        self.key, self.first_start_s, self.arrival_s = key, first_start_s, arrival_s

    def of(self, row: int) -> Key:
        """Return the place of a job."""
        return self.key[row], self.first_start_s[row], self.arrival_s[row], row


class FreshRivals(Rivals):
    """The running jobs in an order that is made when a walk asks for it first."""

    __slots__ = ("_ask", "_at", "_places", "_rows")

    def __init__(self, places: Places) -> None:
        """Begin with nobody."""
        super().__init__()
        self._places = places
        self._rows: Sequence[int] | None = ()

    def line_up(self, ask: Callable[[], Sequence[int]]) -> None:
        """Begin a round in which ``ask`` returns the running jobs, weakest first."""
        self._ask, self._rows, self._at = ask, None, 0

    def end(self) -> None:
        """End the walk."""
        self.order, self.gone = [], set()

    def more(self, key: Key) -> bool:
        """Let ``order`` grow; return False when there is nobody else who is weaker than ``key``."""
        if self._rows is None:
            self._rows = self._ask()
        rows, at, places = self._rows, self._at, self._places
        if at == len(rows) or places.of(rows[at]) < key:
            return False
        self._at = min(at + self._stride, len(rows))
        self._stride *= 2
        self.order += [places.of(row) for row in rows[at : self._at]]
        return True

    def drop(self, row: int) -> Key:
        """Take out a job of the order that leaves its seats; return its present key."""
        self.gone.add(row)
        return self._places.of(row)

    def enter(self, key: Key) -> None:
        """Do nothing: the next order has it."""

    def leave(self, row: int) -> None:
        """Do nothing: the next order lacks it."""


class FreshWalk(ShortWalk):
    """Who sits where and who waits, in one queue that may hold everything."""

    def __init__(
        self,
        servers: ServerTable,
        locality: Locality,
        *,
        shape: IntArray,
        gangs: Sequence[Gang],
        possible: BoolArray,
        preemptive: bool,
        places: Places,
    ) -> None:
        """Begin with empty servers.

        Args:
            servers: The servers, ascending by id.
            locality: Where gangs may sit.
            shape: (n,) shape of each job.
            gangs: What jobs of each shape ask for.
            possible: (n,) jobs that could run on empty servers.
            preemptive: Whether waiting jobs may displace running ones.
            places: The order, kept up from outside.
        """
        super().__init__(
            servers, locality, shape=shape.tolist(), gangs=gangs, preemptive=False, ceilings=None, in_line=False
        )
        self._fresh = FreshRivals(places) if preemptive else None
        self._rivals = self._fresh
        self._places, self._shapes, self._possible = places, shape, possible
        # Those who wait, strongest first, and their shapes; and by shape where the line goes on.
        self._rows_in_line: list[int] = []
        self._shapes_in_line: list[int] = []
        self._goes_on = [0] * len(gangs)

    def line_up(self, waiting: IntArray, running: Callable[[], Sequence[int]]) -> None:
        """Take the order of the round.

        Args:
            waiting: (x,) jobs that wait, strongest first.
            running: Returns those that run and may have to leave, weakest first; asked when somebody finds no room.
        """
        waiting = waiting[self._possible[waiting]]
        self.num_waiting = len(waiting)
        self._rows_in_line, self._shapes_in_line = waiting.tolist(), self._shapes[waiting].tolist()
        self._goes_on = [0] * len(self._gangs)
        self._lines, self._key_of = [[] for _ in self._gangs], {}
        for shape in set(self._shapes_in_line):
            self._bring_up(shape)
        if self._fresh:
            self._fresh.line_up(running)
        self.reopen()

    def wait(self, key: Key) -> None:
        """Put a job in line: the next order has it."""
        self.num_waiting += 1

    def _bring_up(self, shape: int) -> None:
        """Let the next job of a shape be the first in line, if there is one."""
        try:
            at = self._shapes_in_line.index(shape, self._goes_on[shape])
        except ValueError:
            return
        self._goes_on[shape] = at + 1
        row = self._rows_in_line[at]
        self._key_of[row] = key = self._places.of(row)
        self._lines[shape].append(key)
