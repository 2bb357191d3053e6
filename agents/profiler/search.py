"""Which core count to measure next. Pure.

The count is halved from the most to one. Where a halving cost speed, the interval is bisected, until its middle lies on
the line between its ends; where the speed stayed flat, nothing in between is measured.

Source: Mohan et al., "Synergy", OSDI 2022, section 3.1, optimistic profiling. Differs: the published search goes down
one core at a time once a halving cost 10 %, and never looks into the interval of that halving.
"""

from collections.abc import Mapping
from itertools import pairwise

# The speed is flat where half the cores lose less than this share of it.
FLAT_FRAC = 0.10
# A count whose speed is this near to the line between its neighbours' needs no finer look.
LINE_FRAC = 0.03


def next_cores(rates: Mapping[int, float], *, most: int) -> int | None:
    """Return the core count to measure next; None when enough is known.

    Args:
        rates: Speed by core count, as far as measured.
        most: Cores that there are, at least 1.
    """
    halves = [most]
    while halves[-1] > 1:
        halves.append(halves[-1] // 2)
    for cores in halves:
        if cores not in rates:
            return cores
    for high, low in pairwise(halves):
        if 1.0 - rates[low] / rates[high] >= FLAT_FRAC:
            middle = _middle(rates, low, high)
            if middle is not None:
                return middle
    return None


def _middle(rates: Mapping[int, float], low: int, high: int) -> int | None:
    """Return a count between two measured ones that is worth measuring."""
    if high - low <= 1:
        return None
    middle = (low + high) // 2
    if middle not in rates:
        return middle
    line = rates[low] + (rates[high] - rates[low]) * (middle - low) / (high - low)
    if abs(rates[middle] - line) <= LINE_FRAC * line:
        return None
    below = _middle(rates, low, middle)
    return _middle(rates, middle, high) if below is None else below
