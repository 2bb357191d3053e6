"""Finish-time fairness: the job that sharing delays most goes first."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from scheduler.core.tables import FloatArray, JobTable, Snapshot

# Keys drift all the time while somebody waits: a shell without fixed rounds looks again after a second.
_LOOK_AGAIN_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ftf:
    """Largest finish-time fairness first: finish time in the shared cluster over finish time on an equal share.

    The finish time is what it would be if the job ran from now on; the equal share is that of the cluster among as many
    jobs as were active on average since it arrived. Jobs of unknown length come last.

    Source: Mahajan et al., "Themis", NSDI 2020, rho = T_sh / T_id; as an order in Mohan et al., "Synergy", OSDI 2022.
    Differs: the largest first; the released Synergy code sorts ascending, which favours those who are lucky already.
    """

    name: ClassVar[str] = "ftf"
    preemptive: ClassVar[bool] = True

    def priority(self, snapshot: Snapshot) -> FloatArray:
        """Return (n,) finish-time fairness, negative; +inf when the length is unknown."""
        # Rounded, so that delays that are equal on paper tie.
        return -np.round(fairness(snapshot), 12)

    def next_change_s(self, jobs: JobTable) -> FloatArray:
        """Return (n,) one second while somebody waits: waiting jobs rise all the time."""
        drifts = len(jobs) > 0 and not jobs.running.all()
        return np.full(len(jobs), _LOOK_AGAIN_S if drifts else np.inf)


def fairness(snapshot: Snapshot) -> FloatArray:
    """Return (n,) rho of every job if it ran from now on; -inf when its length is unknown."""
    jobs = snapshot.jobs
    known = np.isfinite(jobs.remaining_s) & np.isfinite(jobs.total_s) & (jobs.total_s > 0)
    share_gpus = float(snapshot.servers.num_gpus.sum()) / np.maximum(1.0, jobs.sharers)
    slower = np.maximum(1.0, np.divide(jobs.num_gpus, share_gpus, out=np.ones(len(jobs)), where=share_gpus > 0))
    shared_s = snapshot.now_s - jobs.arrival_s + np.where(known, jobs.remaining_s, 0.0)
    return np.where(known, shared_s / np.where(known, jobs.total_s * slower, 1.0), -np.inf)
