"""The figures of a history up to a moment, for histories that go on: what happened, and replays of it, alike."""

import math
from dataclasses import dataclass

import numpy as np

from scheduler.core.model.tables import FloatArray, IntArray
from scheduler.core.operations.metrics import percentile
from scheduler.simulator.state.outcome import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Lives:
    """Jobs with their times up to a moment, one row each; seconds.

    Attributes:
        begin_s: (n,) submission, or the begin of what is looked at.
        end_s: (n,) completion; the moment where it is later or unknown.
        run_s: (n,) time with GPUs between the two.
        num_gpus: (n,) GPUs of each.
    """

    begin_s: FloatArray
    end_s: FloatArray
    run_s: FloatArray
    num_gpus: IntArray


def figures_of_lives(lives: Lives, until_s: float) -> dict[str, float]:
    """Return the figures by their names in a ``Summary``, and the GPUs that were allocated on average.

    A job that lasts until the moment, or longer, counts with its life so far. Figures that would tell nothing but when
    that moment is are left out: the makespan, and p99 where such a job gives it. GPUs, not the share of them: a history
    and its replay may be of clusters of different sizes.
    """
    spent_s = lives.end_s - lives.begin_s
    makespan_s = float(lives.end_s.max() - lives.begin_s.min())
    held_gpu_s = math.fsum((lives.num_gpus * lives.run_s).tolist())
    lasts = lives.end_s >= until_s
    figures = {
        "avg_jct_s": math.fsum(spent_s.tolist()) / len(spent_s),
        "p99_jct_s": percentile(np.sort(np.where(lasts, np.inf, spent_s)).tolist(), 0.99),
        "avg_queueing_s": math.fsum(np.maximum(0.0, spent_s - lives.run_s).tolist()) / len(spent_s),
        "makespan_s": math.inf if lasts.any() else makespan_s,
        "avg_allocated_gpus": held_gpu_s / makespan_s if makespan_s else 0.0,
    }
    return {name: value for name, value in figures.items() if math.isfinite(value)}


def figures_until(outcome: Outcome, until_s: float) -> dict[str, float]:
    """Return the figures of a replay up to a moment; its stays must have been kept."""
    records, stays = outcome.records, outcome.stays
    assert stays is not None
    end_s = np.minimum(records.end_s, until_s)
    # A gang on several servers has a stay on each, from the same moment on.
    _, first = np.unique(np.column_stack((stays.job, stays.begin_s)), axis=0, return_index=True)
    job = stays.job[first]
    held_s = np.maximum(0.0, np.minimum(stays.end_s[first], until_s) - stays.begin_s[first])
    run_s = np.bincount(job, weights=held_s, minlength=len(records)).astype(np.float64)
    return figures_of_lives(
        Lives(begin_s=records.arrival_s, end_s=end_s, run_s=run_s, num_gpus=records.num_gpus), until_s
    )
