"""Accuracy curves of made-up trainings, one value an epoch."""

from dataclasses import dataclass

from scheduler.simulator.draws import Draws

_SAME_FRAC = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """One training.

    Attributes:
        epochs: Epochs that its user asked for.
        final: Accuracy at the end.
        start: Accuracy after the first epoch.
        settles_at: Share of the epochs after which it lies within 0.1 % of where it is heading.
        noise: Standard deviation of one epoch's accuracy.
    """

    epochs: int
    final: float
    start: float
    settles_at: float
    noise: float = 0.0


def curve(training: Training, draws: Draws) -> list[float]:
    """Return its accuracy by epoch: a gap to the final accuracy that shrinks by the same factor every epoch."""
    gap = max(_SAME_FRAC, 1.0 - training.start / training.final)
    settled = max(1.0, training.settles_at * training.epochs - 1)
    noise = (training.noise * draws.normal(training.epochs)).tolist()
    lefts = (gap * (_SAME_FRAC / gap) ** (epoch / settled) for epoch in range(training.epochs))
    return [training.final * (1.0 - left) + error for left, error in zip(lefts, noise, strict=True)]


def draw_training(draws: Draws) -> Training:
    """Return a training as Philly found them: three of four settle within 40 % of their epochs.

    Source: the share is from Jeon et al., ATC 2019; that settling is spread evenly on either side of it, and the
    numbers of epochs and the accuracies, are ours.
    """
    early, epochs, final, start, settles = draws.uniform(5).tolist()
    return Training(
        epochs=20 + int(181 * epochs),
        final=0.6 + 0.39 * final,
        start=0.1 + 0.4 * start,
        settles_at=0.05 + 0.35 * settles if early < 0.75 else 0.4 + 0.6 * settles,
    )
