"""Gittins index over the services of past jobs, in levels (discretized 2D-Gittins of Tiresias)."""

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from scheduler.core.model.tables import FloatArray, IntArray, JobTable, Snapshot
from scheduler.policies.las import Las
from scheduler.policies.math.gittins import Denominator, IndexTable, index_table

# 5 % steps of 9,999 services of past YARN jobs that the Tiresias simulator comes with (SymbioticLab/Tiresias, commit
# 959f9b0, yarn-gput10000.csv): the values at 2.5 %, 7.5 % ... 97.5 %, GPU-seconds.
YARN_SERVICES_GPU_S = (
    *(165.0, 285.0, 488.0, 595.0, 766.0, 929.0, 1_185.0, 1_467.0, 1_741.0, 2_046.0),
    *(2_450.0, 2_710.0, 3_584.0, 4_955.0, 6_058.0, 9_923.0, 17_621.0, 49_210.0, 144_176.0, 912_808.0),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gittins(Las):
    """Largest chance to end per GPU-second first, judged by past jobs, in levels as least attained service.

    Source: Gu et al., "Tiresias", NSDI 2019, discretized 2D-Gittins. The index looks ahead to the limit of the job's
    level; the last level is first come, first served. Differs: the evidence changes when a job passes the service of a
    past job, so the index is computed there and holds until the next; a threshold moved by an admin takes effect at the
    next round. Take the history from jobs other than those that are scheduled, else the index knows the future.
    """

    name: ClassVar[str] = "gittins"

    history_gpu_s: tuple[float, ...] = field(
        default=YARN_SERVICES_GPU_S,
        metadata={"help": "Services of past jobs, in any order.", "minimum": 0, "ordered": False},
    )
    denominator: Denominator = field(
        default="remaining",
        metadata={
            "help": "Expected cost of the next quantum: the service still needed in it (textbook), or what will have "
            "been given in total by its end (released simulator)."
        },
    )
    quantum_gpu_s: float = field(
        default=math.inf,
        metadata={
            "help": "How far the index looks ahead; empty for the limit of the job's level, 0 for the "
            "quantum that gives the largest index, as the classical index does.",
            "minimum": 0,
        },
    )

    def priority(self, snapshot: Snapshot) -> FloatArray:
        """Return (n,) levels plus the rank of the index inside the level, from 0 to below 1."""
        return self._keys(snapshot.jobs.attained_gpu_s)

    def service_steps(self) -> tuple[FloatArray, FloatArray]:
        """Return the limits and the past services before the last of them, and the keys."""
        services = np.unique((*self._table().samples, *self.queue_limits_gpu_s))
        services = services[services <= max(self.queue_limits_gpu_s)]
        return services, self._keys(np.concatenate(([0.0], services)))

    def next_change_s(self, jobs: JobTable) -> FloatArray:
        """Return (n,) whole seconds until a running job passes a past service or a limit, or a waiting job rises."""
        samples = np.append(self._table().samples, np.inf)
        ahead = np.ceil((samples[self._passed(jobs.attained_gpu_s)] - jobs.attained_gpu_s) / jobs.num_gpus)
        above_last = self.levels(jobs) < len(self.queue_limits_gpu_s)
        return np.minimum(Las.next_change_s(self, jobs), np.where(jobs.running & above_last, ahead, np.inf))

    def _keys(self, attained_gpu_s: FloatArray) -> FloatArray:
        table = self._table()
        levels = np.searchsorted(self.queue_limits_gpu_s, attained_gpu_s, side="right")
        return levels + table.ranks[levels, self._passed(attained_gpu_s)]

    def _table(self) -> IndexTable:
        quanta = tuple(min(limit, self.quantum_gpu_s) for limit in self.queue_limits_gpu_s)
        return index_table(self.history_gpu_s, quanta, self.denominator)

    def _passed(self, attained_gpu_s: FloatArray) -> IntArray:
        return np.searchsorted(self._table().samples, attained_gpu_s, side="right")
