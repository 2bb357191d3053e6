"""Consolidates only the jobs that gain from it (Tiresias)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from scheduler.core.model.tables import FloatArray, JobTable
from scheduler.core.packing.draft import Seats
from scheduler.core.packing.free_gpus import Gang, FreeGpus
from scheduler.placement.fewest import on_fewest_servers
from scheduler.placement.scattered import on_any_gpus

# Newton steps of the fit, and how strongly large weights are held back: a threshold that separates the jobs without
# error would otherwise have no finite fit.
_STEPS = 50
_RIDGE = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Skew:
    """Jobs whose largest tensor dominates their model get the fewest servers or wait; all others take any free GPUs.

    Source: Gu et al., "Tiresias", NSDI 2019, section 3.3 (model profile-based placement). Differs: a job of unknown
    skew takes any free GPUs, as the paper does for its first iterations, until its profile is known; what runs is not
    moved. The limit is an option; ``learn_pack_limit`` learns it from history.
    """

    name: ClassVar[str] = "skew"

    pack_limit: float = field(
        default=0.3,
        metadata={
            "help": "Largest tensor as a share of the model above which a job is kept on the fewest servers.",
            "minimum": 0.0,
            "maximum": 1.0,
        },
    )

    def kinds(self, jobs: JobTable, now_s: float) -> tuple[FloatArray, ...]:
        """Return 1 for jobs that must be consolidated, else 0."""
        # NO_ROW is the last entry: the job of which nothing is known.
        skews = [math.nan if profile.skew is None else profile.skew for profile in jobs.profiles]
        return ((np.array([*skews, math.nan])[jobs.profile] > self.pack_limit).astype(np.float64),)

    def seats(self, space: FreeGpus, gang: Gang) -> Seats:
        """Return the fewest servers that could hold the gang if they were empty, or any free GPUs; empty for none."""
        if gang.kind[0]:
            return on_fewest_servers(space, gang, max_servers=max(1, gang.least_servers))
        return on_any_gpus(space, gang)


def learn_pack_limit(skews: Sequence[float], slowdowns: Sequence[float], *, worth: float = 1.1) -> float:
    """Return the skew above which a job more likely than not gains from consolidation.

    Args:
        skews: Skew of each job of the history, 0 to 1.
        slowdowns: Its run time spread over servers, relative to consolidated.
        worth: Slowdown from which on consolidation counts as worth the wait.

    Returns:
        A value of ``pack_limit``, 0 to 1. Where the history shows one kind of job only, or no more gain for larger
        skews, everybody (0) or nobody (1) is consolidated, whichever was right more often.

    Source: Gu et al., "Tiresias", NSDI 2019: PACKLIMIT is learned by a linear classifier. Differs: a logistic one.
    """
    x, gains = np.asarray(skews, dtype=np.float64), np.asarray(slowdowns, dtype=np.float64) > worth
    by_majority = 0.0 if 2 * int(gains.sum()) > len(gains) else 1.0
    if gains.all() or not gains.any() or x.max() == x.min():
        return by_majority
    middle, width = float(x.mean()), float(x.std())
    columns = np.stack((np.ones_like(x), (x - middle) / width))
    weights = np.zeros(2)
    for _ in range(_STEPS):
        likely = 1.0 / (1.0 + np.exp(-weights @ columns))
        slope = columns @ (gains - likely) - _RIDGE * weights
        curvature = (columns * (likely * (1.0 - likely))) @ columns.T + _RIDGE * np.eye(2)
        weights = weights + np.linalg.solve(curvature, slope)
    if weights[1] <= 0:
        return by_majority
    return min(1.0, max(0.0, float(middle - width * weights[0] / weights[1])))
