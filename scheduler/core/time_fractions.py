"""Time fractions that make the worst finish-time fairness as good as possible (the program of Gavel)."""

import numpy as np

from scheduler.core.model.tables import FloatArray

_STEPS = 100


def fair_fractions(
    *, age_s: FloatArray, remaining_s: FloatArray, isolated_s: FloatArray, num_gpus: FloatArray, capacity_gpus: float
) -> tuple[FloatArray, float]:
    """Return (n,) fractions of time that each job runs on its GPUs, and the largest ratio rho that follows.

    Args:
        age_s: (n,) time since submission, seconds.
        remaining_s: (n,) run time left on its GPUs, seconds, > 0.
        isolated_s: (n,) time alone on its share of the cluster, seconds, > 0.
        num_gpus: (n,) GPUs of each job.
        capacity_gpus: GPUs of the cluster, at least as many as the widest job has.

    Returns:
        The fractions, 0 to 1, with ``sum(num_gpus * fractions) <= capacity_gpus``; rho is
        ``(age_s + remaining_s / fraction) / isolated_s``.

    Source: Narayanan et al., "Gavel", OSDI 2020, finish-time fairness. Differs: instead of a convex solver the least
    rho is found by halving, because the fractions that a rho needs are known in closed form.
    """
    low = float(((age_s + remaining_s) / isolated_s).max())
    needed = remaining_s / (low * isolated_s - age_s)
    if float(num_gpus @ needed) <= capacity_gpus:
        return needed, low
    high = low
    while float(num_gpus @ (remaining_s / (high * isolated_s - age_s))) > capacity_gpus:
        high *= 2
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if float(num_gpus @ (remaining_s / (middle * isolated_s - age_s))) > capacity_gpus:
            low = middle
        else:
            high = middle
    return np.minimum(1.0, remaining_s / (high * isolated_s - age_s)), high
