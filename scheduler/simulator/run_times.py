"""How long jobs still run, drawn again and again: what is not known is given a spread instead of a number.

A job that reports its rate and its length goes on at about that rate. Of the others only what ended before tells
something: the jobs of the same owner in the same queue, else of the queue, else of the cluster.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.core.tables import FloatArray, IntArray
from scheduler.simulator.draws import Draws

# Jobs that must have ended before a group is asked.
LEAST_ENDED = 5
# Deviation of the logarithm of a reported time left: rates of training jobs change by about a tenth.
RATE_SPREAD = 0.1
_LEAST_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """Jobs that ended, one row each.

    Attributes:
        queue, owner: (n,) numbers of each.
        run_s: (n,) time that each ran, seconds.
    """

    queue: IntArray
    owner: IntArray
    run_s: FloatArray

    def __len__(self) -> int:
        return len(self.run_s)


class RunTimes:
    """Draws times left for the same jobs, future after future."""

    def __init__(
        self, *, queue: IntArray, owner: IntArray, run_s: FloatArray, left_s: FloatArray, ended: Ended
    ) -> None:
        """Sort the jobs by what is known of them.

        Args:
            queue, owner: (n,) of the jobs.
            run_s: (n,) time that each has run so far, seconds.
            left_s: (n,) time left by the job's own report, seconds; +inf where it has not told.
            ended: What ended before.
        """
        self._left_s, self._run_s = left_s, run_s
        self._tells = np.isfinite(left_s)
        self._groups: list[tuple[IntArray, FloatArray]] = []
        unknown = self._sorted_out(queue, owner, ended)
        self.is_known = self._tells.copy()
        for rows, _ in self._groups:
            self.is_known[rows] = True
        assert not self.is_known[unknown].any()

    def _sorted_out(self, queue: IntArray, owner: IntArray, ended: Ended) -> IntArray:
        """Put each job that does not tell into the narrowest group with enough behind it; return who is in none."""
        rest = np.flatnonzero(~self._tells)
        keys: list[tuple[IntArray, IntArray]] = [
            (queue * (1 << 32) + owner, ended.queue * (1 << 32) + ended.owner),
            (queue, ended.queue),
            (np.zeros_like(queue), np.zeros_like(ended.queue)),
        ]
        for own, past in keys:
            left: list[int] = []
            for key in sorted(set(own[rest].tolist())):
                rows, pool = rest[own[rest] == key], np.sort(ended.run_s[past == key])
                if len(pool) >= LEAST_ENDED:
                    self._groups.append((rows, pool))
                else:
                    left += rows.tolist()
            rest = np.array(sorted(left), dtype=np.int64)
        return rest

    def draw(self, draws: Draws) -> FloatArray:
        """Return (n,) times left, seconds, finite where ``is_known``."""
        size = len(self._left_s)
        spread = np.exp(RATE_SPREAD * draws.normal(size))
        left_s: FloatArray = np.where(self._tells, self._left_s * spread, np.inf)
        chance = draws.uniform(size)
        for rows, pool in self._groups:
            run_s = self._run_s[rows]
            # Of those that ran at least as long; a job that outlasted all of them may run on for as long again.
            first = np.searchsorted(pool, run_s, side="right")
            picked = np.minimum(len(pool) - 1, first + (chance[rows] * (len(pool) - first)).astype(np.int64))
            left_s[rows] = np.where(first < len(pool), pool[picked] - run_s, run_s * chance[rows])
        found: FloatArray = np.maximum(_LEAST_S, left_s)
        return found


def ended_of(rows: Sequence[tuple[int, int, float]]) -> Ended:
    """Return rows of (queue, owner, run time) as columns."""
    return Ended(
        queue=np.array([row[0] for row in rows], dtype=np.int64),
        owner=np.array([row[1] for row in rows], dtype=np.int64),
        run_s=np.array([row[2] for row in rows], dtype=np.float64),
    )
