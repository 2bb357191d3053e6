"""Our own trace as Parquet: the columns of the CSV form, numbers as numbers or as text.

pyarrow is imported when it is needed: it takes 40 MB, and most traces are text.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

from scheduler.simulator.traces.errors import TraceError
from scheduler.simulator.traces.reader import Reader
from scheduler.simulator.traces.readers import csv
from scheduler.simulator.traces.row import Row
from scheduler.simulator.traces.source import Source, header_of
from scheduler.simulator.traces.trace import Trace

MAGIC = b"PAR1"
BATCH_ROWS = 8_192


def read(source: Source, profiles: Path) -> Trace:
    """Return the trace; errors count rows, the first is 1."""
    return csv.read_rows(_rows(source), format="parquet", file=source.name)


class Footer(NamedTuple):
    """What a file says of itself.

    Attributes:
        num_rows: Rows of all its groups.
        num_bytes: Bytes of all columns, unpacked but still encoded.
    """

    num_rows: int
    num_bytes: int


def footer(file: IO[bytes], *, name: str) -> Footer:
    """Return what the footer of a file says, without reading a row.

    Raises:
        TraceError: If there is none.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_metadata(file)
    except (pa.ArrowException, OSError) as error:
        raise TraceError(file=name, problem=f"is not a Parquet file that can be read: {error}") from error
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    return Footer(
        num_rows=max(metadata.num_rows, sum(group.num_rows for group in groups)),
        num_bytes=sum(group.total_byte_size for group in groups),
    )


def _rows(source: Source) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(pa.BufferReader(source.content()), pre_buffer=False)
        names = file.schema_arrow.names
        row = Row(file=source.name, at=header_of(source, names, csv.NEEDED))
        for batch in file.iter_batches(batch_size=BATCH_ROWS):
            columns = [[_cell(value) for value in column.to_pylist()] for column in batch.columns]
            for row.cells in zip(*columns, strict=True):
                row.line += 1
                yield row
    except pa.ArrowMemoryError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise TraceError(file=source.name, problem=f"is not a Parquet file that can be read: {error}") from error


def _cell(value: object) -> str:
    """Return a value as the CSV form writes it, so that both forms are checked by the same code."""
    return "" if value is None else str(value)


READER = Reader(looks_like="PAR1", fits=lambda head: head.startswith(MAGIC), read=read, whole_only=True)
