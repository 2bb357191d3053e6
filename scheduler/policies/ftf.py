"""Finish-time fairness: the job that sharing delays most goes first."""

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from scheduler.core.model.tables import FloatArray, JobTable, Snapshot
from scheduler.policies.math.leases import in_lease

# Keys drift all the time while a job waits: a shell without fixed rounds looks again after a second.
_LOOK_AGAIN_S = 1.0
_DIGITS = 12
_SCALE = 10.0**_DIGITS


@dataclass(frozen=True, slots=True, kw_only=True)
class Ftf:
    """Largest finish-time fairness first: finish time in the shared cluster over finish time on an equal share.

    The finish time is what it would be if the job ran from now on; the equal share is that of the cluster among as many
    jobs as were active on average since it arrived. Jobs of unknown length come last. A job that gets GPUs holds them
    for a lease; only when it ends may other jobs take them.

    Source: Mahajan et al., "Themis", NSDI 2020, rho = T_sh / T_id and leases; as an order in Mohan et al., "Synergy",
    OSDI 2022. Differs: the largest first; the released Synergy code sorts ascending, which favours jobs that are
    ahead already. It has no leases either (docs/adr/0009-leases-under-ftf.md).
    """

    name: ClassVar[str] = "ftf"
    preemptive: ClassVar[bool] = True

    lease_s: float = field(
        default=1_200.0,
        metadata={"help": "How long a job holds GPUs before others may take them; 0: no lease.", "minimum": 0},
    )

    def priority(self, snapshot: Snapshot) -> FloatArray:
        """Return (n,) finish-time fairness, negative; +inf when the length is unknown, -inf while a lease goes on."""
        # Rounded, so that delays that are equal on paper tie.
        keys = -fairness(snapshot).round(_DIGITS)
        if self.lease_s:
            keys[in_lease(snapshot, self.lease_s)] = -np.inf
        return keys

    def key(self, shared_s: float, total_s: float, num_gpus: float, sharers: float, cluster_gpus: int) -> float:
        """Return the key of one job outside a lease: ``priority`` in plain Python."""
        if not 0 < total_s < math.inf or shared_s == math.inf:
            return math.inf
        slower = num_gpus * sharers / (cluster_gpus or 1)
        # As numpy rounds, which is not what ``round`` with digits does.
        return -round(shared_s / (total_s * slower if slower > 1.0 else total_s) * _SCALE) / _SCALE

    def next_change_s(self, jobs: JobTable) -> FloatArray:
        """Return (n,) one second while a job waits: waiting jobs rise all the time."""
        drifts = len(jobs) > 0 and not jobs.running.all()
        return np.full(len(jobs), _LOOK_AGAIN_S if drifts else np.inf)


def fairness(snapshot: Snapshot) -> FloatArray:
    """Return (n,) rho of every job if it ran from now on; -inf when its length is unknown."""
    jobs = snapshot.jobs
    known = np.isfinite(jobs.remaining_s + jobs.total_s) & (jobs.total_s > 0)
    slower = np.maximum(1.0, jobs.num_gpus * jobs.sharers / max(1, int(snapshot.servers.num_gpus.sum())))
    shared_s = snapshot.now_s - jobs.arrival_s + jobs.remaining_s
    rho: FloatArray = np.divide(shared_s, jobs.total_s * slower, out=np.full(len(jobs), -np.inf), where=known)
    return rho
