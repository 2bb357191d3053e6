"""Hand-made outcomes of replays: only the columns a test is about, the others empty of meaning."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from scheduler.simulator.state.outcome import Outcome, Records, Series, Stays

Columns = Any  # lists or arrays, by name


def records_of(
    *, num_gpus: Sequence[int], queueing_s: Sequence[float], end_s: Sequence[float], **more: Columns
) -> Records:
    """Return records of jobs that arrive at 0 s."""
    size = len(num_gpus)
    zeros, ints = np.zeros(size), np.zeros(size, dtype=np.int64)
    columns: dict[str, Columns] = {
        "arrival_s": zeros,
        "first_start_s": np.array(queueing_s, dtype=np.float64),
        "end_s": np.array(end_s, dtype=np.float64),
        "queueing_s": np.array(queueing_s, dtype=np.float64),
        "num_gpus": np.array(num_gpus, dtype=np.int64),
        "queue": ints,
        "preemptions": ints,
        "moves": ints,
        "reconfigurations": ints,
        "service_gpu_s": zeros,
        "useful_gpu_s": zeros,
        "rho": np.ones(size),
        "attempts": ints + 1,
        "waited_s": {},
    }
    return Records(**(columns | more))


def series_of(*, at_s: npt.NDArray[np.float64], allocated_gpus: npt.NDArray[np.float64], **more: Columns) -> Series:
    """Return the cluster over time with one queue."""
    ints = np.zeros(len(at_s), dtype=np.int64)
    columns: dict[str, Columns] = {
        "at_s": at_s,
        "allocated_gpus": allocated_gpus,
        "useful_gpus": allocated_gpus,
        "running_jobs": ints,
        "waiting_jobs": ints,
        "largest_free_gpus": ints,
        "queue_gpus": allocated_gpus.reshape(-1, 1),
    }
    return Series(**(columns | more))


def stays_of(rows: Sequence[tuple[int, int, int, float, float]]) -> Stays:
    """Return stays from rows of job, server, GPUs, begin and end."""
    job, server, num_gpus, begin_s, end_s = (np.array(column) for column in zip(*rows, strict=True))
    return Stays(job=job, server=server, num_gpus=num_gpus, begin_s=begin_s, end_s=end_s)


def outcome_of(records: Records, *, num_gpus: int, series: Series | None = None, stays: Stays | None = None) -> Outcome:
    """Return an outcome with these records."""
    return Outcome(
        records=records,
        series=series,
        stays=stays,
        num_gpus=num_gpus,
        rounds=1,
        planned=1,
        plan_hash="0" * 64,
        cpu_s=0.1,
    )
