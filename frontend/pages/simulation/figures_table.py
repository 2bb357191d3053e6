"""The table of a report: one row for each arm, each figure with its change against the first arm."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from frontend.components.formats import MINUS, NBSP, digits_of, number, percent
from frontend.pages.simulation.comparison import TOO_FEW, Stroke
from scheduler.simulator.report.figures import Figures
from scheduler.simulator.report.summary_text import METRICS, Metric, time_unit

TIMES = "\u00d7"
TITLES = {
    "avg_jct_s": "Mean JCT",
    "p50_jct_s": "p50 JCT",
    "p99_jct_s": "p99 JCT",
    "avg_queueing_s": "Mean wait",
    "makespan_s": "Makespan",
    "avg_useful_gpu": "Useful",
    "preemptions": "Preempted",
    "max_rho": "Worst \u03c1",
}
_SHOWN = tuple(metric for key in TITLES for metric in METRICS if metric.key == key)


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureCell:
    """One figure. ``tone`` is ``ok``, ``bad`` or empty."""

    title: str
    text: str
    change: str = ""
    tone: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureRow:
    """One arm."""

    name: str
    cells: list[FigureCell]
    unfinished: int
    stroke: str
    chosen: bool


def heads() -> list[str]:
    """Return the titles of the columns."""
    return [TITLES[metric.key] for metric in _SHOWN]


def figure_rows(
    results: Sequence[Figures], names: Sequence[str], drawn: Sequence[Stroke], *, chosen: int
) -> list[FigureRow]:
    """Return the rows; the first is the baseline and has no changes."""
    base: Mapping[str, object] = results[0].summary
    scales = _scales(results)
    rows = []
    for at, (name, result) in enumerate(zip(names, results, strict=True)):
        own: Mapping[str, object] = result.summary
        cells = [
            _cell(
                metric,
                own[metric.key],
                base[metric.key] if at and metric.is_of(results[0].summary["finished"]) else None,
                scales[metric.key],
                finished=result.summary["finished"],
            )
            for metric in _SHOWN
        ]
        rows.append(
            FigureRow(
                name=name,
                cells=cells,
                unfinished=result.summary["unfinished"],
                stroke=drawn[at].kind,
                chosen=0 < at == chosen,
            )
        )
    return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scale:
    """How a column is written: its unit of time, seconds in that unit, digits of figures that are no times."""

    unit: str
    size_s: float
    digits: int


def _scales(results: Sequence[Figures]) -> dict[str, _Scale]:
    """Return one scale for each column, so that its figures can be compared at a glance."""
    summaries: list[Mapping[str, object]] = [result.summary for result in results]
    found = {}
    for metric in _SHOWN:
        values = [value for summary in summaries if isinstance(value := summary[metric.key], float)]
        unit, size_s = time_unit(values)
        largest = max(filter(math.isfinite, values), default=1.0)
        found[metric.key] = _Scale(unit=unit, size_s=size_s, digits=digits_of(largest))
    return found


def _cell(metric: Metric, value: object, base: object, scale: _Scale, *, finished: int) -> FigureCell:
    if not isinstance(value, int | float) or not math.isfinite(value):
        return FigureCell(title=TITLES[metric.key], text="none finished")
    if not metric.is_of(finished):
        return FigureCell(title=TITLES[metric.key], text=TOO_FEW)
    change, tone = ("", "")
    if isinstance(base, int | float) and math.isfinite(base):
        change, tone = change_said(float(value), float(base), kind=metric.kind, best=metric.best)
    return FigureCell(title=TITLES[metric.key], text=_text(metric, value, scale), change=change, tone=tone)


def _text(metric: Metric, value: float, scale: _Scale) -> str:
    if metric.kind == "time":
        return f"{number(value / scale.size_s, 1)}{NBSP}{scale.unit}"
    if metric.kind == "share":
        return percent(value)
    return number(value) if metric.kind == "count" else number(value, scale.digits)


def change_said(value: float, base: float, *, kind: str, best: str) -> tuple[str, str]:
    """Return a change as text, and its tone: ``ok``, ``bad`` or empty.

    Args:
        kind: Of the metric; shares change by points, all others by per cent.
        best: ``min`` where less is better, else ``max``.
    """
    if kind == "share":
        points = round(100 * (value - base))
        text = f"{'+' if points > 0 else MINUS}{abs(points)}" if points else ""
    elif base <= 0:
        return "", ""
    elif value / base >= 1.95:
        text = f"{value / base:.1f}{NBSP}{TIMES}"
    else:
        per_cent = round(100 * (value / base - 1))
        text = f"{'+' if per_cent > 0 else MINUS}{abs(per_cent)}{NBSP}%" if per_cent else ""
    better = value < base if best == "min" else value > base
    return text, ("ok" if better else "bad") if text else ""
