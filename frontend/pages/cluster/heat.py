"""Heat maps of utilization: one row for each device or server, time from left to right."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo

from frontend.components.charts import Chart, layout, plain, time_axis, token, wall
from frontend.components.formats import percent
from frontend.components.times import Range, Series, as_time

LABEL_CHARS = 10
BUCKETS = 90
SCALE = [[edge, token(f"u{step}")] for step in range(7) for edge in (step / 7, (step + 1) / 7)]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatRow:
    """One row: its name and the mean utilization in each bucket, None where nothing was measured."""

    name: str
    fracs: list[float | None]
    takes_jobs: bool = True  # one that is drained or lost is idle because it has to be

    @property
    def mean(self) -> float | None:
        """Return the mean over the buckets that were measured."""
        known = [frac for frac in self.fracs if frac is not None]
        return sum(known) / len(known) if known else None


def bucketed(at: Sequence[str], values: Sequence[float | None], *, range_: Range) -> list[float | None]:
    """Return means of the values in equal parts of [since, until)."""
    width_s = (range_.until - range_.since).total_seconds() / BUCKETS
    sums = [(0.0, 0)] * BUCKETS
    for moment, value in zip(at, values, strict=True):
        index = int((as_time(moment) - range_.since).total_seconds() / width_s)
        if value is not None and 0 <= index < BUCKETS:
            total, count = sums[index]
            sums[index] = (total + value, count + 1)
    return [round(total / count, 3) if count else None for total, count in sums]


def device_rows(series: Series, *, word: str, count: int, range_: Range) -> list[HeatRow]:
    """Return one row for each device of one server."""
    lists = [values or [] for values in series["gpu_frac"]]
    return [
        HeatRow(
            name=f"{word} {index}",
            fracs=bucketed(
                series["at"],
                [values[index] if index < len(values) else None for values in lists],
                range_=range_,
            ),
        )
        for index in range(count)
    ]


def server_row(name: str, series: Series, *, takes_jobs: bool, range_: Range) -> HeatRow:
    """Return the row of one server: the mean over its devices."""
    means = []
    for values in series["gpu_frac"]:
        known = [value for value in values or [] if value is not None]
        means.append(sum(known) / len(known) if known else None)
    return HeatRow(name=name, fracs=bucketed(series["at"], means, range_=range_), takes_jobs=takes_jobs)


def heat_chart(*, id_: str, rows: list[HeatRow], title: str, sub: str, range_: Range, zone: tzinfo) -> Chart:
    """Return the heat map with the first row on top."""
    rows = [row for row in rows if row.mean is not None]
    width = (range_.until - range_.since) / BUCKETS
    times = [range_.since + width * index for index in range(BUCKETS)]
    row_px = 30 if len(rows) <= 4 else 18 if len(rows) <= 8 else 13
    height = row_px * len(rows) + 40
    figure = None
    if rows:
        figure = {
            "data": [
                {
                    "type": "heatmap",
                    "x": [wall(at, zone) for at in times],
                    "y": list(range(len(rows))),
                    "z": [row.fracs for row in rows],
                    "text": [[plain(row.name)] * BUCKETS for row in rows],
                    "colorscale": SCALE,
                    "zmin": 0,
                    "zmax": 1,
                    "ygap": 1.5,
                    "xgap": 0,
                    "showscale": False,
                    "hoverongaps": False,
                    "hovertemplate": "%{text}, %{x|%H:%M}: %{z:.0%}<extra></extra>",
                }
            ],
            "layout": layout(
                height=height,
                left=72,
                x=time_axis(range_.since, range_.until, zone),
                y={
                    "tickvals": list(range(len(rows))),
                    "ticktext": [plain(_short(row.name)) for row in rows],
                    "autorange": "reversed",
                    "showgrid": False,
                },
                hovermode="closest",
            ),
        }
    return Chart(
        id=id_,
        title=title,
        sub=sub,
        figure=figure,
        empty="It appears with the first reports.",
        table_head=("", "Mean", "Lowest", "Highest"),
        table_rows=[_summary(row) for row in rows],
        height=height,
    )


def _short(name: str) -> str:
    """Return a label that fits beside the map: the end of a long name, by which servers differ."""
    return name if len(name) <= LABEL_CHARS else f"…{name[1 - LABEL_CHARS :]}"


def _summary(row: HeatRow) -> tuple[str, str, str, str]:
    known = [frac for frac in row.fracs if frac is not None]
    return row.name, percent(row.mean), percent(min(known)), percent(max(known))


def lowest_title(rows: list[HeatRow], *, what: str) -> str:
    """Return the finding of a heat map: the row that was used least, of those that take jobs."""
    known = [(row.mean, row.name) for row in rows if row.mean is not None and row.takes_jobs]
    if not known:
        return "Nothing measured yet"
    mean, name = min(known)
    if len(known) == 1 or mean >= 0.5:
        overall = sum(value for value, _ in known) / len(known)
        return f"{what} are {percent(overall)} used"
    return f"{name} is used least, {percent(mean)}"
