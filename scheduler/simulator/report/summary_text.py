"""Write the figures of replays as an aligned table or JSON, with means over seeds."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduler.core.operations.metrics import has_percentile
from scheduler.simulator.state.outcome import Summary
from scheduler.simulator.study.arms import short_names
from scheduler.simulator.study.study import Result

# Two-sided 95 % quantiles of Student's t for 1, 2, ... degrees of freedom; beyond the last the normal one.
_T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
_NORMAL95 = 1.96
# With two draws the interval reaches six times their difference to each side, further than the figures themselves. With
# three it is about as wide as the draws are spread.
LEAST_SEEDS = 3
_UNITS_S = (("d", 86_400.0), ("h", 3_600.0), ("min", 60.0), ("s", 1.0))
_BEST = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One column of the table.

    Attributes:
        key: In the summary.
        title: Over the column.
        kind: ``time`` (seconds there), ``share`` (of 1), ``number`` or ``count``.
        best: ``min`` or ``max``; empty where neither is better.
        rank: Of a percentile over finished jobs, 0 to 1; 0 for other figures.
    """

    key: str
    title: str
    kind: str
    best: str = "min"
    rank: float = 0.0

    def is_of(self, finished: int) -> bool:
        """Return whether so many finished jobs have this figure: a percentile takes as many as its rank tells apart."""
        return not self.rank or has_percentile(finished, self.rank)


METRICS = (
    Metric(key="avg_jct_s", title="avg JCT", kind="time"),
    Metric(key="p50_jct_s", title="p50 JCT", kind="time", rank=0.50),
    Metric(key="p95_jct_s", title="p95 JCT", kind="time", rank=0.95),
    Metric(key="p99_jct_s", title="p99 JCT", kind="time", rank=0.99),
    Metric(key="makespan_s", title="makespan", kind="time"),
    Metric(key="avg_queueing_s", title="avg wait", kind="time"),
    Metric(key="avg_gpu_occupancy", title="allocated", kind="share", best="max"),
    Metric(key="avg_useful_gpu", title="useful", kind="share", best="max"),
    Metric(key="preemptions", title="preempted", kind="count"),
    Metric(key="avg_rho", title="avg rho", kind="number"),
    Metric(key="max_rho", title="max rho", kind="number"),
    Metric(key="jain_index", title="Jain of rho", kind="number", best="max"),
    Metric(key="unfinished", title="left over", kind="count"),
    Metric(key="cpu_s", title="CPU s", kind="number", best=""),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """A mean over seeds; ``half_width`` is that of its 95 % confidence interval, 0 for one seed."""

    mean: float
    half_width: float


def mean_of(values: Sequence[float]) -> Mean:
    """Return the mean of independent values and how far it may be off."""
    size = len(values)
    mean = math.fsum(values) / size
    if size == 1:
        return Mean(mean=mean, half_width=0.0)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (size - 1))
    quantile = _T95[size - 2] if size - 2 < len(_T95) else _NORMAL95
    return Mean(mean=mean, half_width=quantile * deviation / math.sqrt(size))


def means_by_arm(results: Sequence[Result]) -> dict[str, dict[str, Mean]]:
    """Return for each arm, in order, the mean of every metric over its seeds."""
    summaries: dict[str, list[Summary]] = {}
    for result in results:
        summaries.setdefault(result.arm.name, []).append(result.summary)
    return {
        arm: {metric.key: mean_of([_figure(summary, metric.key) for summary in found]) for metric in METRICS}
        for arm, found in summaries.items()
    }


def table(results: Sequence[Result]) -> str:
    """Return the figures below each other and the arms side by side; a star marks the best of each line."""
    means = means_by_arm(results)
    names = short_names(list({result.arm.name: result.arm for result in results}.values()))
    lines = [["", *names]]
    for metric in METRICS:
        row = [arm[metric.key] for arm in means.values()]
        unit, size = _unit(metric, row)
        lines.append([f"{metric.title} ({unit})" if unit else metric.title, *_cells(metric, row, size)])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    texts = []
    for title, *cells in lines:
        padded = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        texts.append("  ".join((title.ljust(widths[0]), *padded)).rstrip())
    return "\n".join(texts)


def _cells(metric: Metric, row: Sequence[Mean], size: float) -> list[str]:
    """Return the arms' texts with a star after the best, unless all read alike."""
    texts = [_cell(metric, mean, size) for mean in row]
    if not metric.best or len(set(texts)) == 1:
        return texts
    winner = (min if metric.best == "min" else max)(mean.mean for mean in row)
    best = {text for text, mean in zip(texts, row, strict=True) if mean.mean == winner}
    return [text + (_BEST if text in best else " ") for text in texts]


def _unit(metric: Metric, means: Sequence[Mean]) -> tuple[str, float]:
    if metric.kind == "share":
        return "%", 0.01
    if metric.kind != "time":
        return "", 1.0
    return time_unit([mean.mean for mean in means])


def time_unit(times_s: Sequence[float]) -> tuple[str, float]:
    """Return one unit for all the times, and its length in seconds: the largest of which the longest has two."""
    longest_s = max((time_s for time_s in times_s if math.isfinite(time_s)), default=0.0)
    return next((unit for unit in _UNITS_S if longest_s >= 2 * unit[1]), _UNITS_S[-1])


def _cell(metric: Metric, mean: Mean, size: float) -> str:
    if not math.isfinite(mean.mean):
        return "-"
    digits = 0 if metric.kind == "count" else 1 if metric.kind == "share" else 2
    text = f"{mean.mean / size:,.{digits}f}"
    return f"{text} ±{mean.half_width / size:,.{digits}f}" if mean.half_width else text


def _figure(summary: Summary, key: str) -> float:
    figures: Mapping[str, object] = summary
    value = figures[key]
    return float(value) if isinstance(value, int | float) else math.nan


def as_json(results: Sequence[Result], setting: Mapping[str, object]) -> dict[str, object]:
    """Return one object for a single run, else ``arms``, one object each, and ``means`` when there are seeds."""
    runs = [{"arm": result.arm.name, "seed": result.seed, **_plain(result.summary)} for result in results]
    if len(runs) == 1:
        return {**setting, **runs[0]}
    whole: dict[str, object] = {**setting, "arms": runs}
    if len({result.seed for result in results}) > 1:
        whole["means"] = [
            {
                "arm": arm,
                **{key: {"mean": _null(mean.mean), "half_width": _null(mean.half_width)} for key, mean in row.items()},
            }
            for arm, row in means_by_arm(results).items()
        ]
    return whole


def _plain(summary: Summary) -> dict[str, object]:
    """Return the figures with null for what has no value: JSON knows neither NaN nor infinity."""
    return {key: _null(value) for key, value in summary.items()}


def _null(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value
