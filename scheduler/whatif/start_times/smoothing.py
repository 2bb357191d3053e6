"""Estimates from round to round: futures of the rounds before count on, and the last known estimate outlives a gap.

Each round draws its futures anew. Alone, two dozen of them let p50 jump by hours from one round to the next although
nothing happened in the cluster; and where there was no time for enough of them there would be none to tell.
"""

import math
from collections.abc import Sequence
from datetime import datetime, timedelta

from scheduler.models import StartEstimate

# Older futures are of another cluster.
FOR_LATER = timedelta(hours=1)
# Reasons under which starts were simulated: they may lie beyond the futures.
SIMULATED = frozenset({"", "not_in_futures"})


def pooled(starts_s: Sequence[float], before: StartEstimate | None, at: datetime) -> list[float]:
    """Return the starts of this round and of those before, of each as half as many as of the next, ascending.

    Args:
        starts_s: Seconds from ``at`` to the start in each future; +inf where it does not start.
        before: The stored estimate; None for the first.
        at: Now.
    """
    found = list(starts_s)
    if before is not None and before.reason in SIMULATED and at - before.made_at <= FOR_LATER:
        passed_s = (at - before.made_at).total_seconds()
        missing = [math.inf] * (before.futures - len(before.starts_s))
        earlier = [*before.starts_s, *missing][1::2]  # ascending: every second one has the same distribution
        # It still waits, so the futures in which it has started by now are none of this one.
        found += [start_s - passed_s for start_s in earlier if start_s > passed_s]
    return sorted(found)


def outlives(before: StartEstimate | None, reason: str, at: datetime) -> bool:
    """Return whether the stored estimate is still told, with its age, where too few futures could be simulated."""
    if before is None or reason != "too_large" or before.reason or before.p50_at is None:
        return False
    return at - before.made_at <= FOR_LATER and before.p50_at > at
