"""What a queue held against its quota over time."""

from datetime import tzinfo

from frontend.components.charts import Chart, LegendEntry, area, layout, line, time_axis, wall
from frontend.components.devices import DeviceWord
from frontend.components.formats import clock, duration, number
from frontend.components.times import Range, Series, as_time


def _title(name: str, held: list[float], quota: list[float], span_s: float, device: DeviceWord) -> str:
    over = sum(h > q for h, q in zip(held, quota, strict=True))
    if over:
        return f"{name} held more than its quota for about {duration(span_s * over / len(held))}"
    top = round(max(held))
    if not top:
        return f"{name} held nothing"
    return f"{name} held at most {device.counted(top)}, within its quota"


def share_chart(
    *,
    name: str,
    color_slot: int,
    series: Series,
    range_: Range,
    zone: tzinfo,
    device: DeviceWord,
) -> Chart:
    """Return the stacked area of what was held within the quota and beyond it, with the quota as a dashed line."""
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
        else f"{name} has no history yet",
        sub=f"{device.many} held, {range_.words}",
        figure=figure,
        empty="It appears with the next rounds.",
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
