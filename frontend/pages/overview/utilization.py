"""The utilization chart of the overview: how many devices were busy, idle, not known, free, drained and broken."""

from collections.abc import Sequence
from datetime import datetime, tzinfo

from frontend.components.charts import (
    Chart,
    Json,
    LegendEntry,
    area,
    count_axis,
    layout,
    line,
    lines,
    note,
    time_axis,
    token,
    wall,
)
from frontend.components.devices import DeviceWord
from frontend.components.formats import clock, duration, number, percent
from frontend.components.times import Range, Series, as_time

PARTS = {
    0.9: "Almost all",
    0.7: "Three quarters",
    0.55: "More than half",
    0.45: "Half",
    0.3: "A third",
    0.22: "A quarter",
}

KINDS = ("busy", "idle", "unknown", "free", "drained", "broken")
SHORT_PARTS = 20  # what lasts for less than this part of the range is no finding


def layers(series: Series) -> dict[str, list[float]]:
    """Return the layers of the utilization chart; together they are all devices."""
    made: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for index in range(len(series["at"])):
        busy, unknown, allocated, total, drained, broken = (
            float(series[name][index] or 0)
            for name in ("busy_gpus", "unknown_gpus", "allocated_gpus", "num_gpus", "drained_gpus", "broken_gpus")
        )
        made["busy"].append(round(min(busy, allocated), 2))
        made["unknown"].append(round(min(unknown, max(0.0, allocated - busy)), 2))
        made["idle"].append(round(max(0.0, allocated - busy - unknown), 2))
        made["drained"].append(drained)
        made["broken"].append(broken)
        made["free"].append(round(max(0.0, total - allocated - drained - broken), 2))
    return made


def utilization_title(parts: dict[str, list[float]], times: Sequence[datetime], device: DeviceWord) -> str:
    """Return the finding: a large free part and for how long, or which part of the devices that take jobs was busy.

    No moment is named: one that has passed reads as if it were to come, and changes with the end of the range.

    How many were held and idle is told where GPU-hours are counted, as starts and stops are known there.
    """
    totals = [sum(values) for values in zip(*parts.values(), strict=True)]
    if not sum(totals):
        return "No device has reported yet"
    free_fracs = [free / total if total else 0.0 for free, total in zip(parts["free"], totals, strict=True)]
    most = max(range(len(free_fracs)), key=lambda index: free_fracs[index])
    least, word = next(((least, word) for least, word in PARTS.items() if free_fracs[most] >= least), (0.0, ""))
    lasts = _top(parts["free"])[1] >= len(times) / SHORT_PARTS
    if word and lasts and most < len(times) - 1 and min(free_fracs) < 0.15:
        step_s = (times[-1] - times[0]).total_seconds() / (len(times) - 1)
        return f"{word} of the cluster was free for {duration(step_s * sum(frac >= least for frac in free_fracs))}"
    drained = sum(parts["drained"])
    usable = sum(totals) - drained - sum(parts["broken"])
    apart = f", {number(drained / len(times))} drained" if round(drained / len(times)) else ""
    if usable <= 0:
        return f"No {device.one} took jobs{apart}"
    return f"{percent(sum(parts['busy']) / usable)} of the {device.many} that take jobs were busy{apart}"


def utilization(*, series: Series, range_: Range, zone: tzinfo, device: DeviceWord) -> Chart:
    """Return the stacked area of busy, idle, unknown, free, drained and broken devices."""
    times = [as_time(at) for at in series["at"]]
    parts = layers(series)
    x = [wall(at, zone) for at in times]
    figure = None
    if len(times) >= 2:
        total = max(sum(values) for values in zip(*parts.values(), strict=True))
        busy = area("Busy", x, parts["busy"], color="u2")
        busy["line"] = {"width": 1.5, "shape": "hv", "color": token("u5")}
        capacity = line("Capacity", x, series["num_gpus"], color="text", width=1.5, shape="hv")
        traces = [
            busy,
            area("Idle", x, parts["idle"], color="u5", hatch=True),
            area("Not known", x, parts["unknown"], color="border-2"),
            area("Free", x, parts["free"], color="sunken"),
            lines("Drained", x, parts["drained"], color="drained"),
            area("Broken", x, parts["broken"], color="bad"),
            capacity,
        ]
        figure = {
            "data": traces,
            "layout": layout(
                x=time_axis(range_.since, range_.until, zone),
                y={**count_axis(total), "range": [0, max(1, round(total)) * 1.03], "showgrid": False},
                annotations=_labels(x, parts, total),
            ),
        }
    return Chart(
        id="utilization",
        title=utilization_title(parts, times, device) if figure else "Utilization appears with the first reports",
        sub=f"{device.many}, {range_.words}",
        figure=figure,
        empty="No device has reported yet.",
        legend=(
            LegendEntry(label="Busy", token="u2"),  # noqa: S106  (a colour)
            LegendEntry(label="Idle, under 5 % use", token="u5", kind="hatch"),  # noqa: S106
            *([LegendEntry(label="Not known", token="border-2")] if any(parts["unknown"]) else []),  # noqa: S106
            LegendEntry(label="Free", token="sunken", kind="hollow"),  # noqa: S106
            LegendEntry(label="Drained", token="drained", kind="lines"),  # noqa: S106
            LegendEntry(label="Broken", token="bad"),  # noqa: S106
        ),
        table_head=("Time", "Busy", "Idle", "Not known", "Free", "Drained", "Broken"),
        table_rows=[
            (
                clock(at, range_.until, zone),
                *(number(parts[kind][index], 1) for kind in KINDS),
            )
            for index, at in list(enumerate(times))[:: max(1, len(times) // 24)]
        ],
    )


def _labels(x: list[str], parts: dict[str, list[float]], total: float) -> list[Json]:
    """Return direct labels where a layer is tall enough to hold one."""
    made = []
    first = max(0, len(x) // 40)
    if parts["busy"][first] > total * 0.2:
        made.append(note("Busy", x[first], parts["busy"][first] / 2, bold=True, xanchor="left", xshift=8))
    middle, length = _top(parts["free"])
    is_roomy = length > len(x) // 12 and len(x) // 12 < middle < len(x) * 11 // 12
    if parts["free"][middle] > total * 0.2 and is_roomy:
        height = total - parts["broken"][middle] - parts["drained"][middle] - parts["free"][middle] / 2
        made.append(note("Free", x[middle], height, color="text-2", bold=True))
    return made


def _top(values: list[float]) -> tuple[int, int]:
    """Return the middle and the length of the longest stretch that is (almost) as high as the highest value."""
    best, start, enough = (0, 0), 0, max(values) * 0.9
    for index, value in enumerate([*values, -1.0]):
        if value < enough:
            best, start = max(best, (index - start, start)), index + 1
    return best[1] + best[0] // 2, best[0]
