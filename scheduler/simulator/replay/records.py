"""Make the records of an outcome, one row a job, from the state at the end of a replay."""

import numpy as np

from scheduler.core.model.tables import NO_ROW, FloatArray
from scheduler.core.operations.metrics import isolated_time_s
from scheduler.simulator.state.columns import Columns
from scheduler.simulator.state.outcome import Records
from scheduler.simulator.state.waits import WaitTimes


def records_of(columns: Columns, now_s: float, *, num_gpus: int, waits: WaitTimes | None) -> Records:
    """Return the records; ``num_gpus`` are those of the cluster, ``waits`` None where reasons were not noted."""
    for row in columns.active.tolist():
        columns.settle(row, now_s)
    return Records(
        arrival_s=columns.arrival_s,
        first_start_s=columns.first_start_s,
        end_s=columns.end_s,
        queueing_s=columns.queueing_s,
        num_gpus=columns.num_gpus,
        queue=columns.queue,
        preemptions=columns.preemptions,
        moves=columns.moves,
        reconfigurations=columns.reconfigurations,
        service_gpu_s=columns.service_gpu_s,
        useful_gpu_s=columns.num_gpus * (columns.run_s - columns.work_s),
        rho=_rho(columns, num_gpus),
        attempts=columns.attempts,
        waited_s=waits.waited_s(columns.active, now_s) if waits else {},
    )


def _rho(columns: Columns, num_gpus: int) -> FloatArray:
    """Return (n,) finish-time fairness. Source: Mahajan et al., "Themis", NSDI 2020; see
    ``core/operations/metrics.py``."""
    jct_s = columns.end_s - columns.arrival_s
    done = np.isfinite(jct_s) & (jct_s > 0) & (columns.run_s > 0)
    rho = np.full(len(columns), np.nan)
    sharers = np.maximum(1.0, (columns.left_active_s - columns.joined_active_s)[done] / jct_s[done])
    isolated_s = columns.run_s[done] * np.maximum(1.0, columns.num_gpus[done] * sharers / max(1, num_gpus))
    rows = np.flatnonzero(done)
    for at in np.flatnonzero((columns.min_gpus < columns.max_gpus)[rows]).tolist():
        row = rows[at]
        profile = columns.profile[row]
        isolated_s[at] = isolated_time_s(
            run_s=float(columns.run_s[row]),
            num_gpus=int(columns.num_gpus[row]),
            cluster_gpus=max(1, num_gpus),
            sharers=float(sharers[at]),
            min_gpus=int(columns.min_gpus[row]),
            max_gpus=int(columns.max_gpus[row]),
            profile=None if profile == NO_ROW else columns.profiles[profile],
        )
    rho[done] = jct_s[done] / isolated_s
    return rho
