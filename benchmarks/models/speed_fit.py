"""Fit the steps a second of a parameter-server job to measured numbers of servers and workers (Optimus)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from scheduler.core.model.tables import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedModel:
    """Steps a second with ``p`` parameter servers and ``w`` workers.

    Attributes:
        terms: Coefficients, none negative. Synchronous: ``1 / (t0 M/w + t1 + t2 w/p + t3 w + t4 p)``; asynchronous:
            ``w / (t0 + t1 w/p + t2 w + t3 p)``.
        batch: M, the total batch of a synchronous job; None for an asynchronous one.
        measured: Speeds that are known, by (p, w); they go before the model.
    """

    terms: tuple[float, ...]
    batch: float | None
    measured: Mapping[tuple[int, int], float]

    def speed(self, servers: int, workers: int) -> float:
        """Return steps a second, of all workers together when asynchronous."""
        known = self.measured.get((servers, workers))
        if known is not None:
            return known
        time_s = float(np.dot(self.terms, _inputs(servers, workers, self.batch)))
        return (1.0 if self.batch is not None else workers) / time_s


def _inputs(servers: int, workers: int, batch: float | None) -> list[float]:
    if batch is None:
        return [1.0, workers / servers, float(workers), float(servers)]
    return [batch / workers, 1.0, workers / servers, float(workers), float(servers)]


def fit_speed(points: Mapping[tuple[int, int], float], *, batch: float | None) -> SpeedModel | None:
    """Return the model nearest to measured speeds by (p, w); None with fewer points than it has coefficients.

    Source: Peng et al., "Optimus", EuroSys 2018, section 3.2.
    """
    rows = [_inputs(servers, workers, batch) for servers, workers in points]
    if len(rows) < len(_inputs(1, 1, batch)):
        return None
    times = [(1.0 if batch is not None else workers) / speed for (_, workers), speed in points.items()]
    terms = non_negative_fit(np.array(rows), np.array(times))
    return SpeedModel(terms=tuple(terms.tolist()), batch=batch, measured=dict(points)) if terms.any() else None


def non_negative_fit(inputs: FloatArray, outputs: FloatArray) -> FloatArray:
    """Return (v,) coefficients >= 0 with the least squared error of ``inputs @ coefficients``.

    Tries every set of coefficients that are not 0, which is exact and quick for the few that models here have.

    Args:
        inputs: (n, v), v at most about 6.
        outputs: (n,).
    """
    size = inputs.shape[1]
    best, least = np.zeros(size), float(outputs @ outputs)
    for active in _subsets(size):
        some = np.linalg.lstsq(inputs[:, active], outputs, rcond=None)[0]
        if (some < 0).any():
            continue
        miss = inputs[:, active] @ some - outputs
        error = float(miss @ miss)
        if error < least:
            best, least = np.zeros(size), error
            best[list(active)] = some
    return best


def _subsets(size: int) -> list[Sequence[int]]:
    """Return all non-empty sets of columns, small ones first."""
    return [list(active) for count in range(1, size + 1) for active in combinations(range(size), count)]
