"""Equal shares from below (max-min)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from scheduler.core.model.tables import FloatArray, IntArray, JobTable, Snapshot
from scheduler.policies.math.least import least_shares


@dataclass(frozen=True, slots=True, kw_only=True)
class Maxmin:
    """One GPU at a time round robin, first started first, up to the most each job can use.

    Source: the max-min baseline of Hwang et al., "AFS", NSDI 2021.
    """

    name: ClassVar[str] = "maxmin"
    preemptive: ClassVar[bool] = False

    def shares(self, snapshot: Snapshot, num_gpus: int) -> IntArray:
        """Return (n,) GPUs of each job."""
        jobs = snapshot.jobs
        order = np.lexsort((jobs.job_id, jobs.arrival_s, jobs.first_start_s))
        least = least_shares(jobs.min_gpus, order, num_gpus)
        most = np.where(least > 0, jobs.max_gpus, 0)
        low, high = 0, int(most.max(initial=0))
        while low < high:  # the highest level to which all jobs can be raised
            level = (low + high + 1) // 2
            if int(np.clip(level, least, most).sum()) <= num_gpus:
                low = level
            else:
                high = level - 1
        shares: IntArray = np.clip(low, least, most).astype(np.int64)
        higher = order[((shares == low) & (shares < most))[order]]
        shares[higher[: num_gpus - int(shares.sum())]] += 1
        return shares

    def priority(self, snapshot: Snapshot) -> FloatArray:
        """Return (n,) keys: the widest share first, because it needs the most room on one server."""
        return -snapshot.jobs.num_gpus.astype(np.float64)

    def next_change_s(self, jobs: JobTable) -> FloatArray:
        """Return (n,) +inf: shares depend on nothing but which jobs there are."""
        return np.full(len(jobs), np.inf)
