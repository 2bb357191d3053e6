"""The chance that a waiting job has started by a time, over simulated futures."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from frontend.components.charts import Chart, Json, layout, note, time_axis, token, wall
from frontend.components.formats import clock, counted, percent
from frontend.components.times import as_time, as_time_or_none
from frontend.pages.jobs.subject import Subject
from frontend.pages.jobs.waiting.estimate import EstimateView
from scheduler.selectors.jobs.estimates import start_course

LEAST_FUTURES = 3  # fewer starts make no curve
HEIGHT, NARROW_HEIGHT = 190, 132
# A second time so far beyond the last future would press the curve together: it is told, not drawn.
STRETCHED_MOST = 2.0
NEAR = timedelta(minutes=1)  # times are told in minutes
# A label is right of its point up to here, of the width, else left of it.
LABEL_RIGHT_FRAC = 0.5
# Percent at the top of the chart where none, one or both points have their words above the curve, a line each.
TOPS = (103, 118, 132)
LINE_PX = 14
Point = tuple[datetime, int]  # time and chance


def chance_chart(subject: Subject, estimate: EstimateView | None) -> Chart | None:
    """Return the curve of the chance that the job has started; None where nothing is known."""
    course = start_course(subject.job)
    if estimate is None or course is None or len(course["starts_s"]) < LEAST_FUTURES:
        return None
    made_at = as_time(course["made_at"])
    times = [made_at, *(made_at + timedelta(seconds=after_s) for after_s in course["starts_s"])]
    shares = [100 * index / course["futures"] for index in range(len(times))]
    points = _points(subject, times, shares)
    told = [] if any(share == 90 for _, share in points) else [estimate.late.rstrip(".")]
    if 50 in _off(times, shares, points):
        told.append("The first time rests on earlier rounds too")
    return Chart(
        id="chance",
        title=estimate.title,
        side=estimate.starts_in,
        sub=". ".join([f"Chance that it has started, {counted(course['futures'], 'simulated future')}", *told]),
        foot=estimate.basis,
        figure=_figure(times, shares, points, subject),
        table_head=("By", "Chance"),
        table_rows=[
            (clock(at, subject.at, subject.zone), percent(share / 100))
            for at, share in list(zip(times, shares, strict=True))[:: max(1, len(times) // 20)]
        ],
        height=HEIGHT,
    )


def _points(subject: Subject, times: Sequence[datetime], shares: Sequence[float]) -> list[Point]:
    """Return when half and nine in ten have started, as the estimate says: it may lie off the curve of one round."""
    found = subject.explain["estimate"]
    told = [(as_time_or_none(found["p50_at"]), 50), (as_time_or_none(found["p90_at"]), 90)] if found else []
    until = times[0] + STRETCHED_MOST * (times[-1] - times[0])
    return [(at, share) for at, share in told if at is not None and times[0] <= at <= until]


def _off(times: Sequence[datetime], shares: Sequence[float], points: Sequence[Point]) -> list[int]:
    """Return the chances of the points that do not lie on the curve."""
    on = {share: _at(shares, times, share) for _, share in points}
    return [share for at, share in points if (there := on[share]) is None or abs(at - there) > NEAR]


def _figure(times: Sequence[datetime], shares: Sequence[float], points: Sequence[Point], subject: Subject) -> Json:
    until = max([times[-1], *(at for at, _ in points)])
    curve = {
        "type": "scatter",
        "mode": "lines",
        "name": "has started",
        "x": [wall(at, subject.zone) for at in (*times, until)],
        "y": [round(share, 1) for share in (*shares, shares[-1])],
        "line": {"width": 2.5, "shape": "hv", "color": token("accent")},
        "fill": "tozeroy",
        "fillcolor": token("accent-soft"),
    }
    markers = {
        "type": "scatter",
        "mode": "markers",
        "name": "1 in 2 and 9 in 10",
        "x": [wall(at, subject.zone) for at, _ in points],
        "y": [share for _, share in points],
        "marker": {"size": 9, "color": token("surface"), "line": {"width": 2, "color": token("accent")}},
        "hoverinfo": "skip",
        "cliponaxis": False,
    }
    span = (until - times[0]) or timedelta(seconds=1)
    above = _off(times, shares, points)
    ticks = [0, 25, 50, 75, 100]
    return {
        "data": [curve, markers],
        "layout": layout(
            height=HEIGHT,
            left=44,
            x=time_axis(times[0], until, subject.zone),
            y={"range": [0, TOPS[len(above)]], "tickvals": ticks, "ticktext": [f"{tick} %" for tick in ticks]},
            annotations=[
                _label(subject, at, share, (at - times[0]) / span, line=above.index(share) + 1 if share in above else 0)
                for at, share in points
            ],
            shapes=[_down(wall(at, subject.zone), share) for at, share in points],
            meta={"narrow": {"height": NARROW_HEIGHT, "ticks": [0, 2, 4]}},
        ),
    }


def _label(subject: Subject, at: datetime, share: int, frac: float, *, line: int) -> Json:
    """Return the words of a point: right of it below the curve, left of it above, or above all where it lies off it.

    ``line`` is that of the words above all, from 1; 0 for a point on the curve.
    """
    is_right, is_above = frac < LABEL_RIGHT_FRAC, line > 0
    words = "1 in 2" if share == 50 else "9 in 10"
    label = note("", wall(at, subject.zone), 100 if is_above else share)
    return {
        **label,
        "text": f"{words} by <b>{clock(at, subject.at, subject.zone)}</b>",
        "xanchor": "left" if is_right else "right",
        "yanchor": "bottom" if is_above else "middle",
        "xshift": 0 if is_above else 9 if is_right else -9,
        "yshift": LINE_PX * (line - 1) if is_above else -10 if is_right else 2,
    }


def _down(x: str, share: int) -> Json:
    """Return the line from a point to the time below it."""
    line = {"width": 1, "dash": "dash", "color": token("text-3")}
    return {"type": "line", "x0": x, "x1": x, "y0": 0, "y1": share, "line": line, "layer": "above"}


def _at(shares: Sequence[float], times: Sequence[datetime], least: float) -> datetime | None:
    return next((at for at, share in zip(times, shares, strict=True) if share >= least), None)
