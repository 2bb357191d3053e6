"""Tell from what jobs hold whether any arrived or ended since GPUs were shared out; nothing has to be remembered."""

import numpy as np

from scheduler.core.model.tables import IntArray, Snapshot
from scheduler.core.performance.curves import Curves


def undisturbed_shares(snapshot: Snapshot, curves: Curves, num_gpus: int) -> IntArray | None:
    """Return (n,) the GPUs that jobs hold where none arrived or ended since they got them; else None.

    A job that arrived holds none. One that ended leaves GPUs that others can use, and where no job can, each has
    as many as help. Servers that came or went change the sum.

    Args:
        snapshot: The jobs that share GPUs, and what they hold.
        curves: Their throughput.
        num_gpus: GPUs that they may share.
    """
    jobs = snapshot.jobs
    held = np.bincount(snapshot.held.job, weights=snapshot.held.num_gpus, minlength=len(jobs)).astype(np.int64)
    if not (jobs.running & (held >= jobs.min_gpus) & (held <= jobs.max_gpus)).all():
        return None
    idle = num_gpus - int(held.sum())
    if idle < 0:
        return None
    last_helps = curves.table.gain[curves.row, held - 1] > 0
    if not (last_helps | (held == jobs.min_gpus)).all():
        return None  # these policies give no job a GPU that does not help: another policy shared them out
    useful = np.minimum(jobs.max_gpus, curves.table.stop[curves.row, held])
    return None if idle and bool((useful > held).any()) else held
