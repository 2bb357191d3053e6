"""What it saves to end trainings whose accuracy has stopped rising, and what it costs them.

Source: Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads" (Philly), ATC 2019:
75 % of the jobs come within 0.1 % of their best accuracy in 40 % of their epochs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.core.operations.early_stop import PATIENCE_EPOCHS, TOLERANCE_FRAC, is_done


def epochs_until_done(accuracy: Sequence[float]) -> int:
    """Return after how many epochs the rule ends a training; all of them when it never does."""
    ends = (epochs for epochs in range(PATIENCE_EPOCHS, len(accuracy)) if is_done(accuracy[:epochs]))
    return next(ends, len(accuracy))


def epochs_to_within(accuracy: Sequence[float]) -> int:
    """Return the first epoch, from 1, whose accuracy lies within a thousandth of the best of the whole training."""
    best = max(accuracy)
    return next(at for at, value in enumerate(accuracy, start=1) if best - value <= TOLERANCE_FRAC * abs(best))


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
