"""Where the GPU-hours went: one bar, the same over time, and the numbers."""

from datetime import tzinfo
from typing import TypedDict

from frontend.components.charts import Chart, area, layout, time_axis, wall
from frontend.components.devices import DeviceWord
from frontend.components.formats import clock, digits_of, duration, number, percent
from frontend.components.times import Range, as_time
from scheduler.core.operations.gpu_hours import KINDS
from scheduler.selectors.cluster.rows import GpuHoursReport

MEASURED_FRAC = 0.98  # of a range: as good as all of it

# Kind to its word, its colour, and what it means.
LOOKS = {
    "useful": ("Useful", "u4", "A device computes for a job."),
    "stalled": ("Stalled", "q2", "The job runs, the device waits: for data, cores or other devices."),
    "reconfigure": ("Starting and saving", "q4", "A job starts, or saves a checkpoint to make room."),
    "lost": ("Lost", "bad", "Computed, then thrown away by a failure or preemption."),
    "idle": ("Held but idle", "q6", "A job holds it and uses less than 5 % of it."),
    "unknown": ("Not known", "border-2", "A job holds it; its server did not say how far it is used."),
    "fragmented": ("Fragmented", "q8", "Free, while a job waits for as many in a better place."),
    "free": ("Free", "sunken", "No job holds it."),
    "drained": ("Drained", "drained", "No job holds it; its server was taken out of use."),
    "broken": ("Broken", "border-ctl", "Out of order, or its server is lost."),
}


class KindLine(TypedDict):
    """One kind of GPU-hours: word, colour, hours, part of the capacity, meaning."""

    label: str
    token: str
    hours: str
    frac: float
    percent: str
    means: str


def hours_chart(found: GpuHoursReport, *, range_: Range, zone: tzinfo, device: DeviceWord) -> Chart:
    """Return the stacked areas of all kinds over time, in devices; together they are the capacity."""
    times = [as_time(at) for at in found["at"]]
    figure = None
    if len(times) >= 2:
        x = [wall(at, zone) for at in times]
        # GPU-hours of a part over its length: how many devices there were of each kind in the mean.
        part_h = found["part_s"] / 3_600
        traces = [
            area(LOOKS[kind][0], x, [round(value / part_h, 2) for value in found["kinds"][kind]], color=LOOKS[kind][1])
            for kind in KINDS
        ]
        figure = {
            "data": traces,
            "layout": layout(x=time_axis(range_.since, range_.until, zone), y={"rangemode": "tozero"}),
        }
    return Chart(
        id="hours",
        title=hours_title(found, device),
        sub=f"{device.many[0].upper()}{device.many[1:]} by kind, coloured as in the table below, {range_.words}",
        figure=figure,
        empty="It appears with the first reports.",
        table_head=("Time", *(LOOKS[kind][0] for kind in KINDS)),
        table_rows=[
            (clock(at, range_.until, zone), *(number(found["kinds"][kind][place], 1) for kind in KINDS))
            for place, at in enumerate(times)
        ],
    )


def measured_words(found: GpuHoursReport, range_: Range) -> str:
    """Return the range, and how much of it was measured where that is not all."""
    asked_h = (range_.until - range_.since).total_seconds() / 3_600
    if found["hours"] >= MEASURED_FRAC * asked_h:
        return range_.words
    return f"{range_.words}, of which {duration(3_600 * found['hours'])} were measured"


def hours_title(found: GpuHoursReport, device: DeviceWord) -> str:
    """Return how much was useful, and where most of the rest went."""
    capacity = found["capacity"]
    if not capacity:
        return f"Where the {device.one}-hours went appears with the first reports"
    parts = {kind: value / capacity for kind, value in found["totals"].items()}
    rest = max((kind for kind in KINDS if kind != "useful"), key=lambda kind: parts[kind])
    title = f"{percent(parts['useful'])} of the {device.one}-hours were useful"
    return title + (f", {percent(parts[rest])} {LOOKS[rest][0].lower()}" if parts[rest] >= 0.005 else "")


def hours_rows(found: GpuHoursReport) -> list[KindLine]:
    """Return one row for each kind; none while nothing was measured."""
    capacity = found["capacity"]
    digits = digits_of(capacity)
    return [
        {
            "label": LOOKS[kind][0],
            "token": LOOKS[kind][1],
            "hours": number(found["totals"][kind], digits),
            "frac": found["totals"][kind] / capacity,
            "percent": percent(found["totals"][kind] / capacity),
            "means": LOOKS[kind][2],
        }
        for kind in KINDS
        if capacity
    ]
