"""Write traces in our own formats, as the readers of ``scheduler/simulator/traces`` read them."""

import csv
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq

from scheduler.simulator.jobs import SimJob
from scheduler.simulator.traces.readers.csv import COLUMNS, NEEDED
from scheduler.simulator.traces.readers.parquet import BATCH_ROWS
from scheduler.simulator.traces.trace import Trace

# Columns of Parquet that are whole numbers and texts; the others are numbers.
_WHOLE = ("num_gpus", "min_gpus", "max_gpus", "max_servers")
_TEXT = ("name", "owner", "queue", "model", "failures")


def write_csv(trace: Trace, file: IO[str]) -> None:
    """Write the trace as CSV, times with every digit, so that reading it again gives the same jobs.

    Columns that say nothing are left out. Profiles are not written; reading attaches those of known models.
    """
    columns = _written_columns(trace)
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))


def write_parquet(trace: Trace, file: IO[bytes]) -> None:
    """Write the trace; reading it again gives the same jobs, but for profiles (see the CSV form)."""
    table = pa.table(
        {
            name: pa.array(
                values, type=pa.string() if name in _TEXT else pa.int64() if name in _WHOLE else pa.float64()
            )
            for name, values in _written_columns(trace).items()
        }
    )
    # Small groups, so that reading needs little memory.
    pq.write_table(table, file, row_group_size=BATCH_ROWS)


def _written_columns(trace: Trace) -> dict[str, list[object]]:
    """Return the values of each column that says something; None where a job has the default."""
    rows = [_written(trace, job) for job in trace.jobs]
    columns = {name: [row[index] for row in rows] for index, name in enumerate(COLUMNS)}
    return {
        name: values for name, values in columns.items() if name in NEEDED or any(value is not None for value in values)
    }


def _written(trace: Trace, job: SimJob) -> tuple[object, ...]:
    """Return one job in the order of COLUMNS."""
    return (
        job.arrival_s,
        job.num_gpus,
        job.run_s,
        job.name or None,
        None if trace.owners == ("unknown",) else trace.owners[job.owner],
        None if trace.queues == ("default",) else trace.queues[job.queue],
        job.model or None,
        None if job.priority == 50.0 else job.priority,
        None if job.weight == 1.0 else job.weight,
        job.min_gpus,
        job.max_gpus,
        job.max_servers or None,
        job.min_cpus or None,
        job.min_memory_bytes or None,
        ";".join(f"{failure.after_s!r}:{failure.cause}" for failure in job.failures) or None,
    )
