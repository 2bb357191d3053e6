"""Whether a quantity that was looked at over time stays flat: its line by least squares, and how far it strays."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

HOUR_S = 3_600.0
NOISES = 3.0  # a rise within so many times the noise is none


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What was found.

    Attributes:
        mean: Of all values.
        per_hour: Slope.
        noise: Standard deviation from the line.
        rise: By the line, from the first look to the last.
    """

    mean: float
    per_hour: float
    noise: float
    rise: float

    def grows(self, *, at_least: float) -> bool:
        """Return whether it rises by more than its noise explains, and by no less than ``at_least``."""
        return self.rise > max(NOISES * self.noise, at_least)


def line(times_s: Sequence[float], values: Sequence[float]) -> Line:
    """Return the line through values at these times; at least two."""
    slope, start = statistics.linear_regression(times_s, values)
    strays = [value - (start + slope * at_s) for at_s, value in zip(times_s, values, strict=True)]
    return Line(
        mean=statistics.fmean(values),
        per_hour=slope * HOUR_S,
        noise=statistics.pstdev(strays),
        rise=slope * (times_s[-1] - times_s[0]),
    )
