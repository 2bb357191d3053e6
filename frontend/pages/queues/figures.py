"""Charts of a queue: GPUs held against its quota over time, and finish-time fairness of its jobs."""

from datetime import datetime, tzinfo
from itertools import pairwise

from frontend.components.charts import Chart, Json, LegendEntry, area, even_axis, layout, line, time_axis, token, wall
from frontend.components.devices import DeviceWord
from frontend.components.formats import clock, counted, day, duration, number
from frontend.components.times import Range, Series, as_time
from frontend.pages.queues.ranges import in_words, is_past
from scheduler.selectors.cluster.rows import Fairness


def _title(name: str, held: list[float], quota: list[float], span_s: float, device: DeviceWord) -> str:
    over = sum(h > q for h, q in zip(held, quota, strict=True))
    if over:
        return f"{name} held more than its quota for about {duration(max(1.0, round(span_s * over / len(held))))}"
    top = round(max(held))
    if not top:
        return f"{name} held nothing"
    return f"{name} held at most {device.counted(top)}, within its quota"


def share_chart(
    *,
    name: str,
    color_slot: int,
    made_at: datetime,
    series: Series,
    range_: Range,
    zone: tzinfo,
    device: DeviceWord,
) -> Chart:
    """Return the stacked area of what was held within the quota and beyond it, with the quota as a dashed line.

    ``made_at`` is when the queue was made: it has no history before.
    """
    times = [as_time(at) for at in series["at"]]
    held = [float(value or 0) for value in series["held_gpus"]]
    quota = [float(value or 0) for value in series["quota_gpus"]]
    within = [round(min(h, q), 2) for h, q in zip(held, quota, strict=True)]
    beyond = [round(max(0.0, h - q), 2) for h, q in zip(held, quota, strict=True)]
    x = [wall(at, zone) for at in times]
    color = f"q{color_slot}"
    figure = None
    if len(times) >= 2:
        top = max(1.0, *held, *quota)
        figure = {
            "data": [
                area("Within quota", x, within, color=color),
                area("Borrowed", x, beyond, color=color, hatch=True),
                line("Quota", x, quota, color="text", width=1.5, dash="dash", shape="hv"),
            ],
            "layout": layout(
                x=time_axis(range_.since, range_.until, zone),
                y={"range": [0, top * 1.1], "tickformat": ",d", "nticks": 4},
            ),
        }
    return Chart(
        id="share",
        title=_title(name, held, quota, (range_.until - range_.since).total_seconds(), device)
        if figure
        else f"No rounds {in_words(range_)}"
        if is_past(range_)
        else f"{name} has no history yet",
        sub=f"{device.many} held, {range_.words}",
        figure=figure,
        empty=f"{name} was made on {day(made_at.astimezone(zone).isoformat())}; its history begins then."
        if is_past(range_)
        else "It appears with the next rounds.",
        legend=(
            LegendEntry(label="within quota", token=color),
            LegendEntry(label="borrowed", token=color, kind="hatch"),
            LegendEntry(label="quota", token="text", kind="dash"),  # noqa: S106  (a colour)
        ),
        table_head=("Time", "Held", "Borrowed", "Quota"),
        table_rows=[
            (clock(times[i], range_.until, zone), number(held[i], 1), number(beyond[i], 1), number(quota[i]))
            for i in range(0, len(times), max(1, len(times) // 24))
        ],
    )


BINS = (0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0)


def _at_one() -> Json:
    """Return the line between the bars on both sides of 1."""
    place = {"xref": "x", "x0": 3.5, "x1": 3.5, "yref": "paper", "y0": 0, "y1": 1}
    return {"type": "line", "line": {"color": token("text"), "width": 1.5, "dash": "dash"}, **place}


def fairness_chart(name: str, color_slot: int, rated: Fairness, range_: Range) -> Chart:
    """Return the histogram of finish-time fairness, with a line at 1; above it a job was worse off than alone."""
    rho, past = [row["rho"] for row in rated["jobs"]], is_past(range_)
    done = "completed" if past else "run now or completed"
    edges = [0.0, *BINS, float("inf")]
    counts = [sum(low <= value < high for value in rho) for low, high in pairwise(edges)]
    labels = [f"under {BINS[0]:g}", *(f"{low:g} to {high:g}" for low, high in pairwise(BINS)), f"{BINS[-1]:g} and more"]
    worse = sum(value > 1.0 for value in rho)
    title = f"{worse} of {counted(len(rho), 'job')} fared worse than alone on an equal share"
    figure = {
        "data": [
            {
                "type": "bar",
                "x": labels,
                "y": counts,
                "marker": {"color": token(f"q{color_slot}")},
                "hovertemplate": "%{y} with \N{GREEK SMALL LETTER RHO} %{x}<extra></extra>",
            }
        ],
        "layout": layout(
            x={
                "type": "category",
                "tickangle": 0,
                "tickvals": [labels[0], labels[4], labels[7], labels[-1]],
                # Short at both ends: on a phone a longer one would reach beyond the chart.
                "ticktext": [f"<{BINS[0]:g}", labels[4], labels[7], f"\u2265{BINS[-1]:g}"],
            },
            y=even_axis(max(counts)),
            bargap=0.25,
            shapes=[_at_one()],
        ),
    }
    return Chart(
        id="fairness",
        title=title
        if rho
        else f"No job of {name} {'completed' if past else 'runs now or completed'} {in_words(range_)}",
        sub=f"Finish-time fairness \N{GREEK SMALL LETTER RHO} of {'the newest ' if rated['is_cut'] else ''}jobs that "
        f"{done} {in_words(range_)}; dashed: 1",
        figure=figure if rho else None,
        empty="Choose another range of time." if past else "It appears when jobs have run for a moment.",
        table_head=("\N{GREEK SMALL LETTER RHO}", "Jobs"),
        table_rows=[(label, number(count)) for label, count in zip(labels, counts, strict=True)],
    )
