"""Detect that the accuracy of a training has stopped rising, or its loss falling, so that it may end.

Source: Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads" (Philly), ATC 2019:
75 % of the jobs come within 0.1 % of their best accuracy in 40 % of their epochs. The rule itself is ours.
"""

import math
from collections.abc import Sequence

from scheduler.core.performance.curve_fit import fit_loss, without_outliers

# Share of the best accuracy that does not matter, and epochs that must agree.
TOLERANCE_FRAC = 0.001
PATIENCE_EPOCHS = 10
PIECES = 5 * PATIENCE_EPOCHS


def is_done(accuracy: Sequence[float]) -> bool:
    """Return whether each of the last ten epochs lies within a thousandth of the best accuracy so far.

    A curve that still rises fails this: its earlier epochs are further from its newest, best one.

    Args:
        accuracy: One value an epoch, oldest first, larger is better.
    """
    if len(accuracy) < PATIENCE_EPOCHS:
        return False
    best = max(accuracy)
    return all(best - value <= TOLERANCE_FRAC * abs(best) for value in accuracy[-PATIENCE_EPOCHS:])


def is_settled(steps: Sequence[float], losses: Sequence[float]) -> bool:
    """Return whether the fitted loss of a training has stopped falling.

    The steps so far are cut into ``PIECES`` of one length, whose mean losses are fitted; the rule is that of epochs, on
    the fitted curve: over the last fifth of the training it fell by no more than a thousandth.

    Args:
        steps: Of each report, in any order; those of a part that was trained twice count twice.
        losses: Positive, larger is worse; others, such as not a number, are left out.
    """
    pairs = [(step, loss) for step, loss in zip(steps, losses, strict=True) if math.isfinite(loss) and loss > 0]
    last = max((step for step, _ in pairs), default=0.0)
    if last <= 0:
        return False
    pieces: list[list[float]] = [[] for _ in range(PIECES)]
    for step, loss in pairs:
        pieces[min(PIECES - 1, int(step / last * PIECES))].append(loss)
    if sum(bool(piece) for piece in pieces) < PIECES:
        return False  # too few reports to tell
    # The first ones hold losses that are too far apart for their mean to lie on the curve.
    means = [sum(piece) / len(piece) for piece in pieces[PATIENCE_EPOCHS:]]
    curve = fit_loss(range(len(means)), without_outliers(means).tolist())
    return curve is not None and is_done([-curve.loss(at) for at in range(len(means))])
