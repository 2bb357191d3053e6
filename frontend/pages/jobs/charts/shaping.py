"""Shaping of measured values for a chart: thinning, smoothing, breaks. Pure functions."""

import math
from bisect import bisect_right
from collections.abc import Sequence
from datetime import datetime, tzinfo
from itertools import pairwise
from statistics import median

from frontend.components.charts import wall
from frontend.components.formats import NBSP, number
from scheduler.selectors.files.scalars import Curve

MOST_POINTS = 500
# Steps before and after one that tell how far apart samples usually are there.
NEIGHBOURS = 8


def thin(count: int, *, most: int = MOST_POINTS) -> list[int]:
    """Return which of ``count`` points are drawn: all, or evenly spread ones with the last among them."""
    if count <= most:
        return list(range(count))
    stride = math.ceil(count / most)
    return [index for index in range(count) if (count - 1 - index) % stride == 0]


def points_of(curve: Curve) -> tuple[list[float], list[float]]:
    """Return steps and values of a curve out of files, thinned."""
    pairs = [pair for part in curve.parts for pair in zip(*part.points(), strict=True)]
    kept = [pairs[index] for index in thin(len(pairs))]
    return [step for step, _ in kept], [value for _, value in kept]


def smoothing_weight(count: int) -> float:
    """Return the weight of a new value in a smoothed series of ``count`` values."""
    return min(0.6, max(0.15, 12 / max(1, count)))


def stride_of(steps: Sequence[float]) -> float:
    """Return the usual distance of two points, steps; 1 where there is none."""
    gaps = [after - before for before, after in pairwise(steps) if after > before]
    return median(gaps) if gaps else 1.0


def smoothed(steps: Sequence[float], values: Sequence[float]) -> list[float]:
    """Return a moving average without lag: averaged forward, then backward.

    A value after a long gap replaces more of the average than one of many close together. The last value is that of the
    forward average alone, so that a script can go on from it.
    """
    stride, weight = stride_of(steps), smoothing_weight(len(values))
    gaps = [1.0, *(max(1.0, (after - before) / stride) for before, after in pairwise(steps))]
    weights = [1 - (1 - weight) ** gap for gap in gaps]
    backward = [weight, *weights[:0:-1]]  # the gap of a point is then to the one after it
    return _averaged(_averaged(values, weights)[::-1], backward)[::-1]


def _averaged(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Return the exponential moving average, without the pull of a cold start."""
    total = share = 0.0
    result = []
    for value, weight in zip(values, weights, strict=True):
        total = (1 - weight) * total + weight * value
        share = (1 - weight) * share + weight
        result.append(total / share)
    return result


def steps_words(steps: float) -> str:
    """Return a number of steps as an axis names it: ``640``, ``61.2 k``."""
    if steps < 1000:
        return number(steps)
    return f"{number(steps / 1000, 0 if steps % 1000 == 0 or steps >= 100_000 else 1)}{NBSP}k"


def broken(x: Sequence[float], y: Sequence[float]) -> tuple[list[float | None], list[float | None]]:
    """Return the line with a break wherever the job went back to a checkpoint."""
    xs: list[float | None] = []
    ys: list[float | None] = []
    for index, (at, value) in enumerate(zip(x, y, strict=True)):
        if index and at < x[index - 1]:
            xs.append(None)
            ys.append(None)
        xs.append(at)
        ys.append(value)
    return xs, ys


def with_holes(
    at: Sequence[datetime], values: Sequence[float | None], zone: tzinfo, stops: Sequence[datetime] = ()
) -> tuple[list[str], list[float | None]]:
    """Return the line as Plotly takes it, with a break after each of ``stops`` and where samples are missing for long.

    Long is beside what is usual before or after: samples are further apart the older they are.
    """
    steps = [(b - a).total_seconds() for a, b in pairwise(at)]
    after_stops = {bisect_right(at, stop) for stop in stops}
    xs: list[str] = []
    ys: list[float | None] = []
    for index, (moment, value) in enumerate(zip(at, values, strict=True)):
        if index and (index in after_stops or steps[index - 1] > max(5.0, 4 * _usual_s(steps, index - 1))):
            xs.append(wall(at[index - 1], zone))
            ys.append(None)
        xs.append(wall(moment, zone))
        ys.append(value)
    return xs, ys


def _usual_s(steps: Sequence[float], index: int) -> float:
    """Return how far apart samples are around a step, seconds: the longer of before it and after it.

    The upper quartile of each: some come close together because something happened, which makes no hole of the others.
    """
    around = (steps[max(0, index - NEIGHBOURS) : index], steps[index + 1 : index + 1 + NEIGHBOURS])
    return max((sorted(part)[3 * len(part) // 4] for part in around if part), default=steps[index])
