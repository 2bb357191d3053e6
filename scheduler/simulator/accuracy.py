"""Accuracy curves of made-up trainings, one value an epoch."""

from dataclasses import dataclass
from random import Random

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


def curve(training: Training, chance: Random) -> list[float]:
    """Return its accuracy by epoch: a gap to the final accuracy that shrinks by the same factor every epoch."""
    gap = max(_SAME_FRAC, 1.0 - training.start / training.final)
    settled = max(1.0, training.settles_at * training.epochs - 1)
    values = []
    for epoch in range(training.epochs):
        left = gap * (_SAME_FRAC / gap) ** (epoch / settled)
        values.append(training.final * (1.0 - left) + chance.gauss(0.0, training.noise))
    return values


def draw_training(chance: Random) -> Training:
    """Return a training as Philly found them: three of four settle within 40 % of their epochs.

    Source: the share is from Jeon et al., ATC 2019; that settling is spread evenly on either side of it, and the
    numbers of epochs and the accuracies, are ours.
    """
    early = chance.random() < 0.75
    return Training(
        epochs=chance.randint(20, 200),
        final=chance.uniform(0.6, 0.99),
        start=chance.uniform(0.1, 0.5),
        settles_at=chance.uniform(0.05, 0.4) if early else chance.uniform(0.4, 1.0),
    )
