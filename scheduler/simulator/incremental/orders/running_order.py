"""Running jobs in the order of the policy as a column, and what a quota covers of them. Keys are made when asked for.

Used by ``SideBySide``; tests/property/test_simulator_queue_rounds.py holds its plans equal to those of ``plan_round``.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable

import numpy as np

from scheduler.core.model.tables import FloatArray, IntArray
from scheduler.simulator.incremental.walks.preemption_candidates import Key
from scheduler.simulator.state.columns import Columns, cells


class RunningOrder:
    """The running jobs of one round after the other. Jobs are rows of the workload."""

    def __init__(self, columns: Columns, present: Callable[[IntArray, float], FloatArray]) -> None:
        """Begin without jobs; ``present`` returns what stands first in the keys of some jobs at a time."""
        self._columns, self._present_keys = columns, present
        self._present_of = np.zeros(len(columns))
        self._present, self._arrival_s = cells(self._present_of), cells(columns.arrival_s)
        self._first_start_s = cells(columns.first_start_s)
        # The number of each job in the order of first starts, which breaks ties of equal keys; and the job of a number.
        self._number_of = np.full(len(columns), -1)
        self._row_of = np.zeros(len(columns), dtype=np.int64)
        self._numbered = 0
        self._rows = np.zeros(0, dtype=np.int64)  # those running at the last call of ``at``, by number
        self._started: list[int] = []  # since that call

    def start(self, rows: Iterable[int]) -> None:
        """Note jobs that start; they run when the order is next asked for, or have left their seats again."""
        self._started += rows

    def at(self, now_s: float) -> IntArray:
        """Return the running jobs, strongest first."""
        rows = self._rows
        if self._started:
            self._number([row for row in set(self._started) if self._number_of[row] < 0])
            numbers = self._number_of[np.concatenate((rows, np.array(self._started, dtype=np.int64)))]
            numbers.sort()
            anew = np.ones(len(numbers), dtype=np.bool_)
            np.not_equal(numbers[1:], numbers[:-1], out=anew[1:])
            rows = self._row_of[numbers[anew]]
            self._started = []
        self._rows = rows = rows[self._columns.held_gpus[rows] > 0]
        present = self._present_keys(rows, now_s)
        self._present_of[rows] = present
        return rows[present.argsort(kind="stable")]

    def key(self, row: int) -> Key:
        """Return the key of a job of the order."""
        return self._present[row], self._first_start_s[row], self._arrival_s[row], row

    def _number(self, rows: list[int]) -> None:
        """Number jobs by their first starts, which are no earlier than those of all that have a number."""
        if not rows:
            return
        first_s = min(self._first_start_s[row] for row in rows)
        while self._numbered and self._first_start_s[self._row_of[self._numbered - 1]] >= first_s:
            self._numbered -= 1
            rows.append(self._row_of.item(self._numbered))
        rows.sort(key=lambda row: (self._first_start_s[row], self._arrival_s[row], row))
        numbers = np.arange(self._numbered, self._numbered + len(rows))
        self._row_of[numbers] = rows
        self._number_of[rows] = numbers
        self._numbered += len(rows)


class QuotaCover:
    """The quota of one queue as its jobs use it up in the order of the policy.

    Attributes:
        left: GPUs that are left of it after the jobs so far.
        without: Positions of the running jobs so far that it does not cover.
    """

    def __init__(self, rows: IntArray, gpus: IntArray, key: Callable[[int], Key], left: int) -> None:
        """Begin before the first job; ``rows`` are running jobs, strongest first, with their GPUs."""
        self.left, self.without = left, list[int]()
        self._rows, self._key, self._at = rows, key, 0
        self._sums: list[int] = [0, *gpus.cumsum().tolist()]

    def pass_until(self, key: Key | None) -> None:
        """Go past the running jobs that are stronger than a key; None for past all."""
        sums, at = self._sums, self._at
        upto = len(self._rows) if key is None else bisect_left(self._rows, key, at, key=self._key)
        while at < upto:
            fits = bisect_right(sums, sums[at] + self.left, at, upto + 1) - 1
            self.left -= sums[fits] - sums[at]
            if not self.left:
                self.without += range(fits, upto)
                break
            if fits < upto:
                self.without.append(fits)
            at = fits + 1
        self._at = upto
