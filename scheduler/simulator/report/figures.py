"""The figures and curves of one replay, small enough to be stored as JSON."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from scheduler.core.model.tables import FloatArray
from scheduler.simulator.report.curves import (
    Course,
    Curve,
    Gantt,
    GanttBar,
    JobGroup,
    course,
    curve,
    gantt,
    room_share,
    waits_by_gang,
    waits_by_queue,
)
from scheduler.simulator.state.outcome import Summary
from scheduler.simulator.study.study import Prepared, Result
from scheduler.simulator.traces.trace import offered_load

GANTT_SERVERS = 4

Json = dict[str, Any]  # a JSON object, until it is read back here


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One replay as it is drawn.

    Attributes:
        summary: The figures.
        jct, rho: Distributions over finished jobs.
        gangs: Waits by size.
        course: The cluster over time; None when it was not noted.
        room_share: Share of the time in which one server could take a gang as wide as the widest; NaN without times.
        gantt: Jobs on the first servers; None when not noted.
        bar_names, bar_queues, bar_gpus: Name, queue (row) and GPUs asked for of the job of each bar.
        queue_names: By row.
        server_gpus: GPUs of each server.
        queue_quotas: GPUs of each queue that are its own; empty when not noted.
        queue_waits: Waits by queue; empty when not noted.
        server_names: Of the first servers; empty for servers that have none.
        arrivals_s: Time from the first submission to the last; 0 when not noted.
        offered_load: GPU time asked for over what there is in that time; 0 when not noted or all arrive at once.
    """

    summary: Summary
    jct: Curve
    rho: Curve
    gangs: Sequence[JobGroup]
    course: Course | None
    room_share: float
    gantt: Gantt | None
    bar_names: Sequence[str]
    bar_queues: Sequence[int]
    bar_gpus: Sequence[int]
    queue_names: Sequence[str]
    server_gpus: Sequence[int]
    queue_quotas: Sequence[int] = ()
    queue_waits: Sequence[JobGroup] = ()
    server_names: Sequence[str] = ()
    arrivals_s: float = 0.0
    offered_load: float = 0.0

    @property
    def num_gpus(self) -> int:
        """Return the GPUs of the cluster."""
        return sum(self.server_gpus)


def figures_of(result: Result, prepared: Prepared, *, server_names: Sequence[str] = ()) -> Figures:
    """Return what a report shows of a replay; ``prepared`` is its workload."""
    outcome, jobs = result.outcome, prepared.trace.jobs
    gpus = [int(count) for count in prepared.servers.num_gpus.tolist()]
    series, stays = outcome.series, outcome.stays
    over_time = course(series) if series is not None and len(series.at_s) else None
    load = offered_load(jobs, cluster_gpus=sum(gpus))
    seats = None
    if stays is not None and len(stays.job):
        seats = gantt(outcome, stays, gpus, num_servers=GANTT_SERVERS, series=series)
    bars = seats.bars if seats else ()
    return Figures(
        summary=result.summary,
        jct=curve(outcome.records.jct_s),
        rho=curve(outcome.records.rho),
        gangs=waits_by_gang(outcome.records),
        course=over_time,
        room_share=room_share(series, max(gpus)) if series is not None and over_time else math.nan,
        gantt=seats,
        bar_names=[jobs[bar.job].name or f"job {bar.job}" for bar in bars],
        bar_queues=[jobs[bar.job].queue for bar in bars],
        bar_gpus=[jobs[bar.job].num_gpus for bar in bars],
        queue_names=prepared.queue_names,
        server_gpus=gpus,
        queue_quotas=prepared.queues.quota_gpus.tolist(),
        queue_waits=waits_by_queue(outcome.records, prepared.queue_names),
        server_names=list(server_names[:GANTT_SERVERS]),
        arrivals_s=jobs[-1].arrival_s - jobs[0].arrival_s if jobs else 0.0,
        offered_load=load if math.isfinite(load) else 0.0,
    )


def figures_to_json(figures: Figures) -> Json:
    """Return the figures as plain JSON data; numbers of curves keep six digits."""
    found = {field.name: getattr(figures, field.name) for field in fields(figures)}
    found |= {name: _columns(found[name]) for name in ("jct", "rho", "course")}
    found |= {name: [asdict(gang) for gang in found[name]] for name in ("gangs", "queue_waits")}
    found["gantt"] = None if figures.gantt is None else _gantt_to_json(figures.gantt)
    found["room_share"] = None if math.isnan(figures.room_share) else figures.room_share
    found["summary"] = dict(figures.summary)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}


def figures_from_json(data: Mapping[str, Any]) -> Figures:
    """Return what ``figures_to_json`` wrote."""
    found = dict(data)
    found |= {name: Curve(**_arrays(found[name])) for name in ("jct", "rho")}
    found["course"] = None if found["course"] is None else Course(**_arrays(found["course"]))
    found |= {name: [JobGroup(**gang) for gang in found.get(name, ())] for name in ("gangs", "queue_waits")}
    found["gantt"] = None if found["gantt"] is None else _gantt_from_json(found["gantt"])
    found["room_share"] = math.nan if found["room_share"] is None else found["room_share"]
    return Figures(**found)


def _columns(curves: Curve | Course | None) -> Json | None:
    if curves is None:
        return None
    columns = {field.name: getattr(curves, field.name) for field in fields(curves)}
    return {name: _short(column) if isinstance(column, np.ndarray) else column for name, column in columns.items()}


def _short(column: FloatArray) -> Any:  # lists, nested as the array is
    with np.errstate(divide="ignore"):
        size = np.where(column == 0, 0.0, np.floor(np.log10(np.abs(np.where(column == 0, 1.0, column)))))
    scale = 10.0 ** (5 - size)
    return (np.round(column * scale) / scale).tolist()


def _arrays(columns: Mapping[str, Any]) -> Json:
    return {
        name: np.array(value, dtype=np.float64) if isinstance(value, list) else value for name, value in columns.items()
    }


def _gantt_to_json(seats: Gantt) -> Json:
    plain = {field.name: getattr(seats, field.name) for field in fields(seats) if field.name != "bars"}
    return plain | {"bars": [[getattr(bar, field.name) for field in fields(GanttBar)] for bar in seats.bars]}


def _gantt_from_json(data: Mapping[str, Any]) -> Gantt:
    names = [field.name for field in fields(GanttBar)]
    bars = tuple(GanttBar(**dict(zip(names, bar, strict=True))) for bar in data["bars"])
    return Gantt(**{**data, "bars": bars, "use": tuple(data.get("use", ()))})
