"""Predict from the losses so far after which epoch a training has converged (Optimus)."""

from collections.abc import Sequence

from scheduler.core.performance.curve_fit import fit_loss, without_outliers

# Epochs over which the loss must have stopped falling, by how much of the largest loss, and bounds of the forecast.
WINDOW_EPOCHS = 10
THRESHOLD = 0.05
MOST_EPOCHS = 100
GUESS_EPOCHS = 20


def predicted_end(
    losses: Sequence[float],
    *,
    threshold: float = THRESHOLD,
    window: int = WINDOW_EPOCHS,
    most_epochs: int = MOST_EPOCHS,
) -> int:
    """Return the epoch at which a training is expected to have converged, not before the next one.

    That is the first epoch that lies no more than ``threshold`` below any of the ``window`` epochs before it, on the
    fitted curve. Where no curve can be fitted, 20 epochs from now.

    Args:
        losses: Loss after each epoch so far, epoch 1 first.
        threshold: Share of the largest loss so far.
        window: Epochs.
        most_epochs: No forecast is later than this, unless it has run for longer already.

    Source: Peng et al., "Optimus", EuroSys 2018, section 3.1 and the published scheduler.
    """
    done = len(losses)
    latest = max(most_epochs, done + 1)
    largest = max(losses, default=0.0)
    curve = None
    if largest > 0:
        curve = fit_loss(range(1, done + 1), without_outliers([loss / largest for loss in losses]).tolist())
    if curve is None:
        return min(done + GUESS_EPOCHS, latest)
    for epoch in range(max(window, 1), latest):
        if curve.loss(epoch - window) - curve.loss(epoch) <= threshold:
            return max(epoch, done + 1)
    return latest
