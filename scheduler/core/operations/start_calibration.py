"""Calibrate p90 start estimates from past errors.

Simulated futures draw from recent history, so they miss rare events, such as a hundred jobs submitted at once, and
fewer than 90 % of jobs start by their p90. The ratios of real to simulated waits say how far to stretch the next ones.
"""

import math
from collections.abc import Sequence

# The share of jobs that may start later than said.
LATE_FRAC = 0.1
# How far one outcome moves the level.
STEP = 0.005
# The ratios of the newest MOST_RATIOS waits count. With fewer than LEAST_RATIOS, one in ten cannot be told from none.
MOST_RATIOS = 500
LEAST_RATIOS = 9
# The median error of fewer starts is chance, so none is shown.
LEAST_STARTS = 10
# Shorter simulated waits count as this one, because a ratio to nearly nothing says nothing.
_LEAST_S = 1.0


def level_next(level: float, *, late: bool) -> float:
    """Return the share of ratios to leave beyond the next bounds, after one more outcome; 0 or less for all bounded.

    Whatever happens, of any n jobs one after the other, each told when the outcomes before it are known, at most
    ``LATE_FRAC * n + LATE_FRAC / STEP + 1`` are late. Each outcome still open when a job is told may add one.

    Args:
        level: The share so far; LATE_FRAC before the first outcome.
        late: Whether the job started after its bound, or has not started when that has passed.

    Source: Gibbs and Candès, "Adaptive conformal inference under distribution shift", NeurIPS 2021, equation 2, with
    their step. Differs: the level never rises above LATE_FRAC, since no late share is promised.
    """
    return min(LATE_FRAC, level + STEP * (LATE_FRAC - late))


def stretch(ratios: Sequence[float], level: float) -> float:
    """Return the factor from the simulated time to the bound, 1 or more; +inf for no bound at all.

    Args:
        ratios: Of waits that ended, newest last, see ``ratio``.
        level: The share of them to leave beyond, see ``level_next``.

    Source: Lei, G'Sell, Rinaldo, Tibshirani and Wasserman, "Distribution-free predictive inference for regression",
    JASA 2018, section 2.2, with the ratio as the score. Differs: never below 1, and the largest ratio where there are
    too few for the level.
    """
    if level <= 0:
        return math.inf
    known = sorted(ratios[-MOST_RATIOS:])
    if len(known) < LEAST_RATIOS:
        return 1.0
    rank = math.ceil((1.0 - level) * (len(known) + 1) - 1e-9)
    return max(1.0, known[min(rank, len(known)) - 1])


def ratio(*, took_s: float, simulated_s: float) -> float:
    """Return how many times as long as simulated a wait took; ``simulated_s`` is the time that was said, finite."""
    return took_s / max(simulated_s, _LEAST_S)


def bound_s(simulated_s: float, factor: float, *, horizon_s: float) -> float:
    """Return the time by which a job starts, seconds; +inf beyond the horizon, where futures end."""
    stretched_s = max(simulated_s, _LEAST_S) * factor if factor > 1.0 else simulated_s
    return stretched_s if stretched_s <= horizon_s else math.inf
