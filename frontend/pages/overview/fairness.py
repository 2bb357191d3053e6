"""The fairness chart: rho of each job by queue.

rho is the completion time divided by the time at an equal share (finish-time fairness): above 1 a job is worse off.
Queues are compared by their mean, as in the warning that a queue is beyond the limit.
"""

from math import log10
from statistics import fmean

from frontend.components.charts import Chart, Json, LegendEntry, layout, plain, token
from frontend.components.formats import number, significant
from scheduler.selectors.cluster.rows import Fairness, RatedJob

LEAST_RHO = 0.05
RHO_TICKS = [0.05, 0.1, 0.2, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20, 50, 100]


def _groups(jobs: list[RatedJob]) -> dict[str, list[RatedJob]]:
    """Return the jobs by queue, least mean rho first."""
    groups: dict[str, list[RatedJob]] = {}
    for job in jobs:
        groups.setdefault(job["queue"], []).append(job)
    return dict(sorted(groups.items(), key=lambda item: (_mean(item[1]), item[0])))


def _mean(jobs: list[RatedJob]) -> float:
    return fmean(job["rho"] for job in jobs)


def _traces(row: int, name: str, jobs: list[RatedJob]) -> list[Json]:
    """Return the dots of one queue and the mark at its mean."""
    dots = {
        "type": "scatter",
        "mode": "markers",
        "name": plain(name),
        "x": [round(max(LEAST_RHO, job["rho"]), 3) for job in jobs],
        # Spread by the job's number, so that a job keeps its height from one drawing to the next.
        "y": [row + (((job["number"] or 0) * 7919) % 101 / 101 - 0.5) * 0.5 for job in jobs],
        "text": [plain(f"{job['name']} J-{job['number']}") for job in jobs],
        "hovertemplate": "%{text}<br>\u03c1 %{x}<extra></extra>",
        "marker": {"size": 6, "color": token(f"q{jobs[0].get('color_slot') or 0}"), "opacity": 0.75},
    }
    mark = {
        "type": "scatter",
        "mode": "markers",
        "name": "mean",
        "x": [round(max(LEAST_RHO, _mean(jobs)), 3)],
        "y": [row],
        "hoverinfo": "skip",
        "marker": {"symbol": "line-ns-open", "size": 20, "color": token("text"), "line": {"width": 2}},
    }
    return [dots, mark]


def _range(jobs: list[RatedJob]) -> list[float]:
    """Return the range of the log axis (exponents of ten); 1 is always in it."""
    values = [max(LEAST_RHO, job["rho"]) for job in jobs]
    return [log10(min(0.8, *values)) - 0.06, log10(max(1.3, *values)) + 0.06]


def _short(name: str) -> str:
    return name if len(name) <= 10 else f"{name[:4]}\u2026{name[-4:]}"


def _figure(groups: dict[str, list[RatedJob]], jobs: list[RatedJob]) -> Json:
    line = {"width": 1.5, "color": token("text"), "dash": "dash"}
    return {
        "data": [trace for row, (name, of) in enumerate(groups.items()) for trace in _traces(row, name, of)],
        "layout": layout(
            left=68,
            x={"type": "log", "tickvals": RHO_TICKS, "range": _range(jobs)},
            y={
                "tickvals": list(range(len(groups))),
                "ticktext": [plain(_short(name)) for name in groups],
                "range": [-0.6, len(groups) - 0.4],
                "showgrid": False,
            },
            hovermode="closest",
            shapes=[{"type": "line", "x0": 1, "x1": 1, "yref": "paper", "y0": 0, "y1": 1, "line": line}],
        ),
    }


def _title(groups: dict[str, list[RatedJob]], span: str) -> str:
    if not groups:
        return f"No job runs now or completed in the {span}"
    worst, jobs = list(groups.items())[-1]
    if _mean(jobs) <= 1.005:
        return "Every queue does at least as well as on an equal share"
    return f"{worst} is held back most, mean \u03c1 {significant(_mean(jobs))}"


def fairness_chart(data: Fairness, span: str) -> Chart:
    """Return rho of each job by queue, with the line at 1; ``span`` is the range in words, such as ``last 24 h``."""
    groups = _groups(data["jobs"])
    jain = data["jain_index"]
    newest = f"the newest {number(len(data['jobs']))} of the " if data["is_cut"] else ""
    words = f"\u03c1, completion time against an equal share, of {newest}jobs that run now or completed in the {span}."
    return Chart(
        id="fairness",
        title=_title(groups, span),
        sub=words
        if jain is None
        else f"{words} Over 1 is slower. Jain index {number(jain, 2)} over queues' mean \u03c1: 1 is alike for all.",
        figure=_figure(groups, data["jobs"]) if groups else None,
        empty="It compares each job with an equal share of the cluster.",
        legend=(LegendEntry(label="\u03c1 = 1", token="text", kind="dash"),),  # noqa: S106  (a colour)
        table_head=("Queue", "Jobs", "Mean \u03c1", "Worst \u03c1"),
        table_rows=[
            (name, number(len(jobs)), significant(_mean(jobs)), significant(max(job["rho"] for job in jobs)))
            for name, jobs in groups.items()
        ],
    )
