"""Estimate the seconds of a step at each core count, and the error, from several visits to each. Pure.

Other processes only ever slow a job down, in bursts of a second or so: its own speed shows in the fastest runs of
steps, given enough visits. Readers that prepare mini-batches even out such bursts and hand over in bunches, so a fast
run of steps says nothing; there the median counts. A slow drift of the whole machine is removed first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import exp, log, sqrt
from statistics import fmean, median

# The quantile of its runs that counts as the speed of a core count: without readers, and with readers that prepare
# mini-batches. Not the fastest run, since steps are not all alike.
FASTEST_FRAC, READ_FRAC = 0.1, 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One time at one core count.

    Attributes:
        at_s: Its middle.
        runs_s: Seconds of a step in each run of steps.
    """

    at_s: float
    runs_s: tuple[float, ...]


Visits = Mapping[int, Sequence[Visit]]


def steps_s(visits: Visits, *, frac: float) -> dict[int, float]:
    """Return by core count the seconds of a step: the quantile ``frac`` of its runs, the machine's drift removed."""
    slower = _slower_each_s(visits)
    first_s = min((known[0].at_s for known in visits.values()), default=0.0)
    return {
        cores: _quantile(
            [run_s * exp(-slower * (visit.at_s - first_s)) for visit in known for run_s in visit.runs_s], frac
        )
        for cores, known in visits.items()
    }


def relative_error(visits: Visits, *, frac: float) -> float | None:
    """Return the largest standard error of a speed relative to that on the most cores; None for counts visited once.

    Jackknife: how far apart the estimates are from all visits but one of each count.
    """
    times = min((len(known) for known in visits.values()), default=0)
    if times < 2:
        return None
    speeds: dict[int, list[float]] = {cores: [] for cores in visits}
    for left_out in range(times):
        fewer = {cores: [*known[:left_out], *known[left_out + 1 :]] for cores, known in visits.items()}
        found_s = steps_s(fewer, frac=frac)
        for cores, step_s in found_s.items():
            speeds[cores].append(log(found_s[max(found_s)] / step_s))
    return max(sqrt((times - 1) * fmean((one - fmean(every)) ** 2 for one in every)) for every in speeds.values())


def _slower_each_s(visits: Visits) -> float:
    """Return the share by which steps become longer each second: the median over pairs of visits to the same count.

    Source: Theil, "A rank-invariant method of linear and polynomial regression analysis", 1950.
    """
    slopes = [
        log(median(after.runs_s) / median(before.runs_s)) / (after.at_s - before.at_s)
        for known in visits.values()
        for before, after in combinations(known, 2)
        if after.at_s > before.at_s
    ]
    return median(slopes) if slopes else 0.0


def _quantile(values: Sequence[float], frac: float) -> float:
    """Return a quantile, interpolated linearly."""
    ordered = sorted(values)
    at = frac * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)
