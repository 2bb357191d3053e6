"""The charts of one job: reads its measured values and passes them to ``figures``."""

from datetime import datetime

from frontend.components.charts import Chart
from frontend.components.devices import GPUS
from frontend.components.formats import significant
from frontend.pages.jobs.charts.figures import ChartScene, frac_chart, loss_chart, memory_chart, rate_chart
from frontend.pages.jobs.charts.progress import granted_bytes
from frontend.pages.jobs.charts.shaping import points_of
from frontend.pages.jobs.charts.timeline import gaps_of
from frontend.pages.jobs.subject import Subject
from scheduler.selectors.files.losses import HOW, loss_curve
from scheduler.selectors.files.scalars import Curve


def scene_of(subject: Subject) -> ChartScene:
    """Return what all charts of a job share."""
    return ChartScene(zone=subject.zone, now=subject.at, gaps=gaps_of(subject), is_over=subject.is_over)


def loss_of(subject: Subject) -> Chart:
    """Return the chart of the loss: what the job reported, else what it wrote into its files."""
    pairs = [
        (step, loss)
        for step, loss in zip(subject.series["step"], subject.series["loss"], strict=True)
        if step is not None and loss is not None
    ]
    written = loss_written(subject)
    if written is not None:
        steps, losses = points_of(written)
        return loss_chart(steps, losses, scene_of(subject), source=written.source)
    new = [pair for index, pair in enumerate(pairs) if index == 0 or pair[0] != pairs[index - 1][0]]
    none = f"It reported none and wrote none. The next one shows its loss if it {HOW}."
    if (last := subject.detail["loss"]) is not None:
        none = f"It ended at {significant(last)}, before there were two values to draw."
    empty = _empty(subject, f"It appears once the job {HOW}.", none)
    return loss_chart([step for step, _ in new], [loss for _, loss in new], scene_of(subject), empty=empty)


def loss_written(subject: Subject) -> Curve | None:
    """Return the loss in the files of a job that reported none; None where there is none, or a single value."""
    if any(loss is not None for loss in subject.series["loss"]):
        return None
    curve = loss_curve(subject.scalars)
    return curve if curve is not None and len(points_of(curve)[0]) > 1 else None


def rate_of(subject: Subject) -> Chart:
    """Return the chart of the mini-batch rate."""
    at, values = _measured(subject, "steps_per_s")
    empty = _empty(subject, "The rate appears with the first progress report.", "It reported no progress.")
    return rate_chart(at, values, scene_of(subject), empty=empty)


def all_curves(subject: Subject) -> list[Chart]:
    """Return every chart, in reading order."""
    scene = scene_of(subject)
    charts = [loss_of(subject), rate_of(subject)]
    charts.append(frac_chart("cpu", "CPU use", *_measured(subject, "cpu_frac"), scene))
    charts.append(memory_chart(*_measured(subject, "memory_bytes"), scene, granted=granted_bytes(subject)))
    if subject.device == GPUS:
        charts.append(frac_chart("gpu", "GPU use", *_measured(subject, "gpu_frac"), scene))
    return charts


def _measured(subject: Subject, name: str) -> tuple[list[datetime], list[float]]:
    pairs = [
        (at, value) for at, value in zip(subject.series["at"], subject.series[name], strict=True) if value is not None
    ]
    return [at for at, _ in pairs], [value for _, value in pairs]


def _empty(subject: Subject, before: str, after: str) -> str:
    return after if subject.is_over else before
