"""Write the history of each job, or the cluster over time, as CSV or Parquet: one row a job or moment.

Columns are documented in ``docs/simulator.md``. What never happened (a start, an end) is empty.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from scheduler.simulator.errors import BadInput
from scheduler.simulator.study.study import Prepared, Result

# Column name to a list or array of one value a row.
Columns = dict[str, Any]
# A replay and the workload that it was of.
Replayed = tuple[Result, Prepared]

SUFFIXES = (".csv", ".parquet")


def check_suffix(path: Path, *, flag: str) -> None:
    """Raise BadInput unless the name says which format to write."""
    if path.suffix not in SUFFIXES:
        raise BadInput(f"{flag} {path}: the name must end in {' or '.join(SUFFIXES)}.")


def write_records(path: Path, replays: Iterable[Replayed]) -> None:
    """Write one row a job; replays follow each other and are told apart by ``arm`` and ``seed``."""
    _write(path, replays, _record_columns)


def write_series(path: Path, replays: Iterable[Replayed]) -> None:
    """Write one row for each moment after which something changed; a row holds until the next of its arm and seed."""
    _write(path, replays, _series_columns)


def write_placements(path: Path, replays: Iterable[Replayed]) -> None:
    """Write one row for each time that a job held GPUs of one server without a change."""
    _write(path, replays, _placement_columns)


def _write(path: Path, replays: Iterable[Replayed], columns_of: Callable[[Result, Prepared], Columns]) -> None:
    # Imported here: the library is heavy, and only these options need it.
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    tables = []
    for result, prepared in replays:
        columns = columns_of(result, prepared)
        size = len(next(iter(columns.values())))
        labels = {"arm": [result.arm.name] * size, "seed": np.full(size, result.seed)}
        tables.append(pa.table({name: _array(values) for name, values in {**labels, **columns}.items()}))
    table = pa.concat_tables(tables, promote_options="default")
    temporary = path.with_name(f".{path.name}.part")
    try:
        if path.suffix == ".parquet":
            pyarrow.parquet.write_table(table, temporary, compression="zstd")
        else:
            pyarrow.csv.write_csv(table, temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _array(values: Any) -> Any:  # a pyarrow array
    """Return a column in which what is not finite is missing."""
    import pyarrow as pa

    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        return pa.array(values, mask=~np.isfinite(values))
    return pa.array(values)


def _record_columns(result: Result, prepared: Prepared) -> Columns:
    records, trace = result.outcome.records, prepared.trace
    size = len(records)
    return {
        "job": np.arange(size),
        "name": [job.name for job in trace.jobs],
        "queue": [prepared.queue_names[row] for row in records.queue.tolist()],
        "owner": [trace.owners[job.owner] for job in trace.jobs],
        "model": [job.model for job in trace.jobs],
        "num_gpus": records.num_gpus,
        "run_s": np.array([job.run_s for job in trace.jobs], dtype=np.float64),
        "arrival_s": records.arrival_s,
        "first_start_s": records.first_start_s,
        "end_s": records.end_s,
        "jct_s": records.jct_s,
        "queueing_s": records.queueing_s,
        "preemptions": records.preemptions,
        "moves": records.moves,
        "reconfigurations": records.reconfigurations,
        "attempts": records.attempts,
        "service_gpu_s": records.service_gpu_s,
        "useful_gpu_s": records.useful_gpu_s,
        "rho": records.rho,
        **{f"waited_{reason}_s": waited_s for reason, waited_s in sorted(records.waited_s.items())},
    }


def _series_columns(result: Result, prepared: Prepared) -> Columns:
    series = result.outcome.series
    if series is None:
        raise ValueError("the study did not keep series")
    return {
        "at_s": series.at_s,
        "allocated_gpus": series.allocated_gpus,
        "useful_gpus": series.useful_gpus,
        "running_jobs": series.running_jobs,
        "waiting_jobs": series.waiting_jobs,
        "largest_free_gpus": series.largest_free_gpus,
        **{f"queue_{name}_gpus": series.queue_gpus[:, row] for row, name in enumerate(prepared.queue_names)},
    }


def _placement_columns(result: Result, prepared: Prepared) -> Columns:
    stays = result.outcome.stays
    if stays is None:
        raise ValueError("the study did not keep stays")
    names = [job.name for job in prepared.trace.jobs]
    return {
        "job": stays.job,
        "name": [names[row] for row in stays.job.tolist()],
        "server": stays.server,
        "num_gpus": stays.num_gpus,
        "begin_s": stays.begin_s,
        "end_s": stays.end_s,
    }
