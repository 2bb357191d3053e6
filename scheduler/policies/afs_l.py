"""Elastic shares for a low average completion time, lengths known (AFS-L)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from scheduler.core.model.tables import FloatArray, IntArray, JobTable, Snapshot
from scheduler.core.performance.curves import curves_of
from scheduler.policies.math.knock_out import KnockOutRule, knock_out
from scheduler.policies.math.least import least_shares
from scheduler.policies.math.undisturbed import undisturbed_shares

_RULE = KnockOutRule(shrinking=True, ties_to_later=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AfsL:
    """Each spare GPU to the job that gains most by it, or to the shorter one where their gains are close.

    Shares are decided when a job arrives or ends. In between they stay, although lengths may cross meanwhile.

    Source: Hwang et al., "Elastic Resource Sharing for Distributed Deep Learning" (AFS), NSDI 2021, AFS-L. Differs: a
    job never gets a GPU that makes it no faster; jobs of unknown length count as longest; rigid jobs and least shares
    above one GPU are let in first, those that end soonest before the others where not all fit.
    """

    name: ClassVar[str] = "afs-l"
    preemptive: ClassVar[bool] = False

    def shares(self, snapshot: Snapshot, num_gpus: int) -> IntArray:
        """Return (n,) GPUs of each job."""
        jobs = snapshot.jobs
        curves = curves_of(jobs)
        before = undisturbed_shares(snapshot, curves, num_gpus)
        if before is not None:
            return before
        pool = np.lexsort((jobs.job_id, jobs.arrival_s))
        soonest = pool
        if int(jobs.min_gpus.sum()) > num_gpus:  # else all get their least, in whatever order
            soonest = np.lexsort((jobs.job_id, jobs.arrival_s, curves.time_s(jobs.min_gpus)))
        least = least_shares(jobs.min_gpus, soonest, num_gpus)
        return knock_out(
            curves,
            _RULE,
            lengths=curves.work_s,
            pool=pool[least[pool] > 0],
            gpus=least,
            most=jobs.max_gpus,
            spare=num_gpus - int(least.sum()),
        )

    def priority(self, snapshot: Snapshot) -> FloatArray:
        """Return (n,) keys: the widest share first, because it needs the most room on one server."""
        return -snapshot.jobs.num_gpus.astype(np.float64)

    def next_change_s(self, jobs: JobTable) -> FloatArray:
        """Return (n,) +inf: shares stay between two events."""
        return np.full(len(jobs), np.inf)
