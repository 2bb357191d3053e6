"""Fit the curve of a training that converges to its losses so far (Optimus)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.core.model.tables import FloatArray

_LEAST_POINTS = 3
_NEIGHBOURS = 5
_GRID = 1_000
_ZOOMS = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class LossCurve:
    """``1 / (falling * epoch + start) + floor``, all three at least 0."""

    falling: float
    start: float
    floor: float

    def loss(self, epoch: float) -> float:
        """Return the loss after so many epochs."""
        reciprocal = self.falling * epoch + self.start
        return self.floor + (1.0 / reciprocal if reciprocal else math.inf)


def without_outliers(losses: Sequence[float]) -> FloatArray:
    """Return the losses; one above or below all of its five neighbours on both sides becomes their mean."""
    values = np.asarray(losses, dtype=np.float64)
    smooth = values.copy()
    for at in range(1, len(values) - 1):
        around = np.concatenate((values[max(0, at - _NEIGHBOURS) : at], values[at + 1 : at + 1 + _NEIGHBOURS]))
        if values[at] > around.max() or values[at] < around.min():
            smooth[at] = around.mean()
    return smooth


def fit_loss(epochs: Sequence[float], losses: Sequence[float]) -> LossCurve | None:
    """Return the curve nearest to the losses; None with fewer than three points or losses that are not positive.

    Source: Peng et al., "Optimus", EuroSys 2018, section 3.1. Differs: the floor is searched on a grid that is refined
    around the best point, and for each floor the other two are a non-negative least-squares fit whose weights turn
    errors of the reciprocal into errors of the loss.
    """
    at, values = np.asarray(epochs, dtype=np.float64), np.asarray(losses, dtype=np.float64)
    if len(values) < _LEAST_POINTS or not (np.isfinite(values).all() and values.min() > 0):
        return None
    lowest = float(values.min())
    floors = np.linspace(0.0, lowest, _GRID, endpoint=False)
    step = lowest / _GRID
    best, floor = _fit_above(floors, at, values)
    for _ in range(_ZOOMS):
        floors = np.clip(np.linspace(floor - step, floor + step, 41), 0.0, lowest * (1 - 1e-9))
        step /= 20
        best, floor = _fit_above(floors, at, values)
    return LossCurve(falling=best[0], start=best[1], floor=floor)


def _fit_above(floors: FloatArray, at: FloatArray, values: FloatArray) -> tuple[tuple[float, float], float]:
    """Return (falling, start) and the floor, of those given, with the least squared error of the loss."""
    above = values - floors[:, None]
    weight, reciprocal = above**4, 1.0 / above
    zeroth, first, second = weight.sum(axis=1), weight @ at, weight @ at**2
    flat, slope = (weight * reciprocal).sum(axis=1), (weight * reciprocal) @ at
    determinant = zeroth * second - first**2
    with np.errstate(divide="ignore", invalid="ignore"):
        both = (zeroth * slope - first * flat) / determinant, (second * flat - first * slope) / determinant
        candidates = [both, (slope / second, np.zeros_like(flat)), (np.zeros_like(flat), flat / zeroth)]
    errors = []
    for falling, start in candidates:
        miss = weight * (falling[:, None] * at + start[:, None] - reciprocal) ** 2
        allowed = np.isfinite(falling) & np.isfinite(start) & (falling >= 0) & (start >= 0)
        errors.append(np.where(allowed, np.nan_to_num(miss.sum(axis=1), nan=np.inf), np.inf))
    kind, number = np.unravel_index(int(np.argmin(errors)), (len(candidates), len(floors)))
    falling, start = candidates[int(kind)]
    return (float(falling[number]), float(start[number])), float(floors[number])
