"""Compare a figure over paired futures: each was simulated with and without a change, and met the same chance.

What differs inside a pair is the work of the change alone, so the interval of the differences is much narrower than the
spread of either side. Values that lie beyond the simulated time are +inf: they are longer, nobody knows by how much.
"""

import math
from dataclasses import dataclass

import numpy as np

from scheduler.core.model.tables import FloatArray

# Intervals hold 9 in 10 futures.
SHARE_BELOW = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """A figure without and with the change.

    Attributes:
        now, then: The middle over the futures; +inf where it lies beyond the simulated time.
        low, high: What ``then`` is in 9 of 10 futures; either may be +inf.
        change: The middle of the paired differences; +inf or -inf where one side lies beyond the simulated time, NaN
            where both do.
        change_low, change_high: What the difference is in 9 of 10 futures.
    """

    now: float
    then: float
    low: float
    high: float
    change: float
    change_low: float
    change_high: float

    @property
    def direction(self) -> int:
        """Return 1 for longer, -1 for shorter, and 0 where the interval holds no change."""
        return 1 if self.change_low > 0 else -1 if self.change_high < 0 else 0


def paired(now: FloatArray, then: FloatArray) -> Paired:
    """Return the comparison of (f,) values without and with the change, f at least 1; +inf is allowed."""
    beyond = np.isinf(now) & np.isinf(then)
    change = np.where(beyond, 0.0, then) - np.where(beyond, 0.0, now)
    # A difference that is not known may be anything.
    least, most = np.where(beyond, -np.inf, change), np.where(beyond, np.inf, change)
    middle = _at(least, 0.5)
    return Paired(
        now=_at(now, 0.5),
        then=_at(then, 0.5),
        low=_at(then, SHARE_BELOW),
        high=-_at(-then, SHARE_BELOW),
        change=middle if middle == _at(most, 0.5) else math.nan,
        change_low=_at(least, SHARE_BELOW),
        change_high=-_at(-most, SHARE_BELOW),
    )


def _at(values: FloatArray, share: float) -> float:
    """Return one of the values, so that no infinite one is averaged with another."""
    return float(np.quantile(values, share, method="inverted_cdf"))
