"""Figures by which schedules are compared: completion times, fairness."""

import math
from collections.abc import Sequence

from scheduler.core.model.profile import Profile, scaling


def percentile(ranked: Sequence[float], p: float) -> float:
    """Return the value at rank ``ceil(p * n)``, counted from 1, without interpolation.

    Args:
        ranked: Values in ascending order, at least one.
        p: Share, 0 < p <= 1.
    """
    if not ranked or not 0 < p <= 1:
        raise ValueError(f"percentile {p} of {len(ranked)} values")
    # The tolerance keeps products such as 0.07 * 100 = 7.000000000000001 at their rank.
    return ranked[max(1, math.ceil(p * len(ranked) - 1e-9)) - 1]


def has_percentile(count: int, p: float) -> bool:
    """Return whether ``count`` values have a percentile below their largest: the 99th takes 100 of them."""
    return count * (1.0 - p) >= 1.0 - 1e-9


def jain_index(shares: Sequence[float]) -> float:
    """Return Jain's fairness index of non-negative shares: 1 when all are equal, 1/n when one has everything.

    Shares that are all 0 are equal.
    """
    squares = math.fsum(share * share for share in shares)
    return math.fsum(shares) ** 2 / (len(shares) * squares) if squares else 1.0


def isolated_time_s(
    *,
    run_s: float,
    num_gpus: int,
    cluster_gpus: int,
    sharers: float,
    min_gpus: int | None = None,
    max_gpus: int | None = None,
    profile: Profile | None = None,
) -> float:
    """Return how long a job takes on an exclusive 1/n share of the cluster.

    Args:
        run_s: Run time on the GPUs it asks for, seconds.
        num_gpus: GPUs it asks for.
        cluster_gpus: GPUs of the cluster.
        sharers: n, how many jobs share the cluster; on average over the life of the job.
        min_gpus: Least GPUs it can run on; None for those it asks for.
        max_gpus: Most GPUs it can use; None for those it asks for.
        profile: How its speed grows with its GPUs; None for in proportion.

    Returns:
        Seconds. An elastic job uses as much of its share as it can, at the speed of its own curve. A job whose least is
        wider than the share takes as much longer than on that least as the share is narrower.

    Source: Mahajan et al., "Themis", NSDI 2020, T_id. Differs: speeds by the curve of the job instead of in proportion.
    """
    least, most = min_gpus or num_gpus, max_gpus or num_gpus
    share_gpus = cluster_gpus / max(1.0, sharers)
    usable_gpus = max(float(least), min(share_gpus, float(most)))
    known = profile or Profile()
    return run_s * scaling(known, num_gpus) / scaling(known, usable_gpus) * max(1.0, least / share_gpus)
