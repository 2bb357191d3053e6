"""One number for what breaks ties in every policy: first start, then arrival, then row."""

from bisect import bisect

import numpy as np

from scheduler.core.tables import FloatArray


class Seniority:
    """Ranks of jobs, smallest first; a job gets another one when it first starts.

    Attributes:
        rank: (n,) all different. Ranks of jobs that have not started come after those of all that have.
    """

    __slots__ = ("_arrival_s", "_order", "rank")

    _NOT_STARTED = 2.0**40  # more jobs than that do not start

    def __init__(self, arrival_s: FloatArray) -> None:
        """Begin with jobs that have not started; ``arrival_s`` is (n,) seconds."""
        rows = np.lexsort((np.arange(len(arrival_s)), arrival_s))
        self.rank = np.empty(len(arrival_s))
        self.rank[rows] = self._NOT_STARTED + np.arange(len(arrival_s))
        self._arrival_s: list[float] = arrival_s.tolist()
        # Those that have started: (first start, arrival, row, rank), ascending.
        self._order: list[tuple[float, float, int, float]] = []

    def start(self, row: int, first_start_s: float) -> None:
        """Let a job start for the first time."""
        order, key = self._order, (first_start_s, self._arrival_s[row], row)
        at = bisect(order, (*key, 0.0))
        before = order[at - 1][3] if at else 0.0
        rank = before + 1.0 if at == len(order) else (before + order[at][3]) / 2
        order.insert(at, (*key, rank))
        self.rank[row] = rank
