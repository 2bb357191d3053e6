"""docs/traces.md shows every format and generator, and its examples are right."""

import re
from pathlib import Path

import pytest

from scheduler.simulator.traces import READERS
from scheduler.simulator.traces.readers import csv
from scheduler.simulator.workloads import GENERATORS
from tests.support.simulator.traces import trace_of

TEXT = Path("docs/traces.md").read_text(encoding="utf-8")
# Heading: the text below it.
SECTIONS = dict(re.findall(r"^### (.+?)\n(.*?)(?=^##)", TEXT, flags=re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("name", [name for name in READERS if name not in ("csv", "parquet")])
def test_the_example_of_a_format_is_read_as_that_format(name: str) -> None:
    """One job, told from its beginning."""
    [example] = re.findall(r"^```\w*\n(.*?)^```", SECTIONS[f"`{name}`"], flags=re.MULTILINE | re.DOTALL)

    trace = trace_of(example)

    assert (trace.format, len(trace.jobs)) == (name, 1)


def test_our_own_example_and_columns_are_right() -> None:
    """Every column that is read is described."""
    section = SECTIONS["`csv` and `parquet`"]
    [example] = re.findall(r"^```\n(.*?)^```", section, flags=re.MULTILINE | re.DOTALL)

    assert len(trace_of(example).jobs[0].failures) == 2
    assert all(f"`{column}`" in section for column in csv.COLUMNS)


@pytest.mark.parametrize("name", GENERATORS)
def test_every_option_of_a_generator_is_described(name: str) -> None:
    """In the row of the table that begins with its name."""
    [row] = re.findall(rf"^\| `{name}` \|.*$", TEXT, flags=re.MULTILINE)
    options = re.split(r", | or ", re.sub(r" \([^)]*\)", "", GENERATORS[name].options))

    assert all(f"`{option}=" in row for option in options if option not in ("gpus", "seed"))
