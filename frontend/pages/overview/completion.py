"""The chart of completion and waiting times: the share of jobs that is done within a time."""

from collections.abc import Sequence
from math import log10

from frontend.components.charts import Chart, Json, LegendEntry, layout, line, token
from frontend.components.formats import duration, number
from scheduler.selectors.cluster.rows import CompletionTimes

MINUTE_S, HOUR_S, DAY_S = 60, 3_600, 86_400
# Ticks of the axis, few to many: the first of these that has enough of them in the range is taken.
TICKS_S: tuple[tuple[int, ...], ...] = (
    (1, 10, MINUTE_S, 10 * MINUTE_S, HOUR_S, 6 * HOUR_S, DAY_S, 7 * DAY_S, 30 * DAY_S),
    tuple(
        count * unit
        for unit, counts in ((1, (1, 5, 20)), (MINUTE_S, (1, 5, 20)), (HOUR_S, (1, 5)), (DAY_S, (1, 5, 20)))
        for count in counts
    ),
    tuple(
        count * unit
        for unit, counts in (
            (1, (1, 2, 5, 10, 20)),
            (MINUTE_S, (1, 2, 5, 10, 20, 30)),
            (HOUR_S, (1, 2, 5, 10)),
            (DAY_S, (1, 2, 5, 10, 20, 50)),
        )
        for count in counts
    ),
)
LEAST_TICKS = 4


def _cdf(values: Sequence[float]) -> tuple[list[float], list[float]]:
    """Return x and y of a cumulative distribution; at most 200 points, and never below 1 s on the log axis."""
    count = len(values)
    picks = sorted({round(index * (count - 1) / min(199, max(1, count - 1))) for index in range(min(200, count))})
    x, y = [max(1.0, values[index]) for index in picks], [100 * (index + 1) / count for index in picks]
    return [x[0], *x], [0.0, *y]  # the line rises from the axis, also when there is a single job


def _log_axis(least_s: float, most_s: float) -> Json:
    """Return the axis of durations from a little before the least to room for a label after the most."""
    low, high = log10(max(1.0, least_s)) - 0.1, log10(most_s) + 0.7
    inside = [[tick for tick in ticks if low <= log10(tick) <= high] for ticks in TICKS_S]
    shown = next((ticks for ticks in inside if len(ticks) >= LEAST_TICKS), inside[-1])
    return {
        "type": "log",
        "showgrid": True,
        "gridcolor": token("grid"),
        "range": [low, high],
        "tickvals": shown,
        "ticktext": [duration(tick) for tick in shown],
    }


def _with_words(trace: Json) -> Json:
    """Return a line whose points show their time as a duration, not in seconds."""
    words = [f"{share:.0f} % within {duration(at)}" for at, share in zip(trace["x"], trace["y"], strict=True)]
    return {**trace, "text": words, "hovertemplate": "%{text}<extra>%{fullData.name}</extra>"}


def completion(summary: CompletionTimes, span: str) -> Chart:
    """Return the distribution of completion and waiting times of jobs that completed in the range."""
    jct, waits = sorted(summary["jct_s"]), sorted(summary["wait_s"])
    figure = None
    title = "No job has completed yet"
    if jct:
        title = f"Half of all jobs complete within {duration(summary['p50_s'])}"
        x, y = _cdf(jct)
        wait_x, wait_y = _cdf(waits)
        points = [(at, share) for at, share in ((summary["p50_s"], 50), (summary["p90_s"], 90)) if at is not None]
        marks = {
            "type": "scatter",
            "mode": "markers+text",
            "name": "median and p90",
            "x": [max(1.0, at) for at, _ in points],
            "y": [share for _, share in points],
            "text": [f"<b>{duration(at)}</b>" for at, _ in points],
            "textposition": "bottom right",
            "textfont": {"color": token("text")},
            "marker": {"size": 9, "color": token("surface"), "line": {"width": 2, "color": token("accent")}},
            "hoverinfo": "skip",
            "cliponaxis": False,
        }
        figure = {
            "data": [
                _with_words(line("Waiting", wait_x, wait_y, color="text-3", width=1.5, dash="dash", shape="hv")),
                _with_words(line("Completion", x, y, color="accent", width=2.5, shape="hv")),
                marks,
            ],
            "layout": layout(
                left=44,
                hovermode="closest",
                x=_log_axis(min(x[0], wait_x[0]), x[-1]),
                y={
                    "range": [0, 103],
                    "tickvals": [0, 25, 50, 75, 100],
                    "ticktext": ["0 %", "25 %", "50 %", "75 %", "100 %"],
                },
            ),
        }
    return Chart(
        id="completion",
        title=title,
        sub=f"Share of {number(summary['count'])} completed jobs by time, log scale, {span}",
        figure=figure,
        empty="Times appear when the first job completes.",
        legend=(
            LegendEntry(label="completion", token="accent", kind="line"),  # noqa: S106
            LegendEntry(label="waiting", token="text-3", kind="dash"),  # noqa: S106
        ),
        table_head=("Time", "Median", "9 in 10", "99 in 100"),
        table_rows=[
            ("Completion", *(duration(summary[name]) for name in ("p50_s", "p90_s", "p99_s"))),
            ("Waiting", duration(summary["wait_p50_s"]), duration(summary["wait_p90_s"]), ""),
        ]
        if jct
        else [],
    )
