"""Draw how long jobs still run, as a distribution instead of one number.

A job that reports its rate and its length goes on at about that rate. Of the others only what ended before tells
something: the jobs of the same owner in the same queue, else of the queue, else of the cluster.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.core.model.tables import FloatArray, IntArray
from scheduler.simulator.draws import Draws, KeyArray, mixed

# Jobs that must have ended before a group is asked: a few tell nothing of how long the longest are. The whole cluster
# is asked sooner, since no other group is left.
LEAST_ENDED = 30
LEAST_ENDED_OF_ALL = 5
# Deviation of the logarithm of a reported time left: rates of training jobs change by about a tenth.
RATE_SPREAD = 0.1
_LEAST_S = 1.0
_MOST_TIMES = 20.0  # the longest run seen
_NONE = 1e-9  # a share of jobs that counts as none
_OF_HISTORY = 3  # the turn of what is drawn of past jobs, after those of the jobs themselves


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
    """Draws times left for the same jobs, future after future.

    What is drawn of a job hangs on its number alone, so that a forecast made a minute later meets the same chance: it
    differs only by what has happened since.

    Jobs that still run are told from those that ended: they are known to last longer than they have run. Leaving them
    out would make every estimate too short, since long jobs are what has not ended yet.

    Source: Kaplan and Meier, "Nonparametric estimation from incomplete observations", 1958, with the weights of Rubin,
    "The Bayesian bootstrap", 1981, drawn anew for each future. Beyond the longest run seen, the chance to last falls in
    proportion to the time run.
    """

    def __init__(
        self,
        *,
        number: IntArray,
        queue: IntArray,
        owner: IntArray,
        run_s: FloatArray,
        left_s: FloatArray,
        ended: Ended,
    ) -> None:
        """Sort the jobs by what is known of them.

        Args:
            number: (n,) that tells the jobs apart.
            queue, owner: (n,) of the jobs.
            run_s: (n,) time that each has run so far, seconds.
            left_s: (n,) time left by the job's own report, seconds; +inf where it has not told.
            ended: What ended before.
        """
        self._left_s, self._run_s = left_s, run_s
        self._keys = number.astype(np.uint64)
        self._tells = np.isfinite(left_s)
        self._groups: list[tuple[IntArray, _Survival]] = []
        self._sort_out(queue, owner, ended)
        self.is_known = self._tells.copy()
        for rows, _ in self._groups:
            self.is_known[rows] = True

    def _sort_out(self, queue: IntArray, owner: IntArray, ended: Ended) -> None:
        """Put each job that does not tell into the narrowest group with enough behind it."""
        rest = np.flatnonzero(~self._tells)
        lasts = self._run_s > 0
        keys: list[tuple[IntArray, IntArray, int]] = [
            (queue * (1 << 32) + owner, ended.queue * (1 << 32) + ended.owner, LEAST_ENDED),
            (queue, ended.queue, LEAST_ENDED),
            (np.zeros_like(queue), np.zeros_like(ended.queue), LEAST_ENDED_OF_ALL),
        ]
        for own, past, least in keys:
            left: list[int] = []
            for key in sorted(set(own[rest].tolist())):
                rows, over_s = rest[own[rest] == key], ended.run_s[past == key]
                if len(over_s) >= least:
                    going = (own == key) & lasts
                    self._groups.append((rows, _Survival(over_s, self._run_s[going], self._keys[going])))
                else:
                    left += rows.tolist()
            rest = np.array(sorted(left), dtype=np.int64)

    def draw(self, draws: Draws) -> FloatArray:
        """Return (n,) times left, seconds, finite where ``is_known``."""
        chance, first, second = (draws.uniform_of(self._keys, turn) for turn in range(3))
        spread = np.exp(RATE_SPREAD * np.sqrt(-2.0 * np.log1p(-first)) * np.cos(2.0 * np.pi * second))  # as ``normal``
        left_s: FloatArray = np.where(self._tells, self._left_s * spread, np.inf)
        for rows, survival in self._groups:
            left_s[rows] = survival.left_s(self._run_s[rows], chance[rows], draws)
        found: FloatArray = np.maximum(_LEAST_S, left_s)
        return found


class _Survival:
    """The share of jobs that run longer than a time."""

    def __init__(self, over_s: FloatArray, lasting_s: FloatArray, lasting: KeyArray) -> None:
        """Take run times of jobs that ended, and those so far of jobs that have not, with the keys of these."""
        every_s = np.concatenate((over_s, lasting_s))
        order = np.argsort(every_s, kind="stable")
        self._at_s = every_s[order]
        self._is_end = (order < len(over_s)).astype(np.float64)
        # Jobs that ended are known by their run time: which of two with the same one comes first makes no difference.
        ranks = np.arange(len(every_s)) - np.searchsorted(self._at_s, self._at_s)
        own = mixed(self._at_s.view(np.uint64)) + ranks.astype(np.uint64)
        self._keys = np.where(
            order < len(over_s), own, np.concatenate((np.zeros(len(over_s), np.uint64), lasting))[order]
        )

    def left_s(self, run_s: FloatArray, chance: FloatArray, draws: Draws) -> FloatArray:
        """Return times left of jobs that have run so long already; ``chance`` is uniform in [0, 1)."""
        # Each past job counts for more or less: that history is short is part of what is not known.
        weight = -np.log1p(-draws.uniform_of(self._keys, _OF_HISTORY))
        at_risk = np.cumsum(weight[::-1])[::-1]
        share = np.concatenate(([1.0], np.cumprod(1.0 - self._is_end * weight / at_risk)))
        share = np.maximum(share, 0.0)
        now = share[np.searchsorted(self._at_s, run_s, side="right")]
        lasts = now * (1.0 - chance)
        # The first time at which fewer last: shares fall, so they are searched from the end.
        index = len(share) - np.searchsorted(share[::-1], lasts, side="right")
        seen = (index < len(share)) & (now > _NONE)
        end_s = self._at_s[np.clip(index - 1, 0, len(self._at_s) - 1)]
        longest_s = np.maximum(run_s, self._at_s[-1])
        rest = lasts / share[-1] if share[-1] > _NONE else 1.0 - chance
        beyond_s = longest_s / np.clip(rest, 1.0 / _MOST_TIMES, 1.0)
        found: FloatArray = np.where(seen & (end_s > run_s), end_s, beyond_s) - run_s
        return found


def ended_of(rows: Sequence[tuple[int, int, float]]) -> Ended:
    """Return rows of (queue, owner, run time) as columns."""
    return Ended(
        queue=np.array([row[0] for row in rows], dtype=np.int64),
        owner=np.array([row[1] for row in rows], dtype=np.int64),
        run_s=np.array([row[2] for row in rows], dtype=np.float64),
    )
