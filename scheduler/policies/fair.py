"""Weighted fair queues."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from scheduler.core.model.tables import NO_ROW, FloatArray, IntArray, QueueTable, Snapshot
from scheduler.core.performance.resources import Filling, service_order, shares_before


@dataclass(frozen=True, slots=True, kw_only=True)
class Fair:
    """The queue that holds the fewest GPUs for its weight is served next; inside a queue first come, first served.

    Source: the fair scheduler of YARN, as in Jeon et al., "Philly", ATC 2019. Differs: a job that finds no room counts
    for those behind it in its queue.
    """

    name: ClassVar[str] = "fair"

    preemptive: bool = field(
        default=False,
        metadata={"help": "A queue below its fair share may stop jobs of one above; off: it waits until they end."},
    )

    def priority(self, snapshot: Snapshot) -> FloatArray:
        """Return (n,) share of the cluster that the queue holds for its weight just before it gets the job."""
        jobs = snapshot.jobs
        return shares_before(
            jobs.num_gpus[:, np.newaxis].astype(np.float64),
            group=jobs.queue,
            rank=service_order(jobs),
            capacity=_capacity(snapshot),
            weight=self.weights(snapshot.queues, jobs.queue)[jobs.queue],
        )

    def filling(self, snapshot: Snapshot) -> Filling:
        """Return the queues as groups. Their weights depend on which of them have jobs."""
        jobs = snapshot.jobs
        weight = self.weights(snapshot.queues, jobs.queue)[jobs.queue]
        return Filling(group=jobs.queue, asked=(jobs.num_gpus / weight)[:, np.newaxis], capacity=_capacity(snapshot))

    def weights(self, queues: QueueTable, used: IntArray) -> FloatArray:
        """Return (k,) weights of the queues while those in ``used`` have jobs."""
        return queue_weights(queues, used)


def _capacity(snapshot: Snapshot) -> FloatArray:
    return np.array([max(1.0, float(snapshot.servers.num_gpus.sum()))])


def queue_weights(queues: QueueTable, used: IntArray) -> FloatArray:
    """Return (k,) part of the cluster that is for the jobs of each queue itself, 1 for a queue without jobs.

    It goes down the tree by weight, among siblings with jobs in or below them; jobs of an inner queue stand beside its
    children with the weight of the queue.

    Args:
        queues: The tree.
        used: (n,) queue of each job.
    """
    parents, weights = queues.parent.tolist(), queues.weight.tolist()
    own = np.bincount(used, minlength=len(queues)) > 0
    busy = own.copy()
    for row in range(len(parents) - 1, -1, -1):
        if parents[row] != NO_ROW:
            busy[parents[row]] |= busy[row]
    # The last entry is that of the roots.
    total = [weight if has else 0.0 for weight, has in zip(weights, own.tolist(), strict=True)] + [0.0]
    for row, parent in enumerate(parents):
        total[parent] += weights[row] if busy[row] else 0.0
    below, part = [1.0] * len(total), np.ones(len(queues))
    for row, parent in enumerate(parents):  # parents come before their children
        if busy[row]:
            below[row] = below[parent] * weights[row] / total[parent]
            part[row] = below[row] * weights[row] / total[row] if own[row] else 1.0
    return part
