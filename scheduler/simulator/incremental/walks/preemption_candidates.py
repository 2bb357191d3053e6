"""Preemption candidates of one queue: running jobs, weakest first, evaluated lazily and kept from walk to walk.

Used in replays; tests/unit/simulator/incremental/test_preemption_candidates.py checks the order against a full sort.
"""

import math
from bisect import bisect_left, insort
from collections.abc import Callable, Mapping, Sequence

from scheduler.core.model.tables import NO_ROW

# Place of a job in the order of the policy: (key, first start or +inf, arrival, row), smallest first.
Key = tuple[float, float, float, int]
# Present keys of the policy of jobs given by row.
Keys = Callable[[Sequence[int]], list[float]]

_STRIDE = 16  # entries looked at at once; doubles in a walk


class PreemptionCandidates:
    """The running jobs in the order of the policy, kept from walk to walk.

    Cached keys are upper bounds: running never makes a job weaker (``Steady``), or no weaker than a ceiling until it is
    moved. So a walk evaluates only the keys at the weak end.

    Attributes:
        order: Those looked at in the present walk, weakest first, with their present keys.
        gone: Those of them that have left their seats.
    """

    __slots__ = ("_asked", "_ceilings", "_entry", "_first", "_keys", "_line", "_near", "_steady_above", "_stride",
                 "gone", "order")  # fmt: skip

    def __init__(self, ceilings: Mapping[float, float] | None = None) -> None:
        """Begin without running jobs.

        Args:
            ceilings: For each key that the policy gives the weakest key that a running job may get to from there on
                without being moved; None where keys of running jobs never rise.
        """
        self._ceilings = ceilings
        # Keys above this one, as they stand in the line, are present ones.
        self._steady_above = math.inf
        if ceilings is not None:
            self._steady_above = max((high for low, high in ceilings.items() if low != high), default=-math.inf)
        self._line: list[Key] = []  # strongest first, with ceilings, or keys of earlier
        self._near: list[Key] = []  # strongest first, with present keys; a job in the line may be weaker
        self._entry: dict[int, Key] = {}  # of each job, where it stands
        self._asked = False  # whether any present key was asked for in this walk
        self.order: list[Key] = []
        self.gone: set[int] = set()

    def enter(self, key: Key) -> None:
        """Add a job that sits now. Not during a walk."""
        key = self._standing(key)
        self._entry[key[3]] = key
        insort(self._line, key)

    def _standing(self, key: Key) -> Key:
        ceilings = self._ceilings
        return key if ceilings is None or key[0] > self._steady_above else (ceilings[key[0]], *key[1:])

    def leave(self, row: int) -> None:
        """Take out a job whose seats are free now. Not during a walk."""
        del self._line[bisect_left(self._line, self._entry.pop(row))]

    def move(self, row: int, key: float) -> None:
        """Give a job that sits another key of the policy. Not during a walk."""
        entry = self._entry[row]
        moved = self._standing((key, *entry[1:]))
        if moved != entry:
            self.leave(row)
            self._entry[row] = moved
            insort(self._line, moved)

    def begin(self, keys: Keys) -> None:
        """Begin a walk; ``keys`` are present ones."""
        self._keys, self._first, self._stride = keys, 0, _STRIDE

    def end(self) -> None:
        """End the walk: jobs that have not left stand in the line again."""
        line, order, gone = self._line, self.order, self.gone
        if not order and not self._near:
            return
        if self._asked and self._ceilings is not None:
            for key in (*self._near, *order):
                if key[3] not in gone:
                    self.enter(key)
        else:
            for key in self._near:
                if line and key < line[-1]:
                    insort(line, key)
                else:
                    line.append(key)
            line += [key for key in reversed(order) if key[3] not in gone] if gone else reversed(order)
        self._near, self.order, self.gone, self._asked = [], [], set(), False

    def weakest(self, key: Key) -> int:
        """Return the weakest job that sits, NO_ROW when none is weaker than ``key``."""
        order, at = self.order, self._first
        while at < len(order) or self.more(key):
            other = order[at]
            if other[3] not in self.gone:
                self._first = at
                return other[3] if other > key else NO_ROW
            at += 1
        self._first = at
        return NO_ROW

    def drop(self, row: int) -> Key:
        """Take out a job of the order that leaves its seats; return its present key."""
        self.gone.add(row)
        return self._entry.pop(row)

    def more(self, key: Key) -> bool:
        """Let ``order`` grow; return False when no other job is weaker than ``key``."""
        line, near = self._line, self._near
        while not near or (line and near[-1] < line[-1]):
            if not line or line[-1] < key:
                return False
            batch = line[-self._stride :]
            del line[-self._stride :]
            self._stride *= 2
            if batch[0][0] > self._steady_above:
                if not near:
                    self.order += reversed(batch)
                    return True
                near += batch
            else:
                near += self._present(batch)
            near.sort()
        if near[-1] < key:
            return False
        while near and (not line or near[-1] > line[-1]):
            self.order.append(near.pop())
        return True

    def _present(self, entries: list[Key]) -> list[Key]:
        """Return the entries with present keys."""
        self._asked = True
        keys = self._keys([entry[3] for entry in entries])
        known = self._entry
        present = []
        for key, (_, first_start_s, arrival_s, row) in zip(keys, entries, strict=True):
            known[row] = entry = (key, first_start_s, arrival_s, row)
            present.append(entry)
        return present
