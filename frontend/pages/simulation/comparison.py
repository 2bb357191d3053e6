"""Charts that show all arms together: completion times, waits, fairness, use of the GPU time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from frontend.components.charts import Chart, Json, LegendEntry, layout, line, plain, token
from frontend.components.formats import duration, number, percent, significant
from frontend.pages.simulation.scales import log_time_axis
from scheduler.core.operations.metrics import has_percentile
from scheduler.simulator.report.curves import Curve, JobGroup
from scheduler.simulator.report.figures import Figures

# Shorter waits are drawn as this long: a log scale has no 0.
_LEAST_WAIT_S = 60.0
TOO_FEW = "too few jobs"  # for a percentile
_DASHES = ("dash", "dot", "dashdot", "longdash")
_SHARES: Json = {"tickvals": [0, 0.25, 0.5, 0.75, 1], "ticktext": ["0 %", "25 %", "50 %", "75 %", "100 %"]}
_TABLE_RANKS = (0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stroke:
    """How an arm is drawn: the baseline in text colour, the chosen arm in the accent, the others dashed."""

    color: str
    width: float
    dash: str = "solid"
    kind: str = "line"


def strokes(count: int, chosen: int) -> list[Stroke]:
    """Return one stroke for each arm."""
    dashes = iter(_DASHES * count)
    return [
        Stroke(color="text", width=2.25)
        if arm == 0
        else Stroke(color="accent", width=2.5)
        if arm == chosen
        else _dashed(next(dashes))
        for arm in range(count)
    ]


def _dashed(dash: str) -> Stroke:
    return Stroke(color="text-3", width=1.5, dash=dash, kind=dash)


def legend(names: Sequence[str], drawn: Sequence[Stroke]) -> tuple[LegendEntry, ...]:
    """Return the legend of a card; empty for one arm."""
    if len(names) < 2:
        return ()
    return tuple(
        LegendEntry(label=name, token=one.color, kind=one.kind) for name, one in zip(names, drawn, strict=True)
    )


def jct_chart(results: Sequence[Figures], names: Sequence[str], drawn: Sequence[Stroke]) -> Chart:
    """Return the share of jobs completed by completion time."""
    curves = [result.jct for result in results]
    medians = [result.summary["p50_jct_s"] for result in results]
    ended = [at for at, curve in enumerate(curves) if len(curve.value)]
    return _distribution(
        id="jct",
        title=half_by([medians[at] for at in ended], [names[at] for at in ended], of_all=len(results)),
        sub="Share of finished jobs by completion time, log scale",
        curves=curves,
        names=names,
        drawn=drawn,
        x=log_time_axis(*_span(curves)),
        write=duration,
        head="Completed",
    )


def half_by(medians: Sequence[float], names: Sequence[str], *, of_all: int) -> str:
    """Return by when half of the jobs end, of the variants under which any does."""
    if not medians:
        return "No job has ended"
    if of_all == 1:
        return f"Half of all jobs end within {duration(medians[0])}"
    fastest = int(np.nanargmin(medians)) if any(np.isfinite(medians)) else 0
    others = f", {duration(medians[0])} under {names[0]}" if fastest else ""
    return f"Half of all jobs end within {duration(medians[fastest])} under {names[fastest]}{others}"


def rho_chart(results: Sequence[Figures], names: Sequence[str], drawn: Sequence[Stroke]) -> Chart:
    """Return the distribution of finish-time fairness."""
    curves = [result.rho for result in results]
    worst = [result.summary["p99_rho"] for result in results]
    best = int(np.argmin(worst))
    rare = has_percentile(min(result.summary["finished"] for result in results), 0.99)
    said = "1 in 100 jobs takes over" if rare else "The worst-off job takes"
    title = f"{said} {significant(worst[best])} times as long as on its own share"
    if len(results) > 1:
        title += f" under {names[best]}" + (f", {significant(worst[0])} under {names[0]}" if best else "")
    low, high = _span(curves)
    ticks = [value for value in (0.01, 0.1, 1, 10, 100, 1_000, 10_000) if low / 10 <= value <= high * 10]
    x: Json = {
        "type": "log",
        "range": [np.log10(max(1e-3, low)), np.log10(max(high, 2.0, low * 2))],
        "showgrid": True,
        "gridcolor": token("grid"),
        "tickvals": ticks,
        "ticktext": [number(value) if value >= 1 else f"{value:g}" for value in ticks],
    }
    made = _distribution(
        id="rho",
        title=title,
        sub="Share of finished jobs by rho (completion time over that on an exclusive share), log scale",
        curves=curves,
        names=names,
        drawn=drawn,
        x=x,
        write=significant,
        head="rho",
    )
    if made.figure is not None:
        made.figure["layout"]["shapes"] = [
            {
                "type": "line",
                "x0": 1,
                "x1": 1,
                "y0": 0,
                "y1": 1,
                "yref": "paper",
                "line": {"color": token("border-ctl"), "width": 1.5, "dash": "dash"},
            }
        ]
    return made


def wait_chart(results: Sequence[Figures], names: Sequence[str], drawn: Sequence[Stroke]) -> Chart:
    """Return the waits by size of the gang."""
    found = [result.gangs for result in results]
    labels = sorted({gang.label for gangs in found for gang in gangs}, key=lambda text: int(text.split("-")[-1]))
    traces: list[Json] = []
    rows: list[tuple[str, ...]] = []
    for name, one, gangs in zip(names, drawn, found, strict=True):
        waits = {gang.label: gang for gang in gangs}
        known = [label for label in labels if label in waits]
        told = [label for label in known if has_percentile(waits[label].jobs, 0.9)]
        trace = line(
            name,
            told,
            [max(_LEAST_WAIT_S, waits[label].p90_s) for label in told],
            color=one.color,
            width=one.width,
            dash=one.dash,
        )
        trace |= {"mode": "lines+markers", "marker": {"size": 6, "color": token(one.color)}}
        trace |= {"text": [duration(waits[label].p90_s) for label in told], "hovertemplate": "%{text}"}
        traces.append(trace)
        rows += [
            (
                f"{name}: {label} {'GPU' if label == '1' else 'GPUs'}",
                number(waits[label].jobs),
                *waits_said(waits[label]),
            )
            for label in known
        ]
    told_of = [[gang for gang in gangs if has_percentile(gang.jobs, 0.9)] for gangs in found]
    longest = max((gang.p90_s for gangs in told_of for gang in gangs), default=0.0)
    widest = told_of[0][-1] if told_of[0] else None
    unit = "GPU" if widest and widest.label == "1" else "GPUs"
    title = (
        f"1 in 10 jobs of {widest.label} {unit} waits longer than {duration(widest.p90_s)}"
        if widest
        else "Too few jobs of each size to say how long 1 in 10 waits"
        if found[0]
        else "No job finished"
    )
    if widest and all(gang.p90_s < _LEAST_WAIT_S for gangs in found for gang in gangs):
        title = "9 in 10 jobs of every size wait less than a minute"
    elif widest and len(results) > 1:
        title += f" under {names[0]}"
    y: Json = log_time_axis(_LEAST_WAIT_S, max(3_600.0, longest * 1.2)) | {"showline": False}
    return Chart(
        id="waits",
        title=title,
        sub="Time without GPUs, 90th percentile, by GPUs asked for, log scale from 1 min",
        figure={
            "data": traces,
            "layout": layout(height=238, left=50, x={"type": "category", "categoryarray": labels}, y=y),
        }
        if any(told_of)
        else None,
        empty="Too few jobs of each size: a 90th percentile takes ten." if labels else "No job finished.",
        legend=legend(names, drawn),
        table_head=("Arm and GPUs", "Jobs", "p50", "p90"),
        table_rows=rows,
        height=238,
    )


def waits_said(group: JobGroup) -> tuple[str, str]:
    """Return the 50th and the 90th percentile of the waits of some jobs, or that these are too few for it."""
    p50, p90 = (
        duration(value) if has_percentile(group.jobs, rank) else TOO_FEW
        for value, rank in ((group.p50_s, 0.5), (group.p90_s, 0.9))
    )
    return p50, p90


def use_chart(results: Sequence[Figures], names: Sequence[str]) -> Chart:
    """Return the use of the GPU time; a tick marks the useful part, which may lie beyond the bar."""
    allocated = [result.summary["avg_gpu_occupancy"] for result in results]
    useful = [result.summary["avg_useful_gpu"] for result in results]
    best = max(range(len(results)), key=lambda arm: useful[arm])
    order = list(reversed(range(len(results))))
    labels = [plain(names[arm]) for arm in order]
    free = [max(0.0, 1.0 - share) for share in allocated]
    ticks: Json = {
        "type": "scatter",
        "mode": "markers",
        "name": "useful",
        "y": labels,
        "x": [round(useful[arm], 4) for arm in order],
        "marker": {"symbol": "line-ns", "size": 22, "line": {"color": token("text"), "width": 2.5}},
        "hovertemplate": "useful %{x:.1%}<extra></extra>",
    }
    height = 64 + 34 * len(results)
    more = {"barmode": "stack", "bargap": 0.3, "hovermode": "closest"}
    x: Json = {"range": [0, max(1.0, *useful) * 1.01], "showline": False, **_SHARES}
    figure = {
        "data": [
            _bars("allocated", allocated, "u2", labels, order),
            _bars("free", free, "sunken", labels, order),
            ticks,
        ],
        "layout": layout(height=height, left=50, x=x, y={"showgrid": False, "automargin": True, "dtick": 1}, **more),
    }
    columns = zip(names, allocated, useful, free, strict=True)
    return Chart(
        id="use",
        title=f"{percent(useful[best])} of the GPU time is useful"
        + (f" under {names[best]}" if len(results) > 1 else ""),
        sub="GPU time from the begin of the replay to the last completion; useful is each GPU at the speed of its job",
        figure=figure,
        legend=(_entry("allocated", "u2"), _entry("free", "sunken", "hollow"), _entry("useful", "text", "tick")),
        table_head=("Arm", "Allocated", "Useful", "Free"),
        table_rows=[(name, *(percent(value, 1) for value in values)) for name, *values in columns],
        height=height,
    )


def _bars(label: str, shares: Sequence[float], color: str, labels: Sequence[str], order: Sequence[int]) -> Json:
    return {
        "type": "bar",
        "orientation": "h",
        "name": label,
        "y": list(labels),
        "x": [round(shares[arm], 4) for arm in order],
        "marker": {"color": token(color), "line": {"color": token("surface"), "width": 1}},
        "text": [percent(shares[arm]) if shares[arm] >= 0.06 else "" for arm in order],
        "textposition": "inside",
        "insidetextanchor": "start" if label == "allocated" else "end",
        "textangle": 0,
        "insidetextfont": {"size": 11, "color": token("text")},
        "hovertemplate": f"{label} %{{x:.1%}}<extra></extra>",
    }


def _entry(label: str, color: str, kind: str = "") -> LegendEntry:
    return LegendEntry(label=label, token=color, kind=kind)


def _span(curves: Sequence[Curve]) -> tuple[float, float]:
    values = [found.value for found in curves if len(found.value)]
    if not values:
        return 1.0, 10.0
    positive = [float(value[value > 0][0]) for value in values if (value > 0).any()]
    return min(positive, default=1.0), max(float(value[-1]) for value in values)


def _distribution(
    *,
    id: str,
    title: str,
    sub: str,
    curves: Sequence[Curve],
    names: Sequence[str],
    drawn: Sequence[Stroke],
    x: Json,
    write: Callable[[float], str],
    head: str,
) -> Chart:
    traces = []
    for name, one, found in zip(names, drawn, curves, strict=True):
        trace = line(name, found.value.tolist(), found.share.tolist(), color=one.color, width=one.width, dash=one.dash)
        trace["text"] = [
            f"{write(value)}: {percent(share)}"
            for value, share in zip(found.value.tolist(), found.share.tolist(), strict=True)
        ]
        trace["hovertemplate"] = "%{text}"
        traces.append(trace)
    rows = [
        (percent(rank), *(write(_at(found, rank)) if len(found.value) else "none" for found in curves))
        for rank in _TABLE_RANKS
    ]
    y: Json = {
        "range": [0, 1.01],
        **_SHARES,
    }
    drawable = any(len(found.value) for found in curves)
    return Chart(
        id=id,
        title=title,
        sub=sub,
        figure={"data": traces, "layout": layout(height=238, left=44, x=x, y=y, hovermode="closest")}
        if drawable
        else None,
        empty="No job finished.",
        legend=legend(names, drawn),
        table_head=(head, *names),
        table_rows=rows,
        height=238,
    )


def _at(found: Curve, rank: float) -> float:
    return float(found.value[min(int(np.searchsorted(found.share, rank - 1e-9)), len(found.value) - 1)])
