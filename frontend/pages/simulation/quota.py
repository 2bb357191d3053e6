"""Share against quota in one replay: every queue on average, and the queue that borrows most over time."""

from collections.abc import Sequence

import numpy as np

from frontend.components.charts import Chart, Json, LegendEntry, area, count_axis, layout, line, plain, token
from frontend.components.formats import counted, number, percent
from frontend.pages.simulation.scales import elapsed_axis
from scheduler.core.model.tables import FloatArray
from scheduler.simulator.report.curves import Course
from scheduler.simulator.report.figures import Figures
from scheduler.simulator.report.narrowed import OTHERS

_MOST_QUEUES = 14


def quota_charts(over_time: Course, arm: Figures, colors: Sequence[str], prefix: str) -> list[Chart]:
    """Return the charts; none where there is one queue, or no queue has a quota."""
    quotas = np.array(arm.queue_quotas, dtype=np.float64)
    if len(quotas) < 2 or len(quotas) != over_time.queues.shape[1] or not quotas.any():
        return []
    return [_every_queue(over_time, arm.queue_names, quotas, colors, prefix),
            _borrower(over_time, arm.queue_names, quotas, colors, prefix)]  # fmt: skip


def _every_queue(
    over_time: Course, names: Sequence[str], quotas: FloatArray, colors: Sequence[str], prefix: str
) -> Chart:
    """Draw the mean of each queue: solid within its quota, hatched beyond, the quota as a line."""
    held = over_time.queues
    means, beyond = held.mean(axis=0), np.maximum(held - quotas, 0.0).mean(axis=0)
    order = np.argsort(-quotas, kind="stable").tolist()[:_MOST_QUEUES][::-1]
    labels = [plain(names[row]) for row in order]
    own = means - beyond
    traces = [
        _bars("within its quota", labels, own, order, colors, hatch=False),
        _bars("borrowed", labels, beyond, order, colors, hatch=True),
        {
            "type": "scatter",
            "mode": "markers",
            "name": "quota",
            "y": labels,
            "x": [float(quotas[row]) for row in order],
            "marker": {"symbol": "line-ns", "size": 18, "line": {"color": token("text"), "width": 2}},
            "hovertemplate": "quota %{x:,.0f} GPUs<extra></extra>",
        },
    ]
    most = max(_named(names), key=lambda row: float(beyond[row]))
    title = (
        f"{names[most]} borrows {counted(round(float(beyond[most])), 'GPU')} on average, "
        f"{percent(float(beyond[most] / max(1.0, quotas[most])))} of its quota"
        if round(float(beyond[most]))
        else "No queue borrows as much as one GPU on average"
    )
    height = 52 + 24 * len(order)
    x: Json = {"range": [0, max(float(means.max()), float(quotas.max())) * 1.03], "showline": False, "showgrid": True,
               "gridcolor": token("grid"), "tickformat": ",d"}  # fmt: skip
    more: Json = {"barmode": "stack", "bargap": 0.35, "hovermode": "closest"}
    rest = f" The {len(order)} largest of {len(quotas)} queues." if len(order) < len(quotas) else ""
    return Chart(
        id=f"{prefix}-shares",
        title=title,
        sub=f"GPUs held by each queue, mean over time; hatched is beyond the quota, the line is the quota.{rest}",
        figure={
            "data": traces,
            "layout": layout(
                height=height, left=50, x=x, y={"showgrid": False, "automargin": True, "dtick": 1}, **more
            ),
        },
        legend=(
            _entry("held", "u3"),
            _entry("borrowed", "u3", "hatch"),
            _entry("quota", "text", "tick"),
        ),
        table_head=("Queue", "Quota", "Held", "Borrowed", "Time above quota"),
        table_rows=[
            (
                names[row],
                number(quotas[row]),
                number(float(means[row]), 1),
                number(float(beyond[row]), 1),
                percent(float((held[:, row] > quotas[row]).mean())),
            )
            for row in order[::-1]
        ],
        height=height,
    )


def _bars(
    label: str, labels: Sequence[str], values: FloatArray, order: Sequence[int], colors: Sequence[str], *, hatch: bool
) -> Json:
    marker: Json = {
        "color": [token(colors[row]) for row in order],
        "line": {"color": token("surface"), "width": 1},
    }
    if hatch:
        fill = {"shape": "/", "size": 6, "solidity": 0.4, "fillmode": "replace", "bgcolor": token("surface")}
        marker["pattern"] = fill | {"fgcolor": [token(colors[row]) for row in order]}
    return {
        "type": "bar",
        "orientation": "h",
        "name": label,
        "y": list(labels),
        "x": [round(float(values[row]), 2) for row in order],
        "marker": marker,
        "hovertemplate": f"%{{y}}: %{{x:,.1f}} GPUs {label}<extra></extra>",
    }


def _borrower(over_time: Course, names: Sequence[str], quotas: FloatArray, colors: Sequence[str], prefix: str) -> Chart:
    """Draw the queue that borrows most: what it holds within its quota, what beyond, and the quota as a line."""
    held = over_time.queues
    beyond = np.maximum(held - quotas, 0.0).mean(axis=0)
    row = max(_named(names), key=lambda at: float(beyond[at]))
    own, quota = held[:, row], float(quotas[row])
    x = [round(at * over_time.step_s / 3_600, 4) for at in range(len(own))]
    above = float((own > quota).mean())
    data = [
        area("within its quota", x, _rounded(np.minimum(own, quota)), color=colors[row]),
        area("borrowed", x, _rounded(np.maximum(own - quota, 0.0)), color=colors[row], hatch=True),
        line("quota", x, [quota] * len(x), color="text", width=1.5, dash="dash"),
    ]
    every = max(1, len(x) // 24)
    return Chart(
        id=f"{prefix}-borrower",
        title=f"{names[row]} holds more than its {counted(round(quota), 'GPU')} {percent(above)} of the time",
        sub="GPUs held by the queue that borrows most, by time since the begin; dashed is its quota",
        figure={
            "data": data,
            "layout": layout(
                x=elapsed_axis(len(x) * over_time.step_s / 3_600), y=count_axis(max(float(own.max()), quota))
            ),
        },
        legend=(
            _entry("within its quota", colors[row]),
            _entry("borrowed", colors[row], "hatch"),
            _entry("quota", "text", "dash"),
        ),
        table_head=("After", "Held", "Quota", "Borrowed"),
        table_rows=[
            (f"{x[at]:.1f} h", number(float(own[at]), 1), number(quota), number(max(0.0, float(own[at]) - quota), 1))
            for at in range(0, len(x), every)
        ],
    )


def _named(names: Sequence[str]) -> list[int]:
    """Return the queues that a sentence may name: all but the sum of the queues that the user may not see."""
    return [row for row, name in enumerate(names) if name != OTHERS]


def _rounded(values: FloatArray) -> list[float | None]:
    return [round(value, 2) for value in values.tolist()]


def _entry(label: str, color: str, kind: str = "") -> LegendEntry:
    return LegendEntry(label=label, token=color, kind=kind)
