"""Gittins index of jobs whose length is unknown, from the services of past jobs."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from scheduler.core.model.tables import FloatArray

# What the cost of the next quantum is: the service still needed in it, or what will have been given by its end.
Denominator = Literal["remaining", "total"]


def gittins_index(
    attained_gpu_s: FloatArray, samples: FloatArray, quantum_gpu_s: FloatArray, *, denominator: Denominator
) -> FloatArray:
    """Return (n,) chance to end within the quantum over its expected cost, 1 / GPU-seconds; 0 beyond all samples.

    Args:
        attained_gpu_s: (n,) attained services a, or (1,) for the same one with each quantum.
        samples: (s,) services S of past jobs, ascending, at least one.
        quantum_gpu_s: (n,) finite quanta d, or (1,) for the same one everywhere.
        denominator: ``remaining`` for E[min(S - a, d) | S > a], ``total`` for E[min(S, a + d) | S > a].

    Source: Gu et al., "Tiresias", NSDI 2019, with the first one; the released simulator has the second one, with d in
        place of a + d for jobs that go on. Differs: a + d there, so that both terms count from the start of the job.
    """
    sums = np.concatenate(([0.0], np.cumsum(samples)))
    end = attained_gpu_s + quantum_gpu_s
    longer = np.searchsorted(samples, attained_gpu_s, side="right")
    beyond = np.searchsorted(samples, end, side="right")
    ending, going_on = beyond - longer, len(samples) - beyond
    cost = sums[beyond] - sums[longer] + going_on * end
    if denominator == "remaining":
        cost = cost - (ending + going_on) * attained_gpu_s
    index: FloatArray = np.divide(ending, cost, out=np.zeros(len(cost)), where=ending > 0)
    return index


def best_index(attained_gpu_s: FloatArray, samples: FloatArray, *, denominator: Denominator) -> FloatArray:
    """Return (n,) largest index over all quanta; it is reached where the quantum ends at some past service."""
    best = np.zeros(len(attained_gpu_s))
    for row, attained in enumerate(attained_gpu_s.tolist()):
        quanta = samples[samples > attained] - attained
        index = gittins_index(np.array([attained]), samples, quanta, denominator=denominator)
        best[row] = index.max(initial=0.0)
    return best


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexTable:
    """Where jobs stand by their index, for all attained services at which it changes.

    Attributes:
        samples: (s,) services of past jobs, ascending, each once.
        ranks: (levels, s + 1) place of the index of a job that has passed so many samples among those of its level,
            largest index first, from 0 to below 1; 0 everywhere in the last level.
    """

    samples: FloatArray
    ranks: FloatArray


@lru_cache(maxsize=16)
def index_table(history_gpu_s: tuple[float, ...], quanta: tuple[float, ...], denominator: Denominator) -> IndexTable:
    """Return the ranks of the indexes at 0 and at each past service.

    Args:
        history_gpu_s: Services of past jobs, in any order.
        quanta: Quantum of each level but the last, GPU-seconds; 0 for the best one.
        denominator: As in ``gittins_index``.
    """
    samples = np.sort(np.array(history_gpu_s, dtype=np.float64))
    steps = np.unique(samples)
    attained = np.concatenate(([0.0], steps))
    ranks = np.zeros((len(quanta) + 1, len(attained)))
    for level, quantum in enumerate(quanta):
        if quantum > 0:
            index = gittins_index(attained, samples, np.array([quantum]), denominator=denominator)
        else:
            index = best_index(attained, samples, denominator=denominator)
        # Rounded, so that indexes that are equal on paper tie.
        relative = np.round(index / index.max(initial=0.0), 12) if index.any() else index
        _, place = np.unique(-relative, return_inverse=True)
        ranks[level] = place / (len(attained) + 1)
    return IndexTable(samples=steps, ranks=ranks)
