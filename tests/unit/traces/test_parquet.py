"""Our own trace as Parquet."""

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.support.trace_files import write_parquet
from scheduler.simulator.jobs import SimJob
from tests.support.simulator.traces import refusal_of, trace_of


def packed(**columns: Any) -> bytes:
    """Return a Parquet file."""
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


def test_numbers_may_be_numbers_of_any_kind_or_text() -> None:
    """Whole, half, text; a null says nothing."""
    content = packed(
        arrival_s=pa.array([0, 5], type=pa.int32()),
        num_gpus=pa.array([4.0, 2.0], type=pa.float32()),
        run_s=["60", "1e3"],
        min_gpus=pa.array([None, 1], type=pa.int8()),
        name=["a", None],
    )

    trace = trace_of(content)

    assert trace.format == "parquet"
    assert trace.jobs == [
        SimJob(arrival_s=0.0, num_gpus=4, run_s=60.0, name="a"),
        SimJob(arrival_s=5.0, num_gpus=2, run_s=1000.0, min_gpus=1),
    ]


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("num_gpus", [1, 0]),
        ("num_gpus", [True, True]),
        ("run_s", [60.0, float("nan")]),
        ("run_s", [60.0, None]),
        ("arrival_s", [[0], [1]]),
    ],
)
def test_errors_count_rows_from_one(column: str, values: list[Any]) -> None:
    """No GPU, a truth value, NaN, null, a list."""
    content = packed(**{"arrival_s": [0, 1], "num_gpus": [1, 1], "run_s": [60.0, 60.0], column: values})

    error = refusal_of(content)

    assert error.column == column
    assert error.line == (1 if isinstance(values[0], bool | list) else 2)


def test_rows_are_counted_across_groups() -> None:
    """The last row of a file with several groups has its own number."""
    count = 70_000
    file = io.BytesIO()
    table = pa.table({"arrival_s": range(count), "num_gpus": [1] * count, "run_s": [60.0] * (count - 1) + [-1.0]})
    pq.write_table(table, file, row_group_size=10_000)

    assert refusal_of(file.getvalue()).line == count


def test_a_file_that_is_not_whole_is_refused() -> None:
    """Cut off, empty of rows, without a column."""
    content = packed(arrival_s=[0], num_gpus=[1], run_s=[60.0])

    assert "not a Parquet file" in refusal_of(content[:-20]).problem
    assert "no column run_s" in refusal_of(packed(arrival_s=[0], num_gpus=[1])).problem
    assert "no job" in refusal_of(packed(arrival_s=pa.array([], pa.int64()), num_gpus=[], run_s=[])).problem


def test_what_is_written_has_typed_columns() -> None:
    """Other programs find numbers as numbers; columns that say nothing are left out."""
    file = io.BytesIO()
    write_parquet(trace_of("arrival_s,num_gpus,run_s,owner\n0,1,0.5,ann\n"), file)

    schema = pq.read_schema(io.BytesIO(file.getvalue()))

    assert schema.names == ["arrival_s", "num_gpus", "run_s", "owner"]
    assert [str(kind) for kind in schema.types] == ["double", "int64", "double", "string"]
