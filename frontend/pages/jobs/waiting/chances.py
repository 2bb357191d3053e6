"""The chance that a waiting job has started by a time, over simulated futures, and what frees GPUs next."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from frontend.components.charts import Chart, Json, layout, time_axis, token, wall
from frontend.components.formats import clock, counted, percent
from frontend.components.times import as_time, as_time_or_none
from frontend.pages.jobs.subject import Subject
from frontend.pages.jobs.waiting.estimate import EstimateView
from scheduler.selectors.cluster.next_free import NextFreeRow, next_free
from scheduler.selectors.jobs.estimates import start_course

LEAST_FUTURES = 3  # fewer starts make no curve
NEXT_MOST = 5
HEIGHT = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class NextEvent:
    """One server that frees GPUs: when, the finding, and what of it."""

    at: str
    finding: str
    detail: str


def chance_chart(subject: Subject, estimate: EstimateView | None) -> Chart | None:
    """Return the curve of the chance that the job has started; None where nothing is known."""
    course = start_course(subject.job)
    if estimate is None or course is None or len(course["starts_s"]) < LEAST_FUTURES:
        return None
    made_at = as_time(course["made_at"])
    times = [made_at, *(made_at + timedelta(seconds=after_s) for after_s in course["starts_s"])]
    shares = [100 * index / course["futures"] for index in range(len(times))]
    return Chart(
        id="chance",
        title=estimate.title,
        sub=f"Chance that it has started, {counted(course['futures'], 'simulated future')}",
        figure=_figure(times, shares, subject),
        table_head=("By", "Chance"),
        table_rows=[
            (clock(at, subject.at, subject.zone), percent(share / 100))
            for at, share in list(zip(times, shares, strict=True))[:: max(1, len(times) // 20)]
        ],
        height=HEIGHT,
    )


def _figure(times: Sequence[datetime], shares: Sequence[float], subject: Subject) -> Json:
    x = [wall(at, subject.zone) for at in times]
    marks = [
        (at, share) for at, share in ((_at(shares, times, 50.0), 50), (_at(shares, times, 90.0), 90)) if at is not None
    ]
    curve = {
        "type": "scatter",
        "mode": "lines",
        "name": "has started",
        "x": x,
        "y": [round(share, 1) for share in shares],
        "line": {"width": 2.5, "shape": "hv", "color": token("accent")},
        "fill": "tozeroy",
        "fillcolor": token("accent-soft"),
    }
    points = {
        "type": "scatter",
        "mode": "markers",
        "name": "1 in 2 and 9 in 10",
        "x": [wall(at, subject.zone) for at, _ in marks],
        "y": [share for _, share in marks],
        "marker": {"size": 9, "color": token("surface"), "line": {"width": 2, "color": token("accent")}},
        "hoverinfo": "skip",
        "cliponaxis": False,
    }
    ticks = [0, 25, 50, 75, 100]
    return {
        "data": [curve, points],
        "layout": layout(
            height=HEIGHT,
            left=44,
            x=time_axis(times[0], times[-1], subject.zone),
            y={"range": [0, 103], "tickvals": ticks, "ticktext": [f"{tick} %" for tick in ticks]},
        ),
    }


def _at(shares: Sequence[float], times: Sequence[datetime], least: float) -> datetime | None:
    return next((at for at, share in zip(times, shares, strict=True) if share >= least), None)


def next_events(subject: Subject) -> tuple[str, list[NextEvent]]:
    """Return what frees GPUs next, soonest first, with a title that names the first server that could hold the job."""
    device, needed = subject.device, subject.job.num_gpus
    servers = next_free(subject.request.user, subject.at)
    rows = [row for row in servers if row["first_at"] and row["free_gpus"] < needed]
    rows.sort(key=lambda row: row["first_at"] or "")
    fitting = sorted(
        (row for row in rows if row["num_gpus"] >= needed and row["whole_at"]), key=lambda row: row["whole_at"] or ""
    )
    if fitting:
        title = f"{fitting[0]['server']} is the first whole server that fits"
    elif rows and all(row["num_gpus"] < needed for row in servers):
        title = f"{device.counted(needed)} take several servers"
    elif rows:
        title = "No server says when it is wholly free"
    else:
        title = f"Nothing says when {device.many} are free"
    return title, [_event(row, subject) for row in rows[:NEXT_MOST]]


def _event(row: NextFreeRow, subject: Subject) -> NextEvent:
    first, whole = as_time_or_none(row["first_at"]), as_time_or_none(row["whole_at"])
    all_of_it = f"All {subject.device.counted(row['num_gpus'])} about {_clock(whole, subject)}" if whole else ""
    last = row["last_job"]
    return NextEvent(
        at=f"about {_clock(first, subject)}" if first else "",
        finding=f"A job on {row['server']} ends.",
        detail=f"{all_of_it}, when {last['name']} ends." if whole and last else "When all of it is free is not known.",
    )


def _clock(at: datetime | None, subject: Subject) -> str:
    return clock(at, subject.at, subject.zone) if at else ""
