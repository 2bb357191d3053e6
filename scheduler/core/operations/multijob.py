"""Rank the configurations of a search by early feedback, and choose which get the GPUs.

A search runs all its configurations a little, predicts how each will end, and gives the GPUs to the promising ones.

Source: Xiao et al., "Gandiva", OSDI 2018 (early feedback by time slicing); Rasley et al., "HyperDrive", Middleware 2017
(promising, opportunistic and poor configurations). Differs: HyperDrive draws its curves by Monte Carlo from eleven
families; ours is one power law, and its chance comes from the error of that fit.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

# Below this chance of reaching the target a configuration is given up.
POOR_CHANCE = 0.05
_LEAST_POINTS = 5
_EXPONENTS = tuple(0.05 * step for step in range(1, 61))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Accuracy after t steps as ``limit - drop * t ** -exponent``.

    Attributes:
        limit: Where it is heading.
        drop: How far below that it is after one step.
        exponent: How fast it closes in.
        error: Root of the mean squared error of the fit.
    """

    limit: float
    drop: float
    exponent: float
    error: float

    def at(self, step: float) -> float:
        """Return the accuracy after so many steps."""
        return self.limit - self.drop * math.pow(step, -self.exponent)


def fit_curve(steps: Sequence[float], accuracy: Sequence[float]) -> Fit | None:
    """Return the power law nearest to an accuracy curve; None below five values.

    For each exponent of a grid the other two are a straight line's, so the fit is the same on every machine. A curve
    that falls is heading for its mean.

    Args:
        steps: Steps done at each value, > 0, ascending; they need not be evenly apart.
        accuracy: The values.
    """
    if len(accuracy) < _LEAST_POINTS:
        return None
    return min((_line(steps, accuracy, exponent) for exponent in _EXPONENTS), key=lambda fit: fit.error)


def _line(steps: Sequence[float], accuracy: Sequence[float], exponent: float) -> Fit:
    size, first = len(accuracy), steps[0]
    xs = [(step / first) ** -exponent for step in steps]  # from 1 downwards, however many steps these are
    mean_x, mean_y = math.fsum(xs) / size, math.fsum(accuracy) / size
    spread = math.fsum((x - mean_x) ** 2 for x in xs)
    # Steps so large that they differ in no digit of a float tell nothing of a slope.
    slope = (
        math.fsum((x - mean_x) * (y - mean_y) for x, y in zip(xs, accuracy, strict=True)) / spread if spread else 0.0
    )
    drop = max(0.0, -slope)
    limit = mean_y + drop * mean_x
    error = math.sqrt(math.fsum((limit - drop * x - y) ** 2 for x, y in zip(xs, accuracy, strict=True)) / size)
    return Fit(limit=limit, drop=drop * first**exponent, exponent=exponent, error=error)


def chance_of_reaching(fit: Fit, *, target: float, by_step: float) -> float:
    """Return the chance that the accuracy reaches a target by a step, for normal errors as large as those of the fit.

    The error is taken to grow with how far ahead the step lies by not shrinking with the number of points.
    """
    ahead = fit.at(by_step) - target
    if fit.error <= 1e-12:
        return 1.0 if ahead >= 0 else 0.0
    return 0.5 * math.erfc(-ahead / (fit.error * math.sqrt(2.0)))


class Promise(StrEnum):
    """Class of a configuration by its chance of reaching the target."""

    PROMISING = "promising"  # gets a GPU of its own
    OPPORTUNISTIC = "opportunistic"  # takes turns on the GPUs that are left
    POOR = "poor"  # is ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """The verdict on the configurations of a search.

    Attributes:
        threshold: p*, the chance from which a configuration is promising; above 1 when none is.
        promises: One for each configuration.
    """

    threshold: float
    promises: tuple[Promise, ...]


def rank(chances: Sequence[float], *, slots: int) -> Ranking:
    """Return the worth of configurations with these chances of reaching the target on so many GPUs.

    The threshold is the chance at which the GPUs that promising configurations deserve, the sum of their chances, is
    closest to what they would use, one each and no more than there are. Lower it and more of them run alone on less
    promise; raise it and promise waits in turns.

    Differs: HyperDrive's desired slots come from its own confidence measure; here the measure is the chance itself.
    """
    hopeful = [row for row, chance in enumerate(chances) if chance >= POOR_CHANCE]
    hopeful.sort(key=lambda row: (-chances[row], row))
    count = max(
        (
            count
            for count in range(1, min(slots, len(hopeful)) + 1)
            if round(math.fsum(chances[row] for row in hopeful[:count])) >= count
        ),
        default=0,
    )
    promising = frozenset(hopeful[:count])
    promises = tuple(
        Promise.POOR if chance < POOR_CHANCE else Promise.PROMISING if row in promising else Promise.OPPORTUNISTIC
        for row, chance in enumerate(chances)
    )
    return Ranking(threshold=chances[hopeful[count - 1]] if count else 2.0, promises=promises)


def weights(chances: Sequence[float], *, top: int) -> tuple[float, ...]:
    """Return the weight of each configuration in the round robin: the ``top`` most promising get 8, the others 1."""
    ranked = sorted(range(len(chances)), key=lambda row: (-chances[row], row))
    favoured = {row for row in ranked[:top] if chances[row] >= POOR_CHANCE}
    return tuple(8.0 if row in favoured else 1.0 for row in range(len(chances)))


def feedback_times_s(first_s: float, run_s: float) -> list[float]:
    """Return the run times at which a search looks at its configurations: after e, 2e, 4e ... seconds."""
    times_s = []
    at_s = first_s
    while at_s < run_s:
        times_s.append(at_s)
        at_s *= 2
    return times_s
