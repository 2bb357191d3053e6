"""Charts of one job: what is plotted and the finding in the title. Pure: series in, ``Chart`` out."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from statistics import median

from frontend.components.charts import (
    DAY_S,
    Chart,
    Json,
    LegendEntry,
    layout,
    level_axis,
    line,
    note,
    time_axis,
    token,
    wall,
)
from frontend.components.formats import clock, data_size, number, percent, significant
from frontend.pages.jobs.charts.shaping import (
    broken,
    smoothed,
    smoothing_weight,
    steps_words,
    stride_of,
    thin,
    with_holes,
)

HEIGHT = 206  # pixels
TABLE_ROWS = 60
NTICKS = {"%H:%M:%S": 4, "%a %H:%M": 6}  # of long texts; 7 of short ones stand side by side in half a page
STEADY_FRAC = 0.05  # changes below this are not worth a headline
FLAT_FRAC = 0.005  # of a loss


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A time in which the job did not train, between two attempts.

    Attributes:
        last_step: Where the attempt before it ended; None when unknown.
        resume_step: Where the attempt after it began; None when unknown or not yet.
        words: Short label, such as ``Preempted 4 min``.
    """

    start: datetime
    end: datetime
    last_step: int | None
    resume_step: int | None
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartScene:
    """What all charts of a job share: the reader's zone, now, the gaps to mark, and whether the job has ended."""

    zone: tzinfo
    now: datetime
    gaps: tuple[Gap, ...]
    is_over: bool = False


def loss_chart(
    steps: Sequence[float], losses: Sequence[float], scene: ChartScene, *, empty: str = "", source: str = ""
) -> Chart:
    """Return loss over steps, raw and smoothed, with what preemptions cost; ``source`` says where it was read."""
    if len(losses) < 2:
        return Chart(id="loss", title="Loss", sub="Loss by step", figure=None, empty=empty)
    points = thin(len(losses))
    x, raw = [steps[i] for i in points], [losses[i] for i in points]
    smooth = smoothed(x, raw)
    log = min(raw) > 0 and max(raw) / min(raw) > 3
    shapes, notes = _step_marks(scene, most=max(*x, 1))
    height = math.log10(smooth[-1]) if log else smooth[-1]
    notes.append(note(significant(raw[-1]), x[-1], height, xanchor="right", yanchor="bottom", yshift=6))
    x_gaps, raw_gaps = broken(x, raw)
    _, smooth_gaps = broken(x, smooth)
    figure: Json = {
        "data": [
            {**line("loss", x_gaps, raw_gaps, color="accent", width=1), "opacity": 0.45},
            line("smoothed", x_gaps, smooth_gaps, color="accent", width=2),
        ],
        "layout": layout(
            height=HEIGHT,
            x=_step_axis(max(x)),
            y=_log_axis(min(raw), max(raw)) if log else level_axis(raw),
            shapes=shapes,
            annotations=notes,
            meta={"weight": smoothing_weight(len(raw)), "stride": stride_of(x)},  # a script goes on with them
        ),
    }
    return Chart(
        id="loss",
        title=_loss_finding(x, raw, smooth, is_over=scene.is_over),
        sub=f"Loss by step{', logarithmic' if log else ''}{f', read from {source}' if source else ''}",
        figure=figure,
        legend=(LegendEntry(label="smoothed", token="accent", kind="line"),),  # noqa: S106  (a colour)
        table_head=("Step", "Loss", "Smoothed"),
        table_rows=_rows(x, raw, smooth),
        height=HEIGHT,
    )


def _rows(x: Sequence[float], raw: Sequence[float], smooth: Sequence[float]) -> list[tuple[str, ...]]:
    stride = max(1, len(x) // TABLE_ROWS)
    rows: list[tuple[str, ...]] = []
    for index in range((len(x) - 1) % stride, len(x), stride):
        rows.append((number(x[index]), significant(raw[index]), significant(smooth[index])))
    return rows


def _loss_finding(x: Sequence[float], raw: Sequence[float], smooth: Sequence[float], *, is_over: bool) -> str:
    """Return the reported value, as all of the page tells it; its course is that of the smoothed line."""
    now = significant(raw[-1])
    begin = max(0, math.floor(len(smooth) * 0.8) - 1)
    before, steps = smooth[begin], x[-1] - x[begin]
    if len(smooth) < 8 or steps <= 0 or before == 0:
        return f"Loss {'was' if is_over else 'is'} {now} at step {number(x[-1])}"
    change = (smooth[-1] - before) / abs(before)
    span = f"in the last {steps_words(steps)} steps"
    if abs(change) < FLAT_FRAC:
        return f"Loss {'was' if is_over else 'has been'} level at {now} {span}"
    found = percent(abs(change), 1 if abs(change) < 0.1 else 0)
    if is_over:
        return f"Loss ended at {now}; smoothed it went {'down' if change < 0 else 'up'} {found} {span}"
    return f"Loss is {'still falling' if change < 0 else 'rising'}, {found} {span}"


def _wall_axis(since: datetime, until: datetime, zone: tzinfo) -> Json:
    """Return a time axis with as many values as stand side by side in half a page, also while a script extends it."""
    axis = time_axis(since, until, zone)
    if axis["dtick"] < DAY_S * 1000:  # Plotly may choose others; of days it would choose halves, named twice
        del axis["dtick"]
    return {**axis, "nticks": NTICKS.get(axis["tickformat"], 7), "tickangle": 0}


def _step_axis(most: float) -> Json:
    """Return an axis of steps from 0 with about six round values; it goes on beyond ``most`` for what still comes."""
    rough = max(1, most / 6)
    size = 10 ** math.floor(math.log10(rough))
    stride = max(1, next(digit * size for digit in (1, 2, 5, 10) if digit * size >= rough))
    ticks = [index * stride for index in range(40)]
    return {"tickvals": ticks, "ticktext": [steps_words(tick) for tick in ticks], "range": [0, most * 1.005]}


def _log_axis(low: float, high: float) -> Json:
    """Return a logarithmic axis with a handful of round values."""
    decades = math.log10(high / low)
    steps = (1, 1.2, 1.5, 2, 3, 4, 5, 7) if decades < 0.7 else (1, 2, 5) if decades < 2.5 else (1,)
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    ticks = [digit * 10.0**power for power in range(first, last + 1) for digit in steps]
    ticks = [tick for tick in ticks if low * 0.98 <= tick <= high * 1.02]
    while len(ticks) > 6:
        ticks = ticks[::2]
    return {"type": "log", "tickvals": ticks, "ticktext": [f"{tick:.6g}" for tick in ticks]}


def _step_marks(scene: ChartScene, *, most: float) -> tuple[list[Json], list[Json]]:
    """Return a band over the steps that a gap made the job do twice, at least a hair wide, with its label."""
    shapes: list[Json] = []
    notes: list[Json] = []
    for gap in scene.gaps:
        if gap.last_step is None:
            continue
        begin = min(gap.resume_step, gap.last_step) if gap.resume_step is not None else gap.last_step
        end = max(gap.last_step, begin + most * 0.006)
        shapes.append(_band(begin, end, opacity=0.4))
        notes.append(_band_note(gap.words, begin, end, most))
    return shapes, notes[-1:]  # one label: several would lie on each other


def _band(begin: object, end: object, *, opacity: float) -> Json:
    place = {"type": "rect", "xref": "x", "yref": "paper", "x0": begin, "x1": end, "y0": 0, "y1": 1}
    return {**place, "fillcolor": token("warn"), "opacity": opacity, "line": {"width": 0}, "layer": "below"}


def _band_note(words: str, begin: float, end: float, most: float) -> Json:
    """Return the label of a band, on the side of it that has room."""
    at, anchor, shift = (end, "left", 4) if end < most * 0.6 else (begin, "right", -4)
    return note(
        words, at, 1, color="warn", bgcolor=token("surface"), yref="paper", xanchor=anchor, yanchor="top", xshift=shift
    )


def rate_chart(at: Sequence[datetime], rates: Sequence[float | None], scene: ChartScene, *, empty: str) -> Chart:
    """Return mini-batches a second over time, with the times it did not train."""
    known = [rate for rate in rates if rate is not None]
    if len(known) < 2:
        return Chart(id="rate", title="Throughput", sub="Steps a second", figure=None, empty=empty)
    chart = _time_chart(
        "rate", at, rates, scene, title=_rate_finding(known), sub="Steps a second", unit=significant, color="accent"
    )
    return chart


def _rate_finding(known: Sequence[float]) -> str:
    now, usual = median(known[-5:]), median(known)
    if usual <= 0 or abs(now - usual) / usual < STEADY_FRAC:
        return f"Steady at {significant(usual)} steps/s"
    verb = "Faster" if now > usual else "Slower"
    return f"{verb} now, {significant(now)} against {significant(usual)} steps/s"


def frac_chart(
    key: str, label: str, at: Sequence[datetime], values: Sequence[float | None], scene: ChartScene
) -> Chart:
    """Return a share (0 to 1, in per cent) over time."""
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return Chart(id=key, title=label, sub="Per cent", figure=None)
    title = f"{label} is {percent(median(known[-5:]))}, median {percent(median(known))}"
    most = max(1.0, *known)
    ticks = [0, 0.25, 0.5, 0.75, 1]
    axis: Json = {"range": [0, most * 1.04], "tickvals": ticks, "ticktext": [percent(tick) for tick in ticks]}
    return _time_chart(
        key, at, values, scene, title=title, sub="Of what it was given", unit=percent, color="u4", y=axis, height=HEIGHT
    )


def memory_chart(
    at: Sequence[datetime], values: Sequence[float | None], scene: ChartScene, *, granted: int | None
) -> Chart:
    """Return the memory of the whole process tree over time, with what the job was given as a line."""
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return Chart(id="memory", title="Memory", sub="Of the process tree", figure=None)
    scale, unit = (2**30, "GiB") if max(known) >= 2**30 else (2**20, "MiB")
    scaled = [None if value is None else value / scale for value in values]
    title = f"Memory reached {data_size(max(known))}"
    title += f" of {data_size(granted)}" if granted else ""
    shapes = []
    if granted and max(known) > granted * 0.4:
        place = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": granted / scale, "y1": granted / scale}
        shapes.append({**place, "line": {"color": token("text"), "width": 1.5, "dash": "dash"}})
    return _time_chart(
        "memory",
        at,
        scaled,
        scene,
        title=title,
        sub=f"{unit} of the process tree" + (", the dashed line is what it was given" if shapes else ""),
        unit=significant,
        color="u4",
        y={"rangemode": "tozero"},
        height=HEIGHT,
        shapes=shapes,
        scale=scale,
    )


def _time_chart(
    key: str,
    at: Sequence[datetime],
    values: Sequence[float | None],
    scene: ChartScene,
    *,
    title: str,
    sub: str,
    unit: Callable[[float | None], str],
    color: str,
    y: Json | None = None,
    height: int = HEIGHT,
    shapes: Sequence[Json] = (),
    scale: float = 1.0,
) -> Chart:
    """Return one line over time; a stretch without samples is a gap, not a slope."""
    kept = thin(len(at))
    xs, ys = with_holes(
        [at[i] for i in kept], [values[i] for i in kept], scene.zone, stops=[gap.start for gap in scene.gaps]
    )
    since, until = at[0], max(at[-1], at[0])
    marks = [_band(wall(gap.start, scene.zone), wall(gap.end, scene.zone), opacity=0.2) for gap in scene.gaps]
    figure: Json = {
        "data": [line(title.split(" ")[0], xs, ys, color=color, width=1.5)],
        "layout": layout(
            height=height,
            left=44,
            x=_wall_axis(since, until, scene.zone),
            y=y or {"rangemode": "tozero"},
            shapes=[*marks, *shapes],
            meta={"scale": scale},
        ),
    }
    stride = max(1, len(at) // TABLE_ROWS)
    rows = [(clock(at[i], scene.now, scene.zone), unit(values[i])) for i in range(len(at) - 1, -1, -stride)][::-1]
    return Chart(
        id=key,
        title=title,
        sub=sub,
        figure=figure,
        table_head=("Time", sub),
        table_rows=[row for row in rows if row[1]],
        height=height,
    )
