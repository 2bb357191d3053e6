"""Charts of scalars that a job wrote into its own files: one a name, a line for each run."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from frontend.components.charts import Chart, LegendEntry, layout, level_axis, line
from frontend.components.formats import counted, number, significant
from frontend.pages.jobs.charts.curves import loss_written
from frontend.pages.jobs.charts.shaping import broken, points_of, thin
from frontend.pages.jobs.subject import Subject
from scheduler.selectors.files.scalars import Curve

MOST_CHARTS = 24
COLORS = ("accent", "q2", "q3", "q4", "q5", "q6")
HEIGHT = 206
TABLE_ROWS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCurves:
    """What is drawn of a job's own files.

    Attributes:
        sentence: What was found and where; empty where nothing was.
        notes: Files that are damaged, and what is not drawn.
    """

    sentence: str
    charts: list[Chart]
    notes: list[str]


def own_curves(subject: Subject) -> OwnCurves:
    """Return the charts of what a job wrote by TensorBoard, as csv or as JSON lines; its loss may be drawn above."""
    found, drawn = subject.scalars, loss_written(subject)
    grouped = [(tag, list(curves)) for tag, curves in groupby(found.curves, key=lambda curve: curve.tag)]
    by_tag = [(tag, curves) for tag, curves in grouped if curves != [drawn]]
    notes = list(found.notes)
    if len(by_tag) > MOST_CHARTS:
        names = ", ".join(tag for tag, _ in by_tag[MOST_CHARTS : MOST_CHARTS + 5])
        notes.append(f"{number(len(by_tag) - MOST_CHARTS)} more are not drawn: {names} ...")
    word = "more scalar" if drawn else "scalar"
    is_told = found.files and (by_tag or notes or not drawn)
    sentence = f"{counted(len(by_tag), word)} in {counted(found.files, 'file')}" if is_told else ""
    charts = [_chart(index, tag, curves) for index, (tag, curves) in enumerate(by_tag[:MOST_CHARTS])]
    return OwnCurves(sentence=sentence, charts=charts, notes=notes)


def _chart(index: int, tag: str, curves: Sequence[Curve]) -> Chart:
    shown = curves[: len(COLORS)]
    points = [points_of(curve) for curve in shown]
    newest = max(points, key=lambda one: one[0][-1])
    traces = [
        line(curve.run or tag, *broken(steps, values), color=color, width=1.5)
        for curve, (steps, values), color in zip(shown, points, COLORS, strict=False)
    ]
    many = len(shown) > 1
    more = f", {len(curves) - len(shown)} more not drawn" if len(curves) > len(shown) else ""
    odd = sum(part.odd for curve in shown for part in curve.parts)
    where = f"{counted(len(shown), 'run')}{more}" if many else shown[0].run or "the job's directory"
    kept = thin(len(newest[0]), most=TABLE_ROWS)
    return Chart(
        id=f"scalar-{index}",
        title=f"{tag} is {significant(newest[1][-1])} at step {number(newest[0][-1])}",
        sub=f"By step, from {where}{f'; {_odd_words(odd)}' if odd else ''}",
        figure={
            "data": traces,
            "layout": layout(height=HEIGHT, left=50, y=level_axis(value for _, values in points for value in values)),
        },
        legend=tuple(
            LegendEntry(label=curve.run or "its directory", token=color, kind="line")
            for curve, color in zip(shown, COLORS, strict=False)
            if many
        ),
        table_head=("Step", "Value"),
        table_rows=[(number(newest[0][i]), significant(newest[1][i])) for i in kept],
        height=HEIGHT,
    )


def _odd_words(count: int) -> str:
    return "1 value is no finite number" if count == 1 else f"{number(count)} values are no finite numbers"
