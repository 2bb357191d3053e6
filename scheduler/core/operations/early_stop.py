"""Detect that the accuracy of a training has stopped rising, or its loss falling, so that it may end.

Source: Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads" (Philly), ATC 2019:
75 % of the jobs come within 0.1 % of their best accuracy in 40 % of their epochs. The rule itself is ours.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.core.performance.curve_fit import fit_loss, without_outliers

TOLERANCE_FRAC = 0.001
PATIENCE_EPOCHS = 10
PIECES = 5 * PATIENCE_EPOCHS


def is_done(accuracy: Sequence[float], *, patience: int = PATIENCE_EPOCHS, tolerance: float = TOLERANCE_FRAC) -> bool:
    """Return whether each of the last ``patience`` epochs lies within ``tolerance`` of the best accuracy so far.

    A curve that still rises fails this: its earlier epochs are further from its newest, best one.

    Args:
        accuracy: One value an epoch, oldest first, larger is better.
        patience: Epochs that must agree.
        tolerance: Share of the best accuracy that does not matter.
    """
    if len(accuracy) < patience:
        return False
    best = max(accuracy)
    return all(best - value <= tolerance * abs(best) for value in accuracy[-patience:])


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


def epochs_until_done(
    accuracy: Sequence[float], *, patience: int = PATIENCE_EPOCHS, tolerance: float = TOLERANCE_FRAC
) -> int:
    """Return after how many epochs the rule ends a training; all of them when it never does."""
    return next(
        (
            epochs
            for epochs in range(patience, len(accuracy))
            if is_done(accuracy[:epochs], patience=patience, tolerance=tolerance)
        ),
        len(accuracy),
    )


def epochs_to_within(accuracy: Sequence[float], *, tolerance: float = TOLERANCE_FRAC) -> int:
    """Return the first epoch, from 1, whose accuracy lies within ``tolerance`` of the best of the whole training."""
    best = max(accuracy)
    return next(at for at, value in enumerate(accuracy, start=1) if best - value <= tolerance * abs(best))


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """What the rule changes about a set of trainings.

    Attributes:
        gpu_s: GPU-seconds of all of them, run to the end.
        saved_gpu_s: GPU-seconds that the rule saves.
        lost_accuracy_frac: Mean share of the best accuracy that is given up.
        early_frac: Share of the trainings that come within the tolerance of their best in 40 % of their epochs.
    """

    gpu_s: float
    saved_gpu_s: float
    lost_accuracy_frac: float
    early_frac: float


def saving(curves: Sequence[Sequence[float]], gpu_s_per_epoch: Sequence[float]) -> Saving:
    """Return what the rule saves on trainings with these curves, at least one, and what it costs them."""
    total_s = saved_s = lost = 0.0
    early = 0
    for accuracy, cost_s in zip(curves, gpu_s_per_epoch, strict=True):
        epochs = epochs_until_done(accuracy)
        total_s += cost_s * len(accuracy)
        saved_s += cost_s * (len(accuracy) - epochs)
        best = max(accuracy)
        lost += (best - max(accuracy[:epochs])) / abs(best)
        early += epochs_to_within(accuracy) <= 0.4 * len(accuracy)
    return Saving(
        gpu_s=total_s, saved_gpu_s=saved_s, lost_accuracy_frac=lost / len(curves), early_frac=early / len(curves)
    )
