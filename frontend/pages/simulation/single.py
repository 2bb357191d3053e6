"""Charts of one arm over time: allocation, jobs, queues, quotas, free blocks, and a Gantt chart."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from frontend.components.charts import Chart, Json, LegendEntry, area, count_axis, layout, line
from frontend.components.formats import counted, duration, number, percent, significant
from frontend.pages.simulation.gantt import gantt_chart
from frontend.pages.simulation.quota import quota_charts
from frontend.pages.simulation.scales import elapsed_axis
from scheduler.core.model.tables import FloatArray
from scheduler.simulator.report.curves import Course
from scheduler.simulator.report.figures import Figures
from scheduler.simulator.report.narrowed import OTHERS

_MOST_QUEUES = 8
_OTHERS = "q0"
_TABLE_ROWS = 24


def arm_charts(arm: Figures, *, prefix: str) -> list[Chart]:
    """Return the charts of one replay; ``prefix`` keeps their ids apart from the charts of other arms."""
    charts = []
    colors = ["q1"] * len(arm.queue_names)
    if arm.course is not None:
        over_time = arm.course
        colors = _queue_colors(over_time)
        charts = [
            _use(over_time, arm.num_gpus, prefix),
            _waiting(over_time, prefix),
            *([_queues(over_time, arm.queue_names, colors, prefix)] if len(arm.queue_names) > 1 else []),
            *quota_charts(over_time, arm, colors, prefix),
            _blocks(over_time, arm.num_gpus, max(arm.server_gpus), arm.room_share, prefix),
        ]
    if arm.gantt is not None:
        charts.append(gantt_chart(arm.gantt, arm, colors, prefix))
    return charts


def _use(over_time: Course, num_gpus: int, prefix: str) -> Chart:
    x, most = _hours(over_time), float(over_time.allocated.max())
    traces = [
        area("allocated", x, _rounded(over_time.allocated), color="u2"),
        line("useful", x, _rounded(over_time.useful), color="u5", shape="hv"),
    ]
    top = max(num_gpus, float(over_time.useful.max()))
    return _timed(
        Chart(
            id=f"{prefix}-use",
            # The share over the whole time stands in the chart of all arms; this one shows when.
            title=f"At most {number(most)} of {number(num_gpus)} GPUs are allocated at once",
            sub="GPUs allocated, and the same at the speed of their jobs, by time since the begin",
            figure={"data": traces, "layout": layout(x=_x(over_time), y=count_axis(top))},
            legend=(_swatch("allocated", "u2"), _swatch("useful", "u5", "line")),
        ),
        over_time,
        {"Allocated": over_time.allocated, "Useful": over_time.useful},
    )


def _waiting(over_time: Course, prefix: str) -> Chart:
    most = float(over_time.waiting.max())
    # By intervals, as the axis: moments since 1970 are kept with too few digits to be subtracted.
    at_s = int(over_time.waiting.argmax()) * over_time.step_s
    wait = "waits" if round(most) == 1 else "wait"
    title = (
        f"At most {counted(round(most), 'job')} {wait} at once, after {duration(at_s)}"
        if most >= 1
        else "Hardly any job waits"
    )
    y = count_axis(max(most, float(over_time.running.max())))
    x = _hours(over_time)
    traces = [
        line("running", x, _rounded(over_time.running), color="info", shape="hv"),
        line("waiting", x, _rounded(over_time.waiting), color="warn", shape="hv"),
    ]
    return _timed(
        Chart(
            id=f"{prefix}-jobs",
            title=title,
            sub="Jobs, by time since the begin",
            figure={
                "data": traces,
                "layout": layout(left=44, x=_x(over_time), y=y),
            },
            legend=(
                _swatch("running", "info", "line"),
                _swatch("waiting", "warn", "line"),
            ),
        ),
        over_time,
        {"Running": over_time.running, "Waiting": over_time.waiting},
    )


def _queues(over_time: Course, names: Sequence[str], colors: Sequence[str], prefix: str) -> Chart:
    """Stack the largest queues; beyond eight the smaller ones are one."""
    means = over_time.queues.mean(axis=0)
    own = [row for row, color in enumerate(colors) if color != _OTHERS]
    parts: list[tuple[str, str, FloatArray]] = [(names[row], colors[row], over_time.queues[:, row]) for row in own]
    rest = [row for row, color in enumerate(colors) if color == _OTHERS]
    if rest:
        parts.append((counted(len(rest), "other"), _OTHERS, over_time.queues[:, rest].sum(axis=1)))
    total = float(means.sum())
    first = max((row for row, name in enumerate(names) if name != OTHERS), key=lambda row: float(means[row]))
    title = f"{names[first]} holds {percent(float(means[first]) / total if total else 0.0)} of the allocated GPU time"
    x = _hours(over_time)
    return _timed(
        Chart(
            id=f"{prefix}-queues",
            title=title,
            sub="GPUs held by the jobs of each queue, stacked",
            figure={
                "data": [area(name, x, _rounded(values), color=color) for name, color, values in parts],
                "layout": layout(x=_x(over_time), y=count_axis(float(over_time.queues.sum(axis=1).max()))),
            },
            legend=tuple(_swatch(name, color) for name, color, _ in parts),
        ),
        over_time,
        {name: values for name, _, values in parts},
    )


def _queue_colors(over_time: Course) -> list[str]:
    """Return the colour of each queue: a slot for the largest eight, or seven and one for all others."""
    order = np.argsort(-over_time.queues.mean(axis=0), kind="stable").tolist()
    largest = order if len(order) <= _MOST_QUEUES else order[: _MOST_QUEUES - 1]
    slots = {row: f"q{slot}" for slot, row in enumerate(sorted(largest), start=1)}
    return [slots.get(row, _OTHERS) for row in range(len(order))]


def _blocks(over_time: Course, num_gpus: int, widest: int, share: float, prefix: str) -> Chart:
    x = _hours(over_time)
    free = num_gpus - over_time.allocated
    traces = [
        line("free GPUs", x, _rounded(free), color="border-ctl", width=1.5, shape="hv"),
        line("largest free block on a server", x, _rounded(over_time.largest_free), color="accent", shape="hv"),
    ]
    return _timed(
        Chart(
            id=f"{prefix}-blocks",
            title=f"A gang of {widest} finds a free server {percent(share)} of the time",
            sub="Free GPUs, and the most of them on one server; a small block beside many free GPUs is fragmentation",
            figure={"data": traces, "layout": layout(x=_x(over_time), y=count_axis(max(float(free.max()), widest)))},
            legend=(
                _swatch("free GPUs", "border-ctl", "line"),
                _swatch("largest block", "accent", "line"),
            ),
        ),
        over_time,
        {"Free GPUs": free, "Largest block": over_time.largest_free},
    )


def _swatch(label: str, color: str, kind: str = "") -> LegendEntry:
    return LegendEntry(label=label, token=color, kind=kind)


def _x(over_time: Course) -> Json:
    return elapsed_axis(len(over_time.at_s) * over_time.step_s / 3_600)


def _hours(over_time: Course) -> list[float]:
    return [round(row * over_time.step_s / 3_600, 4) for row in range(len(over_time.at_s))]


def _rounded(values: FloatArray) -> list[float | None]:
    return [round(value, 2) for value in values.tolist()]


def _timed(chart: Chart, over_time: Course, columns: dict[str, FloatArray]) -> Chart:
    """Return the chart with its table: every so many intervals, values as drawn."""
    every = max(1, len(over_time.at_s) // _TABLE_ROWS)
    rows = [
        (duration(row * over_time.step_s), *(significant(float(values[row])) for values in columns.values()))
        for row in range(0, len(over_time.at_s), every)
    ]
    return replace(chart, table_head=("After", *columns), table_rows=rows)
