"""The recipe for a trace format: a file with ``read`` and ``READER``, one entry in ``READERS``, and nothing else.

A real format also has its section in docs/traces.md, whose example test_documented.py reads.
"""

from argparse import ArgumentParser
from pathlib import Path

import pytest

from clusterweb.config.trace_limits import TraceLimits
from scheduler.management.commands.simulate import Command
from scheduler.services.whatif.trace_checks import trace_checked
from scheduler.simulator.traces import READERS, read_trace
from scheduler.simulator.traces.collect import Collector
from scheduler.simulator.traces.reader import delimited
from scheduler.simulator.traces.row import rows_of
from scheduler.simulator.traces.source import Source
from scheduler.simulator.traces.trace import Trace
from tests.support.simulator.traces import refusal_of, trace_of

# What the file readers/minutes.py would hold:
COLUMNS = ("run", "begin_min", "gpus", "length_min")


def read(source: Source, profiles: Path) -> Trace:
    """Return the trace; all times are minutes."""
    collected = Collector(format="minutes", file=source.name)
    for row in rows_of(source, COLUMNS):
        collected.add(
            line=row.line,
            id=row.text("run"),
            id_column="run",
            arrival_s=60 * row.seconds("begin_min"),
            num_gpus=row.gpus("gpus"),
            run_s=60 * row.seconds("length_min"),
        )
    return collected.trace()


READER = delimited(COLUMNS, read)

FIXTURE = "run,begin_min,gpus,length_min\na,0,1,10\nb,2,8,5\n"


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(READERS, "minutes", READER)


def test_a_file_is_told_from_its_beginning_and_read() -> None:
    """The one format that fits is the new one."""
    trace = trace_of(FIXTURE)

    assert (trace.format, trace.rows) == ("minutes", 2)
    assert [(job.name, job.arrival_s, job.num_gpus, job.run_s) for job in trace.jobs] == [
        ("a", 0.0, 1, 600.0),
        ("b", 120.0, 8, 300.0),
    ]


def test_a_bad_cell_is_refused_with_its_line_and_column() -> None:
    """The reader itself has no code for that."""
    error = refusal_of(FIXTURE.replace("8", "eight"))

    assert (error.line, error.column) == (3, "gpus")


def test_a_file_of_no_format_is_shown_the_new_one_too() -> None:
    """With how a file of it begins."""
    assert "  minutes: run,begin_min,gpus,length_min" in refusal_of("a,b\n1,2\n").problem


def test_the_command_line_and_the_upload_take_it(tmp_path: Path) -> None:
    """``manage.py simulate --format`` offers it, and an uploaded file of it passes the check of its first rows."""
    file = tmp_path / "week.csv"
    file.write_text(FIXTURE, encoding="utf-8")
    parser: ArgumentParser = Command().create_parser("manage.py", "simulate")

    assert parser.parse_args([str(file), "--format", "minutes"]).format == "minutes"
    assert len(read_trace(file, format="minutes").jobs) == 2
    trace_checked(file, name=file.name, limits=TraceLimits())
