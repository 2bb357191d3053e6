"""What is drained is told apart from what is used, and has one colour wherever it is drawn."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from frontend.components.devices import GPUS
from frontend.components.states import SERVER_LOOKS
from frontend.components.times import Range, Series
from frontend.pages.cluster.hours import LOOKS
from frontend.pages.overview.utilization import layers, utilization, utilization_title
from tests.support.e2e.stack import ROOT

UNTIL = datetime(2026, 3, 6, 12, tzinfo=UTC)
TIMES = [UNTIL - timedelta(hours=hours) for hours in (3, 2, 1, 0)]


def series(*, drained: float, broken: float = 0.0) -> Series:
    """Return a course of 32 GPUs of which 24 are held and 18 busy."""
    values = {"num_gpus": 32.0, "allocated_gpus": 24.0, "busy_gpus": 18.0, "unknown_gpus": 0.0}
    values |= {"drained_gpus": drained, "broken_gpus": broken}
    return {"at": [at.isoformat() for at in TIMES], **{name: [value] * 4 for name, value in values.items()}}


@pytest.mark.parametrize(
    ("drained", "broken", "title"),
    [
        (8.0, 0.0, "75 % of the GPUs that take jobs were busy, 8 drained"),
        (4.0, 4.0, "75 % of the GPUs that take jobs were busy, 4 drained"),
        (0.0, 0.0, "56 % of the GPUs that take jobs were busy"),
    ],
)
def test_busy_is_a_part_of_what_takes_jobs(drained: float, broken: float, title: str) -> None:
    """18 of 24 where 8 are drained, and these are told apart."""
    parts = layers(series(drained=drained, broken=broken))

    assert utilization_title(parts, TIMES, GPUS).replace("\u00a0", " ") == title


def test_it_has_one_colour() -> None:
    """Its token is named after it: in charts, badges and every rule of a style sheet."""
    chart = utilization(
        series=series(drained=8.0), range_=Range(since=TIMES[0], until=UNTIL, words="now"), zone=UTC, device=GPUS
    )
    legend = {entry.label: entry.token for entry in chart.legend}
    rules = [
        (path.name, rule)
        for path in (ROOT / "frontend").rglob("*.css")
        for rule in re.findall(r"[^{}]*\.drained\b[^{}]*\{[^}]*\}", path.read_text())
        if ":not(" not in rule
    ]
    colors = {color for _, rule in rules for color in re.findall(r"var\(--([a-z-]+)", rule)}

    assert legend["Drained"] == LOOKS["drained"][1] == "drained"
    assert {SERVER_LOOKS[state].tone for state in ("draining", "drained")} == {"drained"}
    assert len(rules) >= 4
    assert colors == {"drained", "drained-soft"}


def test_it_is_told_without_colour() -> None:
    """It has horizontal lines: in the chart, its legend, and the cells of each map."""
    chart = utilization(
        series=series(drained=8.0), range_=Range(since=TIMES[0], until=UNTIL, words="now"), zone=UTC, device=GPUS
    )
    assert chart.figure
    layer = next(trace for trace in chart.figure["data"] if trace["name"] == "Drained")
    sheets = [
        ROOT / "frontend/components/static/components/parts.css",
        ROOT / "frontend/pages/wall/static/wall/wall.css",
    ]
    cells = [rule for path in sheets for rule in re.findall(r"\.cell\.drained \{[^}]*\}", path.read_text())]

    assert layer["fillpattern"]["shape"] == "-"
    assert {entry.label: entry.kind for entry in chart.legend}["Drained"] == "lines"
    assert len(cells) == 3
    assert all("repeating-linear-gradient(0deg" in rule for rule in cells)
