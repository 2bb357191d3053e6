"""Curves of a replay, small enough to draw.

No point is invented: distributions are thinned to ranks, courses over time to equal intervals whose value is the mean
over the interval, and the picture of placements is cut at a moment, never thinned.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.core.model.tables import FloatArray
from scheduler.core.operations.ledger import means_between
from scheduler.core.operations.metrics import percentile
from scheduler.simulator.state.outcome import Outcome, Records, Series, Stays

CURVE_POINTS = 240
INTERVALS = 480
GANTT_INTERVALS = 240
MOST_BARS = 1200


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A cumulative distribution: ``share[i]`` of the values are at most ``value[i]``."""

    value: FloatArray
    share: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class JobGroup:
    """Jobs of about one size, or of one queue.

    Attributes:
        label: GPUs they ask for, ``4`` or ``5-8``; or the name of the queue.
        jobs: How many there are.
        p50_s, p90_s: Their time without GPUs.
    """

    label: str
    jobs: int
    p50_s: float
    p90_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """The cluster over time in equal intervals.

    Attributes:
        at_s: (t,) begin of each interval, from the first moment.
        step_s: Length of an interval.
        allocated, useful, running, waiting, largest_free: (t,) means over the intervals.
        queues: (t, k) GPUs of each queue.
    """

    at_s: FloatArray
    step_s: float
    allocated: FloatArray
    useful: FloatArray
    running: FloatArray
    waiting: FloatArray
    largest_free: FloatArray
    queues: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class GanttBar:
    """A job on GPUs of a server: ``height`` lanes from ``lane`` on."""

    job: int
    server: int
    lane: int
    height: int
    begin_s: float
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Gantt:
    """Jobs on the first servers until ``until_s``; all bars of that time, whole or cut at its end.

    Attributes:
        bars: By begin.
        num_servers: Servers shown.
        from_s, until_s: The time shown.
        cut: Whether there is more after it.
        use: Allocated GPUs of the whole cluster, means over equal intervals of that time; empty when not noted.
    """

    bars: tuple[GanttBar, ...]
    num_servers: int
    from_s: float
    until_s: float
    cut: bool
    use: tuple[float, ...] = ()


def curve(values: FloatArray) -> Curve:
    """Return the distribution of the finite values at no more than ``CURVE_POINTS`` evenly spaced ranks."""
    ranked = np.sort(values[np.isfinite(values)])
    if not len(ranked):
        return Curve(value=ranked, share=ranked)
    ranks = np.unique(np.linspace(0, len(ranked) - 1, min(CURVE_POINTS, len(ranked))).round().astype(np.int64))
    return Curve(value=ranked[ranks], share=(ranks + 1) / len(ranked))


def waits_by_gang(records: Records) -> list[JobGroup]:
    """Return the waits of finished jobs by size, in powers of two."""
    finished = np.isfinite(records.end_s)
    tops = 2 ** np.ceil(np.log2(np.maximum(1, records.num_gpus))).astype(np.int64)
    gangs = []
    for top in sorted(set(tops[finished].tolist())):
        here = finished & (tops == top)
        waits = sorted(records.queueing_s[here].tolist())
        sizes = records.num_gpus[here]
        label = str(top) if int(sizes.min()) == top else f"{top // 2 + 1}-{top}"
        gangs.append(JobGroup(label=label, jobs=len(waits), p50_s=percentile(waits, 0.5), p90_s=percentile(waits, 0.9)))
    return gangs


def waits_by_queue(records: Records, names: Sequence[str]) -> list[JobGroup]:
    """Return the waits of finished jobs of each queue, in order; zeros for a queue in which none finished."""
    finished = np.isfinite(records.end_s)
    found = []
    for row, name in enumerate(names):
        waits = sorted(records.queueing_s[finished & (records.queue == row)].tolist())
        p50_s, p90_s = (percentile(waits, share) if waits else 0.0 for share in (0.5, 0.9))
        found.append(JobGroup(label=name, jobs=len(waits), p50_s=p50_s, p90_s=p90_s))
    return found


def course(series: Series) -> Course:
    """Return the cluster over time in ``INTERVALS`` equal intervals; each value is the mean over its interval."""
    if len(series.at_s) < 2:
        at_s, step_s = series.at_s.copy(), 1.0
        edges = np.append(at_s, at_s[-1:] + step_s)
    else:
        edges = np.linspace(series.at_s[0], series.at_s[-1], INTERVALS + 1)
        at_s, step_s = edges[:-1], float(edges[1] - edges[0])
    return Course(
        at_s=at_s,
        step_s=step_s,
        allocated=means_between(series.at_s, series.allocated_gpus, edges),
        useful=means_between(series.at_s, series.useful_gpus, edges),
        running=means_between(series.at_s, series.running_jobs, edges),
        waiting=means_between(series.at_s, series.waiting_jobs, edges),
        largest_free=means_between(series.at_s, series.largest_free_gpus, edges),
        queues=np.stack([means_between(series.at_s, column, edges) for column in series.queue_gpus.T], axis=1),
    )


def room_share(series: Series, gang: int) -> float:
    """Return the share of the time in which one server had ``gang`` GPUs free."""
    held_s = np.diff(series.at_s)
    total_s = float(held_s.sum())
    return float(held_s[series.largest_free_gpus[:-1] >= gang].sum()) / total_s if total_s > 0 else math.nan


def gantt(
    outcome: Outcome, stays: Stays, server_gpus: Sequence[int], *, num_servers: int, series: Series | None = None
) -> Gantt:
    """Return the jobs on the first servers, until so many bars are drawn that no more can be told apart."""
    num_servers = min(num_servers, len(server_gpus))
    order = np.lexsort((stays.job, stays.begin_s))
    order = order[stays.server[order] < num_servers]
    if series is not None and len(series.at_s):
        from_s = float(series.at_s[0])  # a replay of jobs that were there before begins later than the first arrival
    else:
        from_s = float(outcome.records.arrival_s.min()) if len(outcome.records) else 0.0
    cut = len(order) > MOST_BARS
    chosen = order[:MOST_BARS]
    last_s = float(stays.begin_s[order[MOST_BARS]]) if cut else float(stays.end_s[chosen].max(initial=from_s))
    free: list[list[float]] = [[-math.inf] * gpus for gpus in server_gpus[:num_servers]]
    bars = []
    for row in chosen.tolist():
        server, begin_s, end_s = int(stays.server[row]), float(stays.begin_s[row]), float(stays.end_s[row])
        bars += _lanes(free[server], int(stays.job[row]), server, int(stays.num_gpus[row]), begin_s, min(end_s, last_s))
    use = _use(series, from_s, last_s) if series is not None and len(series.at_s) > 1 else ()
    return Gantt(bars=tuple(bars), num_servers=num_servers, from_s=from_s, until_s=last_s, cut=cut, use=use)


def _use(series: Series, from_s: float, until_s: float) -> tuple[float, ...]:
    edges = np.linspace(from_s, max(until_s, from_s + 1.0), GANTT_INTERVALS + 1)
    means = means_between(series.at_s, series.allocated_gpus, edges)
    return tuple(round(value, 2) for value in means.tolist())


def _lanes(free: list[float], job: int, server: int, num_gpus: int, begin_s: float, end_s: float) -> list[GanttBar]:
    """Return bars on lanes that are free, in as few pieces as they allow; jobs that share GPUs lie over each other."""
    open_lanes = [lane for lane, until_s in enumerate(free) if until_s <= begin_s]
    if len(open_lanes) < num_gpus:
        open_lanes = sorted(range(len(free)), key=lambda lane: (free[lane], lane))[:num_gpus]
    lanes = sorted(_together(open_lanes, num_gpus))
    bars: list[list[int]] = []
    for lane in lanes:
        free[lane] = end_s
        if bars and bars[-1][-1] == lane - 1:
            bars[-1].append(lane)
        else:
            bars.append([lane])
    return [
        GanttBar(job=job, server=server, lane=piece[0], height=len(piece), begin_s=begin_s, end_s=end_s)
        for piece in bars
    ]


def _together(lanes: list[int], wanted: int) -> list[int]:
    """Return the first ``wanted`` lanes that are neighbours; if no such run of lanes is there, the first ``wanted``."""
    for start in range(len(lanes) - wanted + 1):
        if lanes[start + wanted - 1] - lanes[start] == wanted - 1:
            return lanes[start : start + wanted]
    return lanes[:wanted]
