"""Give every job its least share, as far as they fit, before any job gets more."""

import numpy as np

from scheduler.core.model.tables import IntArray


def least_shares(min_gpus: IntArray, order: IntArray, num_gpus: int) -> IntArray:
    """Return (n,) shares: the least of each job, in order, stepping over jobs for which too little is left.

    Args:
        min_gpus: (n,) least GPUs of each job; all that it asks for when it is rigid.
        order: (n,) rows, first the job that gets its least first.
        num_gpus: GPUs to share.
    """
    shares = np.zeros_like(min_gpus)
    if int(min_gpus.sum()) <= num_gpus:
        return min_gpus.copy()
    wanted = min_gpus[order]
    prefix = int(np.searchsorted(np.cumsum(wanted), num_gpus, side="right"))
    shares[order[:prefix]] = wanted[:prefix]
    left = num_gpus - int(wanted[:prefix].sum())
    for row, gpus in zip(order[prefix:].tolist(), wanted[prefix:].tolist(), strict=True):
        if left <= 0:
            break
        if gpus <= left:
            shares[row] = gpus
            left -= gpus
    return shares
