"""Our own trace as CSV."""

import io

import pytest

from benchmarks.support.trace_files import write_csv
from scheduler.core.operations.failures import FailureClass
from scheduler.simulator.jobs import Failure, SimJob
from scheduler.simulator.traces.readers import csv
from tests.support.simulator.traces import refusal_of, trace_of

HEADER = "arrival_s,num_gpus,run_s,name,owner,queue,model,priority,weight,min_gpus,max_gpus,max_servers,min_cpus,"
HEADER += "min_memory_bytes,failures\n"


def test_three_columns_are_enough() -> None:
    """Everything else has its default."""
    trace = trace_of("run_s,num_gpus,arrival_s\n60,2,1.5\n")

    assert trace.jobs == [SimJob(arrival_s=1.5, num_gpus=2, run_s=60.0)]
    assert (trace.queues, trace.owners) == (("default",), ("unknown",))


def test_every_column_is_read() -> None:
    """One job with all that a line can say."""
    text = "0,4,3600,train,ann,vision,resnet18,80,2,1,8,2,16,64e9,120:syntax;3600:network\n"

    [job] = trace_of(HEADER + text).jobs

    assert job == SimJob(
        arrival_s=0.0,
        num_gpus=4,
        run_s=3600.0,
        name="train",
        model="resnet18",
        priority=80.0,
        weight=2.0,
        min_gpus=1,
        max_gpus=8,
        max_servers=2,
        min_cpus=16.0,
        min_memory_bytes=64e9,
        failures=(
            Failure(after_s=120.0, cause=FailureClass.SYNTAX),
            Failure(after_s=3600.0, cause=FailureClass.NETWORK),
        ),
    )


def test_columns_without_a_meaning_are_told() -> None:
    """They are not read, and that is a warning."""
    trace = trace_of("arrival_s,num_gpus,run_s,colour\n0,1,60,red\n")

    assert trace.warnings == ("columns that mean nothing here and were not read: colour",)


@pytest.mark.parametrize(
    ("column", "cell"),
    [
        ("num_gpus", "0"),
        ("num_gpus", "1.5"),
        ("num_gpus", "1e9"),
        ("num_gpus", "-1"),
        ("num_gpus", "two"),
        ("num_gpus", ""),
        ("run_s", "-1"),
        ("run_s", "nan"),
        ("run_s", "inf"),
        ("run_s", "1e400"),
        ("run_s", "1_000"),
        ("run_s", "١٢"),
        ("run_s", "0x10"),
        ("run_s", "1,5"),
        ("arrival_s", "-0.1"),
        ("arrival_s", "2024-01-02"),
        ("priority", "high"),
        ("weight", "0"),
        ("min_gpus", "5"),
        ("max_gpus", "3"),
        ("max_servers", "-1"),
        ("min_cpus", "-1"),
        ("min_memory_bytes", "64G"),
        ("failures", "120"),
        ("failures", "soon:syntax"),
        ("failures", "-1:syntax"),
        ("failures", "1:bad luck"),
        ("failures", "nan:syntax"),
    ],
)
def test_a_cell_that_cannot_be_right_is_refused_at_its_place(column: str, cell: str) -> None:
    """Line, column, what is there, what would be right."""
    names = ["arrival_s", "num_gpus", "run_s"] + ([] if column in csv.NEEDED else [column])
    values = {"arrival_s": "0", "num_gpus": "4", "run_s": "60"}
    bad = ",".join(f'"{cell}"' if name == column else values[name] for name in names)
    good = ",".join(values.get(name, "") for name in names)

    error = refusal_of("\n".join([",".join(names), good, bad]))

    assert (error.line, error.column) == (3, column)
    assert repr(cell) in error.problem
    assert "expected" in error.problem


def test_what_is_written_is_short() -> None:
    """Columns that say nothing are left out."""
    file = io.StringIO()

    write_csv(trace_of("arrival_s,num_gpus,run_s,weight\n0,1,0.1,1\n7,2,60,1\n"), file)

    assert file.getvalue() == "arrival_s,num_gpus,run_s\n0.0,1,0.1\n7.0,2,60.0\n"
