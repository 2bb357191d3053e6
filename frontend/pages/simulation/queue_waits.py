"""Waits by queue: one line for each queue, one mark for each variant."""

from collections.abc import Sequence

from frontend.components.charts import Chart, Json, layout, plain, token
from frontend.components.formats import duration, number
from frontend.pages.simulation.comparison import Stroke, legend, waits_said
from frontend.pages.simulation.scales import log_time_axis
from scheduler.core.operations.metrics import has_percentile
from scheduler.simulator.report.figures import Figures

_LEAST_S = 60.0  # shorter waits are drawn as this long: a log scale has no 0
_MOST_QUEUES = 14
_SYMBOLS = ("circle-open", "circle", "diamond-open", "square-open", "triangle-up-open", "x-thin-open")


def queue_waits_chart(results: Sequence[Figures], names: Sequence[str], drawn: Sequence[Stroke]) -> Chart | None:
    """Return the waits by queue; None where there is one queue, or no queue with jobs in every variant."""
    found = [{wait.label: wait for wait in result.queue_waits} for result in results]
    jobs = {label: wait.jobs for label, wait in found[0].items()} if found else {}
    shown = sorted((label for label in jobs if jobs[label]), key=lambda label: (-jobs[label], label))[:_MOST_QUEUES]
    shown = [label for label in shown if all(label in waits for waits in found)]
    if not shown or len(results[0].queue_names) < 2:
        return None
    told = [label for label in shown if all(has_percentile(waits[label].jobs, 0.9) for waits in found)]
    order = told[::-1]
    traces: list[Json] = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": plain(name),
            "y": [plain(label) for label in order],
            "x": [max(_LEAST_S, waits[label].p90_s) for label in order],
            "text": [f"{plain(name)}: {duration(waits[label].p90_s)}" for label in order],
            "hovertemplate": "%{text}<extra></extra>",
            "marker": {
                "size": 9,
                "symbol": _SYMBOLS[at % len(_SYMBOLS)],
                "color": token(one.color),
                "line": {"width": 2},
            },
        }
        for at, (name, one, waits) in enumerate(zip(names, drawn, found, strict=True))
    ]
    longest = max((waits[label].p90_s for waits in found for label in told), default=0.0)
    title = "Too few jobs in each queue to say how long 1 in 10 waits"
    if told:
        worst = max(told, key=lambda label: found[0][label].p90_s)
        title = f"In {worst} 1 in 10 jobs waits longer than {duration(found[0][worst].p90_s)}"
        title += f" under {names[0]}" if len(results) > 1 else ""
    if told and all(waits[label].p90_s < _LEAST_S for waits in found for label in shown):
        title = "In every queue 9 in 10 jobs wait less than a minute"
    height = 64 + 26 * len(order)
    x = log_time_axis(_LEAST_S, max(3_600.0, longest * 1.2))
    return Chart(
        id="queue-waits",
        title=title,
        sub="Time without GPUs of finished jobs, 90th percentile, by queue, log scale from 1 min",
        figure={
            "data": traces,
            "layout": layout(height=height, left=50, x=x, y={"automargin": True, "dtick": 1}, hovermode="closest"),
        }
        if told
        else None,
        empty="Too few jobs in each queue: a 90th percentile takes ten.",
        legend=legend(names, drawn),
        table_head=("Queue and variant", "Jobs", "p50", "p90"),
        table_rows=[
            (f"{label}: {name}", number(wait.jobs), *waits_said(wait))
            for label in shown
            for name, waits in zip(names, found, strict=True)
            for wait in [waits[label]]
        ],
        height=height,
    )
