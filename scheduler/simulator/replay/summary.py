"""The figures by which schedules are compared."""

import math
import resource

import numpy as np

from scheduler.core.operations.metrics import jain_index, percentile
from scheduler.simulator.state.outcome import Outcome, Summary


def summarize(outcome: Outcome) -> Summary:
    """Return the figures of a replay.

    The Jain index is over rho, one value a finished job: 1 when all were slowed down alike. Occupancy is over the time
    from the first submission to the last completion; where a running cluster goes on, over the time that was replayed:
    before it also jobs held GPUs that are not in the workload.
    """
    records = outcome.records
    finished = np.isfinite(records.end_s)
    jct_s = np.sort(records.jct_s[finished]).tolist()
    rho = np.sort(records.rho[np.isfinite(records.rho)]).tolist()
    makespan_s = float(records.end_s[finished].max() - records.arrival_s.min()) if jct_s else 0.0
    capacity_gpu_s = outcome.num_gpus * makespan_s
    queueing_s = records.queueing_s[finished]
    allocated_gpu_s, useful_gpu_s = float(records.service_gpu_s.sum()), float(records.useful_gpu_s.sum())
    series = outcome.series
    if outcome.is_continued and series is not None and len(series.at_s):
        held_s = np.diff(series.at_s)
        capacity_gpu_s = outcome.num_gpus * float(held_s.sum())
        allocated_gpu_s, useful_gpu_s = (
            float((gpus[:-1] * held_s).sum()) for gpus in (series.allocated_gpus, series.useful_gpus)
        )

    return Summary(
        jobs=len(records),
        finished=len(jct_s),
        unfinished=len(records) - len(jct_s),
        avg_jct_s=_mean(jct_s),
        p50_jct_s=_rank(jct_s, 0.50),
        p95_jct_s=_rank(jct_s, 0.95),
        p99_jct_s=_rank(jct_s, 0.99),
        makespan_s=makespan_s,
        avg_queueing_s=_mean(queueing_s.tolist()),
        avg_gpu_occupancy=allocated_gpu_s / capacity_gpu_s if capacity_gpu_s else 0.0,
        avg_useful_gpu=useful_gpu_s / capacity_gpu_s if capacity_gpu_s else 0.0,
        preemptions=int(records.preemptions.sum()),
        moves=int(records.moves.sum()),
        avg_rho=_mean(rho),
        p99_rho=_rank(rho, 0.99),
        max_rho=rho[-1] if rho else 0.0,
        jain_index=jain_index(rho) if rho else 1.0,
        rounds=outcome.rounds,
        cpu_s=outcome.cpu_s,
        peak_rss_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        plan_hash=outcome.plan_hash,
    )


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0


def _rank(ranked: list[float], p: float) -> float:
    return percentile(ranked, p) if ranked else 0.0
