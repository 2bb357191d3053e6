"""The starting point of a what-if scenario as JSON, which every run of it reads: jobs, servers, queues.

The jobs come from a generator, from a trace file, from the history of a cluster, or they are those of a snapshot, in
the middle of what they do. A variant and a seed make a workload of it.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np

from scheduler.core.model.holds import holds_from, holds_json
from scheduler.core.model.profile import Profile
from scheduler.core.model.tables import JobTable, Placements, QueueTable, ServerTable, Snapshot
from scheduler.core.spec.units import counted
from scheduler.simulator.draws import Draws
from scheduler.simulator.errors import BadInput
from scheduler.simulator.forecasts.run_times import RunTimes, ended_of
from scheduler.simulator.jobs import SimJob
from scheduler.simulator.state.begun import Begun, jobs_of
from scheduler.simulator.study.study import Prepared
from scheduler.simulator.study.variants import Variant, at_rate, queues_with, servers_with
from scheduler.simulator.traces import open_trace
from scheduler.simulator.traces.trace import Trace, first_jobs, parse_window, trace_queue_table, wider_than, window

Json = dict[str, Any]  # a JSON object
_INTS = frozenset({"server_id", "num_gpus", "rack", "queue_id", "parent", "quota_gpus", "max_gpus", "user_max_gpus"})
_JOB_INTS = frozenset({"job_id", "queue", "num_gpus", "max_servers", "owner", "min_gpus", "max_gpus", "profile"})
_HELD_INTS = frozenset({"job", "server", "num_gpus"})
_BOOLS = frozenset({"may_borrow", "preemptible", "running", "lent"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Readied:
    """A workload that can be replayed.

    Attributes:
        prepared: Jobs, servers, queues.
        begun: The state to begin with; None for an empty cluster.
    """

    prepared: Prepared
    begun: Begun | None = None


def columns_to_json(table: ServerTable | QueueTable | Placements | JobTable) -> Json:
    """Return a table as lists by name; +inf and NaN are null where JSON has no word for them."""
    found: Json = {}
    for field in fields(table):
        column = getattr(table, field.name)
        if field.name == "profiles":
            found["profiles"] = [asdict(profile) for profile in column]
        elif column.dtype == np.float64:
            found[field.name] = [None if math.isnan(v) else "inf" if math.isinf(v) else v for v in column.tolist()]
        else:
            found[field.name] = column.tolist()
    return found


def _columns(data: Mapping[str, Any], ints: frozenset[str]) -> Json:
    def column(name: str, values: list[Any]) -> Any:  # an array of one of three types
        if name in _BOOLS:
            return np.array(values, dtype=np.bool_)
        if name in ints:
            return np.array(values, dtype=np.int64)
        return np.array([math.nan if v is None else float(v) for v in values], dtype=np.float64)

    return {name: column(name, values) for name, values in data.items() if name not in {"profiles", "names"}}


def servers_from(data: Mapping[str, Any]) -> ServerTable:
    """Return the servers that ``columns_to_json`` wrote."""
    return ServerTable(**_columns(data, _INTS))


def ready(base: Mapping[str, Any], variant: Variant, *, seed: int) -> Readied:
    """Return the workload of one run.

    Args:
        base: The starting point.
        variant: What differs.
        seed: Of everything that is drawn.

    Raises:
        BadInput: If the variant does not fit the starting point.
        TraceError: If the trace cannot be read.
    """
    servers = servers_from(base["servers"])
    source = base["source"]
    if source["kind"] == "snapshot":
        return _from_snapshot(base, variant, servers, seed)
    trace = _trace(source, seed=seed, cluster_gpus=int(servers.num_gpus.sum()))
    trace = _without_wide(trace, int(base["least_gpus"]))
    if not trace.jobs:
        raise BadInput("There is no job to replay.")
    if base.get("queues"):
        queues, names = _queues(base["queues"])
    else:
        queues, names = trace_queue_table(trace, cluster_gpus=int(servers.num_gpus.sum())), trace.queues
    trace = replace(trace, jobs=at_rate(trace.jobs, variant.load))
    return Readied(prepared=_prepared(trace, servers, queues, names, variant))


def _queues(data: Mapping[str, Any]) -> tuple[QueueTable, tuple[str, ...]]:
    return QueueTable(**_columns(data, _INTS)), tuple(data["names"])


def _prepared(
    trace: Trace, servers: ServerTable, queues: QueueTable, names: tuple[str, ...], variant: Variant
) -> Prepared:
    servers = servers_with(servers, variant.servers)
    return Prepared(
        trace=trace,
        servers=servers,
        queues=queues_with(queues, names, variant.quotas),
        queue_names=names,
        cluster_text=f"{counted(len(servers), 'server')}, {counted(int(servers.num_gpus.sum()), 'GPU')}",
        mix={},
    )


def _trace(source: Mapping[str, Any], *, seed: int, cluster_gpus: int) -> Trace:
    if source["kind"] == "jobs":
        jobs = _with_time_left([SimJob(**job) for job in source["jobs"]], source, seed)
        return Trace(format="history", source=source["text"], jobs=jobs, queues=tuple(source["queues"]))
    text = source["text"] if source["kind"] == "generator" else source["path"]
    trace = open_trace(text, format=source.get("format"), seed=seed, cluster_gpus=cluster_gpus)
    if source.get("window"):
        try:
            from_s, to_s = parse_window(source["window"], starts_at=trace.starts_at)
        except ValueError as error:
            raise BadInput(f"The window cannot be used: {error}.") from None
        trace = window(trace, from_s=from_s, to_s=to_s)
    return first_jobs(trace, num_jobs=source["num_jobs"]) if source.get("num_jobs") else trace


def _with_time_left(jobs: list[SimJob], source: Mapping[str, Any], seed: int) -> list[SimJob]:
    """Return the jobs of a history, those that go on with the time that they still take."""
    open_jobs = source.get("open", [])  # of what was kept before there were none
    if open_jobs:
        left_s = run_times_of(source).draw(Draws(seed, "time left"))
        for at, more_s in zip((one["job"] for one in open_jobs), left_s.tolist(), strict=True):
            jobs[at] = replace(jobs[at], run_s=jobs[at].run_s + more_s)
    return jobs


def run_times_of(source: Mapping[str, Any]) -> RunTimes:
    """Return what is known of the time left of the open jobs of a history."""
    open_jobs = source["open"]
    return RunTimes(
        number=np.array([one["job"] for one in open_jobs], dtype=np.int64),
        queue=np.array([source["jobs"][one["job"]]["queue"] for one in open_jobs], dtype=np.int64),
        owner=np.array([source["jobs"][one["job"]]["owner"] for one in open_jobs], dtype=np.int64),
        run_s=np.array([one["ran_s"] for one in open_jobs], dtype=np.float64),
        left_s=np.array([math.inf if one["left_s"] is None else one["left_s"] for one in open_jobs]),
        ended=ended_of([tuple(row) for row in source["ended"]]),
    )


def _without_wide(trace: Trace, cluster_gpus: int) -> Trace:
    """Leave out, in all variants alike, what the smallest of their clusters can never run."""
    wide = {found.job for found in wider_than(trace.jobs, cluster_gpus=cluster_gpus)}
    if not wide:
        return trace
    note = f"{len(wide):,} of {len(trace.jobs):,} jobs need more than {cluster_gpus:,} GPUs and were left out"
    jobs = [job for row, job in enumerate(trace.jobs) if row not in wide]
    return replace(trace, jobs=jobs, warnings=(*trace.warnings, note))


def snapshot_to_json(snapshot: Snapshot) -> Json:
    """Return what a replay that begins with the snapshot needs of it, beside servers and queues."""
    return {
        "now_s": snapshot.now_s,
        "jobs": columns_to_json(snapshot.jobs),
        "held": columns_to_json(snapshot.held),
        "holds": holds_json(snapshot.arrays, snapshot.after),
    }


def _from_snapshot(base: Mapping[str, Any], variant: Variant, servers: ServerTable, seed: int) -> Readied:
    source = base["source"]
    queues, names = _queues(base["queues"])
    columns: Json = {"lent": np.zeros(len(source["jobs"]["job_id"]), dtype=np.bool_)}  # what was kept before has none
    columns |= _columns(source["jobs"], _JOB_INTS)
    jobs = JobTable(**columns, profiles=tuple(_profile(row) for row in source["jobs"]["profiles"]))
    run_times = RunTimes(
        number=jobs.job_id,
        queue=jobs.queue,
        owner=np.array(source["owners"], dtype=np.int64),
        run_s=jobs.executed_s,
        left_s=jobs.remaining_s,
        ended=ended_of([tuple(row) for row in source["ended"]]),
    )
    if not run_times.is_known.all():
        count = int((~run_times.is_known).sum())
        raise BadInput(
            f"{count} of {len(jobs)} jobs tell no run time, and too few jobs have ended to guess it. "
            "Try again when five jobs have ended."
        )
    left_s = run_times.draw(Draws(seed, "time left"))
    held = Placements(**_columns(source["held"], _HELD_INTS))
    kept = servers_with(servers, variant.servers)
    snapshot = Snapshot(
        now_s=source["now_s"],
        jobs=jobs,
        servers=kept,
        queues=queues_with(queues, names, variant.quotas),
        held=_on(held, len(kept)),
        **holds_from(source.get("holds", {})),
    )
    trace = Trace(format="snapshot", source=source["text"], jobs=jobs_of(snapshot, left_s, source["names"]))
    if not trace.jobs:
        raise BadInput("No job runs or waits now, so there is nothing to replay.")
    prepared = _prepared(trace, servers, queues, names, variant)
    return Readied(prepared=prepared, begun=Begun(snapshot=snapshot, remaining_s=left_s))


def _profile(row: Mapping[str, Any]) -> Profile:
    return Profile(**{name: _tuples(value) for name, value in row.items()})


def _tuples(value: Any) -> Any:  # JSON lists, nested
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _on(held: Placements, num_servers: int) -> Placements:
    """Return the placements of gangs of which no part stood on a lost server."""
    torn = set(held.job[held.server >= num_servers].tolist())
    kept = np.array([row not in torn for row in held.job.tolist()], dtype=np.bool_)
    return held.at(kept)
