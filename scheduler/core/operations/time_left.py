"""How long a training takes at its present rate, and when that is: unknown beyond ten years, which no estimate means.

Steps and rates are what jobs say; their quotient may be any number.
"""

import math
from datetime import datetime, timedelta

HORIZON_S = 10 * 365 * 86_400.0


def time_left_s(*, step: int | None, total_steps: int | None, steps_per_s: float | None) -> float:
    """Return the seconds of the steps that are left, at least 0; +inf when unknown. Without a step all are left."""
    if not total_steps or not steps_per_s:
        return math.inf
    left_s = max(0, total_steps - (step or 0)) / steps_per_s
    return left_s if left_s <= HORIZON_S else math.inf


def moment_after(at: datetime, after_s: float) -> datetime | None:
    """Return the moment so many seconds later; None when that is unknown."""
    return at + timedelta(seconds=after_s) if after_s <= HORIZON_S else None
