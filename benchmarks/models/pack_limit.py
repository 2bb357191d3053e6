"""Learn from history above which skew consolidation is worth the wait (Tiresias)."""

from collections.abc import Sequence

import numpy as np

# Newton steps of the fit, and how strongly large weights are held back: a threshold that separates the jobs without
# error would otherwise have no finite fit.
_STEPS = 50
_RIDGE = 1e-3


def learn_pack_limit(skews: Sequence[float], slowdowns: Sequence[float], *, worth: float = 1.1) -> float:
    """Return the skew above which a job more likely than not gains from consolidation.

    Args:
        skews: Skew of each job of the history, 0 to 1.
        slowdowns: Its run time spread over servers, relative to consolidated.
        worth: Slowdown from which on consolidation counts as worth the wait.

    Returns:
        A value of ``pack_limit``, 0 to 1. Where the history shows one kind of job only, or no more gain for larger
        skews, all jobs (0) or none (1) are consolidated, whichever was right more often.

    Source: Gu et al., "Tiresias", NSDI 2019: PACKLIMIT is learned by a linear classifier. Differs: a logistic one.
    """
    x, gains = np.asarray(skews, dtype=np.float64), np.asarray(slowdowns, dtype=np.float64) > worth
    by_majority = 0.0 if 2 * int(gains.sum()) > len(gains) else 1.0
    if gains.all() or not gains.any() or x.max() == x.min():
        return by_majority
    middle, width = float(x.mean()), float(x.std())
    columns = np.stack((np.ones_like(x), (x - middle) / width))
    weights = np.zeros(2)
    for _ in range(_STEPS):
        likely = 1.0 / (1.0 + np.exp(-weights @ columns))
        slope = columns @ (gains - likely) - _RIDGE * weights
        curvature = (columns * (likely * (1.0 - likely))) @ columns.T + _RIDGE * np.eye(2)
        weights = weights + np.linalg.solve(curvature, slope)
    if weights[1] <= 0:
        return by_majority
    return min(1.0, max(0.0, float(middle - width * weights[0] / weights[1])))
