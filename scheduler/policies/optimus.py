"""Marginal gain: each GPU where it shortens a job most (Optimus)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from scheduler.core.model.tables import FloatArray, IntArray, Snapshot
from scheduler.core.performance.curves import curves_of
from scheduler.policies.math.least import least_shares


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimus:
    """Each GPU to the job whose remaining time it shortens most.

    Source: Peng et al., "Optimus", EuroSys 2018, section 4.1, reduced to GPUs as in the comparison of "AFS", NSDI 2021.
    Differs: the remaining time is whatever the snapshot says; it is exact in the simulator, and on a live cluster the
    steps that the job says are left at its own rate. The fit of its loss (``core/performance/curve_fit.py``) counts
    epochs, which live jobs do not report. Jobs of unknown length keep their least share.
    """

    name: ClassVar[str] = "optimus"
    preemptive: ClassVar[bool] = False

    def shares(self, snapshot: Snapshot, num_gpus: int) -> IntArray:
        """Return (n,) GPUs of each job."""
        jobs = snapshot.jobs
        curves = curves_of(jobs)
        order = np.lexsort((jobs.job_id, jobs.arrival_s))
        least = least_shares(jobs.min_gpus, order, num_gpus)
        most = int(jobs.max_gpus.max(initial=1))
        with np.errstate(divide="ignore", invalid="ignore"):
            time_s = curves.work_s[:, None] / curves.table.speed[curves.row, : most + 1]
            gain_s = np.nan_to_num(time_s[:, :-1] - time_s[:, 1:], nan=0.0, posinf=0.0)
        counts = np.arange(most)
        gain_s[(counts < least[:, None]) | (least[:, None] == 0)] = np.inf
        gain_s[counts >= np.where(least > 0, jobs.max_gpus, 0)[:, None]] = 0.0
        # A step is open only after the ones before it, so it goes with the worst of them.
        gain_s = np.minimum.accumulate(gain_s, axis=1)
        job, count = np.nonzero((gain_s > 0) & np.isfinite(gain_s))
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        best = np.lexsort((count, rank[job], -gain_s[job, count]))[: num_gpus - int(least.sum())]
        return least + np.bincount(job[best], minlength=len(jobs))

    def priority(self, snapshot: Snapshot) -> FloatArray:
        """Return (n,) keys: the widest share first, because it needs the most room on one server."""
        return -snapshot.jobs.num_gpus.astype(np.float64)
