"""Charts and tables of figures write numbers as all of the product does."""

from types import SimpleNamespace
from typing import Any

import pytest

from frontend.components.charts import Chart, LegendEntry, chart_said, count_axis, layout, level_axis, line
from frontend.components.devices import CPU_SLOTS, GPUS, MIXED
from frontend.components.formats import THIN
from frontend.pages.simulation.comparison import half_by, strokes
from frontend.pages.simulation.figures_table import TITLES, figure_rows


def test_a_chart_says_the_word_of_the_cluster_and_keeps_its_points() -> None:
    """A replay says GPU; on a machine with CPU slots alone its charts say what all other pages say."""
    figure = {"data": [{"name": "free GPUs", "y": ["GPU", "a"], "x": [1, 2]}], "layout": {"title": {"text": "GPUs"}}}
    chart = Chart(
        id="blocks",
        title="Half of 8 GPUs are free",
        sub="GPUs held",
        figure=figure,
        legend=(LegendEntry(label="free GPUs", token="u2"),),
        table_head=("Arm and GPUs", "Jobs"),
        table_rows=[("fifo: 1 GPU", "2")],
    )
    said = chart_said(chart, CPU_SLOTS)

    assert (said.title, said.sub) == ("Half of 8 CPU slots are free", "CPU slots held")
    assert said.figure == {
        "data": [{"name": "free CPU slots", "y": ["GPU", "a"], "x": [1, 2]}],
        "layout": {"title": {"text": "CPU slots"}},
    }
    assert (said.legend[0].label, said.table_head[0], said.table_rows) == (
        "free CPU slots",
        "Arm and CPU slots",
        [("fifo: 1 CPU slot", "2")],
    )
    named = chart_said(chart, CPU_SLOTS, names=["free GPUs", "fifo"])
    assert (named.legend[0].label, named.title) == ("free GPUs", "Half of 8 CPU slots are free")
    assert chart_said(chart, MIXED).sub == "Devices held"
    assert chart_said(chart, GPUS) == chart


def test_a_value_that_never_changes_is_drawn_from_zero() -> None:
    """By itself Plotly shows a learning rate of 0.001 between -1 and 1, as if it were none; others keep their range."""
    assert level_axis([0.001, 0.001, 0.001]) == {"rangemode": "tozero"}
    assert level_axis([0.001, 0.002]) == {}
    assert level_axis([]) == {}


def test_axes_and_hovers_part_thousands_with_a_thin_space() -> None:
    """4 212, not 4,212, wherever Plotly writes a number; an axis of devices has its numbers written here."""
    made = layout()

    assert made["separators"] == f".{THIN}"
    assert made["xaxis"]["separatethousands"]
    assert made["yaxis"]["separatethousands"]
    assert count_axis(4_000)["ticktext"][-1] == f"4{THIN}000"


def test_a_curve_of_one_value_is_a_dot() -> None:
    """A line through one point is nothing that can be seen."""
    one, two = line("a", [1, 2], [None, 0.5], color="text"), line("a", [1, 2], [0.6, 0.5], color="text")

    assert (one["mode"], two["mode"]) == ("lines+markers", "lines")


def test_a_column_of_ratios_has_as_many_digits_as_its_largest_needs() -> None:
    """1 523.46 beside 2.13 says nothing in its last digits; alone, 2.13 does."""
    assert _worst_rho(1_523.456, 2.134, 98.76) == [f"1{THIN}523", "2", "99"]
    assert _worst_rho(2.134, 1.051) == ["2.13", "1.05"]
    assert _worst_rho(float("nan"), 12.34) == ["none finished", "12.3"]


def _worst_rho(*values: float) -> list[str]:
    summary: dict[str, Any] = dict.fromkeys(TITLES, 1.0)  # of all figures only the summary is read
    results: list[Any] = [
        SimpleNamespace(summary=summary | {"max_rho": rho, "finished": 100, "unfinished": 0}) for rho in values
    ]
    names = [f"arm {at}" for at in range(len(values))]
    rows = figure_rows(results, names, strokes(len(values), chosen=0), chosen=0)
    return [next(cell.text for cell in row.cells if cell.title == TITLES["max_rho"]) for row in rows]


@pytest.mark.parametrize(
    ("medians", "names", "of_all", "title"),
    [
        ([], [], 2, "No job has ended"),
        ([90.0], ["las"], 1, "Half of all jobs end within 1 min 30 s"),
        ([90.0], ["srtf"], 2, "Half of all jobs end within 1 min 30 s under srtf"),
        ([120.0, 90.0], ["las", "srtf"], 2, "Half of all jobs end within 1 min 30 s under srtf, 2 min under las"),
    ],
)
def test_title_of_completion_times_leaves_out_variants_without_an_end(
    medians: list[float], names: list[str], of_all: int, title: str
) -> None:
    """A variant under which no job ends has no median: it is not the fastest."""
    assert half_by(medians, names, of_all=of_all).replace("\N{NO-BREAK SPACE}", " ") == title
