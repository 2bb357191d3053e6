"""Figures for Plotly as the visual language wants them: one layout, colours as names of tokens.

A figure is plain JSON data. Colours are written ``var(--q1)``; ``charts.js`` looks them up when it draws, and again
when the theme changes, so one figure serves light and dark. Text from users goes through ``plain``.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo

from frontend.components.devices import DeviceWord
from frontend.components.formats import THIN, number
from scheduler.selectors.rows import Json as Json  # a piece of a Plotly figure; pages with figures import it from here

EMPTY_HEIGHT = 56
DAY_S = 86_400
# Between ticks of a time axis.
STEPS_S = (1, 5, 10, 30, 60, 300, 600, 1800, 3600, 10800, 21600, 43200, DAY_S, 7 * DAY_S)
STEPS, LONG_STEPS = 9, 6  # steps on a time axis, at most; the second where ticks have a day and a time


@dataclass(frozen=True, slots=True, kw_only=True)
class LegendEntry:
    """One entry of the legend in a card's head. ``kind`` is "", "hatch", "lines", "line", "dash" or "hollow"."""

    label: str
    token: str
    kind: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """One chart with the words around it and the table that says the same.

    Attributes:
        id: Id of the element, unique on the page.
        title: The finding, one sentence with its number.
        sub: What is plotted, unit, time range.
        figure: Plotly figure; None when there is nothing to draw yet.
        empty: What is shown instead.
        table_head, table_rows: The values as a table.
        height: Pixels.
        side: What stands right of the title, in few words.
        foot: What stands under the figure: how far such a figure was off.
    """

    id: str
    title: str
    sub: str
    figure: Json | None
    empty: str = "Nothing measured yet."
    legend: tuple[LegendEntry, ...] = ()
    table_head: tuple[str, ...] = ()
    table_rows: list[tuple[str, ...]] = field(default_factory=list)
    height: int = 196
    side: str = ""
    foot: str = ""

    @property
    def room(self) -> int:
        """Return the pixels that it takes: a sentence needs less than a figure."""
        return self.height if self.figure else EMPTY_HEIGHT

    @property
    def figure_id(self) -> str:
        """Return the id of the script element that holds the figure."""
        return f"{self.id}-figure"


_SAID = frozenset({"hovertemplate", "name", "text"})  # keys of a figure whose values are words


def chart_said(chart: Chart, word: DeviceWord, *, names: Sequence[str] = ()) -> Chart:
    """Return a chart of a replay, which says GPU, in the cluster's word for its devices, but not in ``names``."""

    def said(text: str) -> str:
        told = word.said(text, names=names)
        return told[:1].upper() + told[1:] if text[:1].isupper() else told

    return replace(
        chart,
        title=said(chart.title),
        sub=said(chart.sub),
        empty=said(chart.empty),
        figure=None if chart.figure is None else _figure_said(chart.figure, word, names),
        legend=tuple(replace(entry, label=word.said(entry.label, names=names)) for entry in chart.legend),
        table_head=tuple(said(cell) for cell in chart.table_head),
        table_rows=[tuple(word.said(cell, names=names) for cell in row) for row in chart.table_rows],
    )


def _figure_said(figure: Json, word: DeviceWord, names: Sequence[str]) -> Json:
    """Return a part of a figure in other words; names on its axes are left as they are."""
    made: Json = {}
    for key, value in figure.items():
        if isinstance(value, dict):
            made[key] = _figure_said(value, word, names)
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            made[key] = [_figure_said(part, word, names) for part in value]
        elif key in _SAID and isinstance(value, str):
            made[key] = word.said(value, names=names)
        elif key in _SAID and isinstance(value, list):
            made[key] = [word.said(text, names=names) if isinstance(text, str) else text for text in value]
        else:
            made[key] = value
    return made


def token(name: str) -> str:
    """Return a colour by its name in ``tokens.css``."""
    return f"var(--{name})"


def plain(text: str) -> str:
    """Return ``text`` so that Plotly shows it as it is: it would take tags and entities for markup."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def wall(at: datetime, zone: tzinfo) -> str:
    """Return a time on a chart's axis: local to the reader, without an offset."""
    return at.astimezone(zone).strftime("%Y-%m-%d %H:%M:%S")


def layout(*, height: int = 196, left: int = 36, x: Json | None = None, y: Json | None = None, **more: object) -> Json:
    """Return the layout that all charts share, with what one chart changes.

    Args:
        height: Pixels.
        left: Left margin: 36, 44 with "100 %", 50 with names.
        x, y: Changes of the axes.
        more: Other layout keys.
    """
    tick = {"size": 11, "color": token("text-3"), "family": "Inter, system-ui, sans-serif"}
    return {
        "height": height,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "Inter, system-ui, sans-serif", "size": 12, "color": token("text-2")},
        "separators": f".{THIN}",
        "margin": {"l": left, "r": 12, "t": 8, "b": 24},
        "showlegend": False,
        "hovermode": "x unified",
        "hoverlabel": {
            "bgcolor": token("overlay"),
            "bordercolor": token("border-2"),
            "font": {"size": 12, "color": token("text")},
        },
        "dragmode": False,
        "xaxis": {
            "showgrid": False,
            "showline": True,
            "linecolor": token("border-2"),
            "linewidth": 1,
            "zeroline": False,
            "ticks": "",
            "tickfont": tick,
            "fixedrange": True,
            "automargin": False,
            "separatethousands": True,
            "nticks": 8,
            **(x or {}),
        },
        "yaxis": {
            "showgrid": True,
            "gridcolor": token("grid"),
            "gridwidth": 1,
            "showline": False,
            "zeroline": False,
            "ticks": "",
            "tickfont": tick,
            "fixedrange": True,
            "automargin": False,
            "separatethousands": True,
            "nticks": 5,
            **(y or {}),
        },
        **more,
    }


def time_axis(since: datetime, until: datetime, zone: tzinfo) -> Json:
    """Return an x axis of wall-clock times over a range; over more than a day each tick names its day."""
    span_s = (until - since).total_seconds()
    is_long = span_s > DAY_S
    step_s = next(
        (step for step in STEPS_S if span_s / step <= (LONG_STEPS if is_long and step < DAY_S else STEPS)), STEPS_S[-1]
    )
    if step_s > DAY_S:  # a weekday and a date are the same four weeks on in a February
        tick_format = "%-d %b"
    elif step_s == DAY_S:
        tick_format = "%a %-d"
    else:
        tick_format = "%a %H:%M" if is_long else "%H:%M" if span_s > 900 else "%H:%M:%S"
    return {
        "type": "date",
        "range": [wall(since, zone), wall(until, zone)],
        "tickformat": tick_format,
        "dtick": step_s * 1000,
        "hoverformat": "%a %H:%M" if span_s > DAY_S else "%H:%M:%S",
    }


def level_axis(values: Iterable[float]) -> Json:
    """Return a y axis from 0 for a value that never changes, where Plotly would show 1 less to 1 more; else nothing."""
    return {"rangemode": "tozero"} if len(set(values)) == 1 else {}


def count_axis(most: float) -> Json:
    """Return a y axis for a number of devices from 0 to ``most``, with ticks at whole numbers and at ``most``."""
    top = max(1, round(most))
    parts = next((parts for parts in (4, 5, 3, 2) if top % parts == 0), 0)
    step = top // parts if parts else max(1, top // 4)
    ticks = [*range(0, top - step // 2, step), top]
    return {"range": [0, top], "tickvals": ticks, "ticktext": [number(tick) for tick in ticks]}


def even_axis(most: float) -> Json:
    """Return a y axis from 0 for a count, with ticks 1, 2 or 5 times a power of ten apart; its top is the last."""
    least = max(1.0, most) / 5
    step = next(step for power in range(9) for digit in (1, 2, 5) if (step := digit * 10**power) >= least)
    ticks = list(range(0, -(-max(1, round(most)) // step) * step + 1, step))
    return {"range": [0, ticks[-1]], "tickvals": ticks, "ticktext": [number(tick) for tick in ticks]}


def area(
    name: str, x: Sequence[object], y: Sequence[float | None], *, color: str, hatch: bool = False, stack: str = "one"
) -> Json:
    """Return one layer of a stacked area; ``hatch`` draws it at 45 degrees on the surface."""
    trace: Json = {
        "type": "scatter",
        "mode": "lines",
        "name": plain(name),
        "x": list(x),
        "y": list(y),
        "stackgroup": stack,
        "line": {"width": 0, "shape": "hv", "color": token(color)},
        "fillcolor": token(color),
    }
    if hatch:
        trace["fillpattern"] = {
            "shape": "/",
            "size": 6,
            "solidity": 0.4,
            "fgcolor": token(color),
            "bgcolor": token("surface"),
            "fillmode": "replace",
        }
    return trace


def lines(name: str, x: Sequence[object], y: Sequence[float | None], *, color: str) -> Json:
    """Return one layer of a stacked area of horizontal lines on the soft colour, which needs no colour to be told."""
    pattern = {"shape": "-", "size": 5, "solidity": 0.25, "fgcolor": token(color), "bgcolor": token(f"{color}-soft")}
    return area(name, x, y, color=color) | {"fillpattern": {**pattern, "fillmode": "replace"}}


def line(
    name: str, x: Sequence[object], y: Sequence[float | None], *, color: str, width: float = 2, **more: object
) -> Json:
    """Return a line, a dot where it has one value; ``more`` may set ``dash`` and ``shape`` (``hv`` for GPU counts)."""
    is_dot = sum(value is not None for value in y) == 1
    return {
        "type": "scatter",
        "mode": "lines",
        "name": plain(name),
        "x": list(x),
        "y": list(y),
        "line": {"width": width, "color": token(color), **more},
    } | ({"mode": "lines+markers", "cliponaxis": False} if is_dot else {})


def note(text: str, x: object, y: object, *, color: str = "text", bold: bool = False, **more: object) -> Json:
    """Return a direct label inside the plot."""
    return {
        "text": f"<b>{plain(text)}</b>" if bold else plain(text),
        "x": x,
        "y": y,
        "showarrow": False,
        "font": {"size": 12, "color": token(color)},
        **more,
    }
