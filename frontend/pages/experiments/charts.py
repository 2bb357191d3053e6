"""Charts of one experiment: losses of all configurations as they train, and what their parameters do to them."""

import math
from collections.abc import Sequence
from typing import Any

from frontend.components.charts import Chart, Json, LegendEntry, layout, line, plain, token
from frontend.components.formats import counted, number, significant
from frontend.pages.experiments.words import best_of, is_given_up, loss_of, may_report, value_text, values_words
from scheduler.core.spec.search_space import Parameter, read_space
from scheduler.selectors.files.losses import HOW
from scheduler.selectors.jobs.many.experiment_rows import ConfigurationRow, ExperimentDetail

_MOST_CURVES = 80
_MOST_AXES = 8
_HEIGHT = 280
_LOSS_PX = 52
_MOST_LETTERS = 56  # of words on all axes together
_MOST_VALUES = 3  # in a title


def curves_chart(experiment: ExperimentDetail) -> Chart:
    """Return loss by step, one line a configuration; the best is drawn last and in the accent colour."""
    members = [one for one in experiment["members"] if one["curve"]]
    shown = sorted(members, key=lambda one: (one["curve"][-1][1], one["number"]))[:_MOST_CURVES]
    best = best_of(members)
    traces = [_curve(one, is_best=best is not None and one["number"] == best["number"]) for one in reversed(shown)]
    target = experiment["target_loss"]
    losses = [point[1] for one in shown for point in one["curve"]]
    is_log = bool(losses) and min(losses) > 0 and (target is None or target > 0) and max(losses) > 20 * min(losses)
    dashed = "" if target is None else "; dashed is the target"
    last = max((one["curve"][-1][0] for one in shown), default=1)
    if shown and target is not None:
        traces.append(line("target", [0, last], [target, target], color="text", width=1.5, dash="dash"))
    yet = " yet" if may_report(experiment) else ""
    given_up = sum(is_given_up(one) for one in members)
    told = f", {given_up} of {len(members)} are given up" if target is not None else ""
    title = (
        f"Configuration {best['number']} leads with {significant(best['loss'])}{told}"
        if best
        else f"No configuration has a curve{yet}"
    )
    rest = f"; the best {_MOST_CURVES} of {len(members)}" if len(members) > len(shown) else ""
    return Chart(
        id="curves",
        title=title,
        sub=f"Loss by step{', log scale' if is_log else ''}, one line a configuration{rest}{dashed}",
        figure={
            "data": traces,
            "layout": layout(
                height=_HEIGHT,
                left=50,
                x={"tickformat": ",d", "range": [0, last]},
                y={"type": "log"} if is_log else {},
                hovermode="closest",
            ),
        }
        if shown
        else None,
        empty=f"Losses appear here once a job {HOW}." if yet else "No job reported its loss or wrote it into a file.",
        legend=_legend() if target is not None else _legend()[:2],
        table_head=("Configuration", "Steps", "Loss", "Least"),
        table_rows=[
            (
                f"{one['number']}: {values_words(one['values'])}",
                number(one["curve"][-1][0]),
                significant(one["curve"][-1][1]),
                significant(min(loss for _, loss in one["curve"])),
            )
            for one in shown
        ],
        height=_HEIGHT,
    )


def _curve(one: ConfigurationRow, *, is_best: bool) -> Json:
    color, width, dash = ("accent", 2.5, "solid") if is_best else ("text-3", 1.0, "solid")
    if one["promise"] == "poor" and not is_best:
        color, dash = "border-ctl", "dot"
    steps, losses = zip(*one["curve"], strict=True)
    name = f"{one['number']}: {values_words(one['values'])}"
    trace = line(name, steps, losses, color=color, width=width, dash=dash)
    return trace | {"hovertemplate": "%{fullData.name}<br>step %{x:,d}, loss %{y:.4g}<extra></extra>"}


def _legend() -> tuple[LegendEntry, ...]:
    return tuple(
        LegendEntry(label=label, token=color, kind=kind)
        for label, color, kind in (("best", "accent", "line"), ("others", "text-3", "line"),
                                   ("given up", "border-ctl", "dot"), ("target", "text", "dash"))
    )  # fmt: skip


def parallel_chart(experiment: ExperimentDetail) -> Chart:
    """Return parallel coordinates: an axis for each parameter and one for the loss, a line for each configuration."""
    space: dict[str, Json] = {one.name: _axis(one) for one in read_space(experiment["space"])}
    axes = list(space)[:_MOST_AXES]
    members = [one for one in experiment["members"] if one["loss"] is not None and set(axes) <= set(one["values"])]
    best, yet = best_of(members), " yet" if may_report(experiment) else ""
    losses = [loss_of(one) for one in members]
    low, high = (min(losses), max(losses)) if losses else (0.0, 1.0)
    traces = []
    for one in sorted(members, key=lambda each: -loss_of(each))[-_MOST_CURVES:]:
        places = [_place(space[name], one["values"][name]) for name in axes]
        places.append((loss_of(one) - low) / (high - low) if high > low else 0.5)
        is_best = best is not None and one["number"] == best["number"]
        color, width = ("accent", 2.5) if is_best else ("text-3", 1.0)
        if one["promise"] == "poor" and not is_best:
            color = "border-ctl"
        words = f"{one['number']}: {values_words(one['values'])}, loss {significant(one['loss'])}"
        dash = "dot" if one["promise"] == "poor" and not is_best else "solid"
        trace = line(words, list(range(len(places))), places, color=color, width=width, dash=dash)
        traces.append(trace | {"hovertemplate": "%{fullData.name}<extra></extra>"})
    notes, stems = [], []
    letters = _MOST_LETTERS // max(1, len(axes))
    for at, name in enumerate(axes):
        notes += [_tick(at, place, text) for place, text in _ticks(space[name], letters)]
        stems.append(_stem(at))
    if members:
        notes += [_tick(len(axes), place, significant(low + place * (high - low))) for place in (0.0, 0.5, 1.0)]
        stems.append(_stem(len(axes)))
    x: Json = {
        "tickvals": list(range(len(axes) + 1)),
        "ticktext": _in_two_lines([*(plain(_cut(name, letters + 4)) for name in axes), "loss"]),
        "tickangle": 0,
        "range": [-0.15, len(axes) + 0.05],
        "showline": False,
        "side": "top",
    }
    y: Json = {"range": [-0.06, 1.06], "showgrid": False, "showticklabels": False}
    more: Json = {"shapes": stems, "annotations": notes, "hovermode": "closest"}
    figure = layout(height=_HEIGHT, left=24, x=x, y=y, **more)
    figure["margin"] |= {"t": 40, "b": 12, "r": _LOSS_PX}  # right of the last axis stand its losses
    return Chart(
        id="parallel",
        title=f"The best so far has {_few(best['values'])}" if best else f"Nothing to compare{yet}",
        sub="One line a configuration through its values to its newest loss"
        + ("; dotted lines were given up" if experiment["target_loss"] is not None else ""),
        figure={"data": traces, "layout": figure} if traces else None,
        empty="Lines appear once configurations have a loss." if yet else "No configuration has a loss.",
        legend=_legend()[: 2 if experiment["target_loss"] is None else 3],
        table_head=("Configuration", *axes, "Loss"),
        table_rows=[
            (str(one["number"]), *(value_text(one["values"][name]) for name in axes), significant(one["loss"]))
            for one in sorted(members, key=lambda each: (loss_of(each), each["number"]))
        ],
        height=_HEIGHT,
    )


def _few(values: Json) -> str:
    """Return the first values of a configuration, and how many more there are."""
    more = len(values) - _MOST_VALUES
    shown = values_words(dict(list(values.items())[:_MOST_VALUES]))
    return f"{shown} and {counted(more, 'more value')}" if more > 0 else shown


def _in_two_lines(names: Sequence[str]) -> list[str]:
    """Return the heads of axes so that neighbours stand in different lines and each has twice the room."""
    return [f"{name}<br>" if at % 2 else f"<br>{name}" for at, name in enumerate(names)]


def _cut(text: str, most: int) -> str:
    """Return a word as it has room beside an axis; the table has all of it."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _axis(one: Parameter) -> Json:
    """Return a parameter as its axis reads it."""
    return {"choices": list(one.choices)} if one.choices else {"low": one.low, "high": one.high, "log": one.log}


def _place(parameter: Json, value: Any) -> float:  # a number or word of the space
    """Return where a value stands on its axis, 0 to 1."""
    choices = parameter.get("choices")
    if choices:
        return choices.index(value) / (len(choices) - 1) if len(choices) > 1 and value in choices else 0.5
    low, high, found = float(parameter["low"]), float(parameter["high"]), float(value)
    if parameter.get("log"):
        low, high, found = math.log(low), math.log(high), math.log(found)
    return (found - low) / (high - low) if high > low else 0.5


def _ticks(parameter: Json, letters: int) -> list[tuple[float, str]]:
    choices: Sequence[object] | None = parameter.get("choices")
    if choices:
        return [(_place(parameter, choice), plain(_cut(value_text(choice), letters))) for choice in choices[:12]]
    low, high = float(parameter["low"]), float(parameter["high"])
    middle = math.sqrt(low * high) if parameter.get("log") else (low + high) / 2
    return [(0.0, f"{low:.3g}"), (0.5, f"{middle:.3g}"), (1.0, f"{high:.3g}")]


def _tick(at: int, place: float, text: str) -> Json:
    return {
        "x": at,
        "y": place,
        "text": text,
        "showarrow": False,
        "xanchor": "left",
        "xshift": 4,
        "font": {"size": 11, "color": token("text-3")},
        "bgcolor": token("surface"),
        "borderpad": 1,
    }


def _stem(at: int) -> Json:
    return {"type": "line", "x0": at, "x1": at, "y0": 0, "y1": 1, "line": {"color": token("border-2"), "width": 1}}
