"""A study: a trace, cut and stretched, on a cluster with queues; and the replay of one arm on it.

``manage.py simulate`` and library users build a ``Study``, ``prepare`` reads it, ``replay`` makes a ``Replay`` of it
for each arm.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from scheduler.core.model.errors import PlanInvariantError
from scheduler.core.model.profile import Profile, sensitivity
from scheduler.core.model.tables import QueueTable, ServerTable
from scheduler.simulator.errors import BadInput
from scheduler.simulator.jobs import SimJob
from scheduler.simulator.replay.engine import simulate
from scheduler.simulator.replay.replay import Replay
from scheduler.simulator.replay.saving import States
from scheduler.simulator.replay.summary import summarize
from scheduler.simulator.speeds.profiles import assign_profiles, synergy_profiles
from scheduler.simulator.state.outcome import Outcome, Summary
from scheduler.simulator.state.world import Costs, Retries
from scheduler.simulator.study.arms import Arm
from scheduler.simulator.study.cluster import GB, Cluster, QueueSpec, queue_table, server_table
from scheduler.simulator.study.mix import MEASURED_CPUS_PER_GPU, mix_of, slowed
from scheduler.simulator.traces import PROFILES, open_trace
from scheduler.simulator.traces.trace import (
    Trace,
    at_load,
    first_jobs,
    parse_window,
    trace_queue_table,
    wider_than,
    window,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Which jobs are replayed.

    Attributes:
        source: File of the trace, or ``generate:...``.
        format: Name of its format; None to tell it from the beginning of the file.
        window: ``A:B``, only jobs that arrive in it; empty for all.
        num_jobs: Only so many of the first jobs, after the window; None for all.
        load: Offered load to which the arrivals are stretched, as a share of the cluster; None to leave them.
        mix: Share of each class of models among jobs without a profile of their own; empty to leave them without; None
            for the default mix, unless the trace tells more or the servers differ from the measured ones (``mix_of``).
    """

    source: str
    format: str | None = None
    window: str = ""
    num_jobs: int | None = None
    load: float | None = None
    mix: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """What all arms have in common; nothing of it is read yet.

    Attributes:
        workload: The jobs.
        cluster: The servers and queues.
        servers_of_trace: Whether the servers that the trace names, where it does, stand in for those of the cluster.
        one_queue: Whether all jobs share one queue; else each queue of the trace is one here. Has no meaning where the
            cluster has queues.
        round_s: Seconds between rounds; None for a round whenever something changes.
        restart_s: Seconds that every start after a job's first costs.
        leave_s: Seconds that a stopped job needs to leave its GPUs.
        checkpoint_s: Run time between two checkpoints; a failed attempt loses the work since the last.
        costs: What starts and resizes cost instead of ``restart_s``.
        retries: What happens after a failed attempt; without it the job is queued again at once.
        until_s: The replay stops here at the latest.
        keep_series, keep_stays: Whether outcomes hold the cluster over time, and which job was where and when.
        keep_reasons: Whether records hold how long each job waited for which reason.
        check_every: See ``Replay``; 0 for no checks.
    """

    workload: Workload
    cluster: Cluster
    servers_of_trace: bool = False
    one_queue: bool = False
    round_s: float | None = 300.0
    restart_s: float = 0.0
    leave_s: float = 0.0
    checkpoint_s: float = math.inf
    costs: Costs | None = None
    retries: Retries | None = None
    until_s: float = math.inf
    keep_series: bool = False
    keep_stays: bool = False
    keep_reasons: bool = False
    check_every: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A study with its workload read.

    Attributes:
        trace: The jobs; their ``queue`` is a row of ``queues``.
        servers, queues: The cluster as columns.
        queue_names: By row of ``queues``.
        cluster_text: The servers in one line.
        mix: Share of each class of models, empty where jobs were left without.
    """

    trace: Trace
    servers: ServerTable
    queues: QueueTable
    queue_names: tuple[str, ...]
    cluster_text: str
    mix: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The outcome of one arm with one seed."""

    arm: Arm
    seed: int
    outcome: Outcome
    summary: Summary


def prepare(study: Study, *, seed: int) -> Prepared:
    """Read the workload and make the cluster.

    Raises:
        BadInput: If an option does not fit the trace, or the trace the cluster.
        TraceError: If the trace cannot be read.
    """
    workload = study.workload
    trace = open_trace(workload.source, format=workload.format, seed=seed, cluster_gpus=study.cluster.num_gpus)
    named = trace.servers if study.servers_of_trace else None
    servers = server_table(study.cluster) if named is None else named
    cluster_gpus = int(servers.num_gpus.sum())
    trace = _shaped(trace, workload, cluster_gpus)
    _check_widths(trace, cluster_gpus)
    trace = replace(trace, warnings=(*trace.warnings, *_scarcer_than_gpus(trace.jobs, servers)))
    mix, told = mix_of(workload.mix, trace.jobs, servers)
    if mix:
        jobs = _profiled(trace.jobs, servers, mix, seed)
        told += slowed(jobs, servers)
        trace = replace(trace, jobs=jobs)
    trace = replace(trace, warnings=(*trace.warnings, *told))
    trace, queues, names = _queued(study, trace, cluster_gpus)
    text = study.cluster.describe() if named is None else f"the {len(servers):,} servers of the trace"
    return Prepared(trace=trace, servers=servers, queues=queues, queue_names=names, cluster_text=text, mix=mix)


def _check_widths(trace: Trace, cluster_gpus: int) -> None:
    """Refuse jobs that no schedule can ever run."""
    wide = wider_than(trace.jobs, cluster_gpus=cluster_gpus)
    if not wide:
        return
    first = wide[0]
    name = trace.jobs[first.job].name
    job = f"job {first.job} ({name})" if name else f"job {first.job}"
    raise BadInput(
        f"{trace.source}: {job} needs {first.num_gpus:,} GPUs at once, the cluster has {cluster_gpus:,}; "
        f"{len(wide):,} of {len(trace.jobs):,} jobs need up to {max(each.num_gpus for each in wide):,}. "
        "Take a larger cluster, or leave them out of the trace."
    )


def _scarcer_than_gpus(jobs: Sequence[SimJob], servers: ServerTable) -> list[str]:
    """Return warnings where jobs insist on more than comes with their GPUs, as when servers are told too small."""
    gpus, warnings = float(servers.num_gpus.sum()), []
    insisting = [job for job in jobs if job.min_cpus or job.min_memory_bytes]
    for name, amount, least in (
        ("cores", float(servers.num_cpus.sum()), [job.min_cpus for job in insisting]),
        ("GB of memory", float(servers.memory_bytes.sum()) / GB, [job.min_memory_bytes / GB for job in insisting]),
    ):
        share = amount / gpus * (1 + 1e-9)
        more = sum(own > share * job.num_gpus for job, own in zip(insisting, least, strict=True))
        if more:
            warnings.append(
                f"{more:,} of {len(jobs):,} jobs insist on more than the {share:,.4g} {name} that come with a GPU "
                "here: GPUs may stay idle for want of them; check what the servers have"
            )
    return warnings


def replay(
    study: Study,
    prepared: Prepared,
    arm: Arm,
    *,
    seed: int,
    progress: Callable[[int, int], None] | None = None,
    states: States | None = None,
) -> Result:
    """Replay one arm; ``progress`` is called now and then with the number of jobs done and of all jobs.

    Raises:
        BadInput: If the arm cannot be built.
        UnusableStateError: If the state to go on from cannot be read, or is that of another replay.
        PlanInvariantError: If a plan breaks a safety rule, or a check finds two plans that differ: a defect.
    """
    task = Replay(
        prepared.trace.jobs,
        prepared.servers,
        prepared.queues,
        arm.config(),
        round_s=study.round_s,
        restart_s=study.restart_s,
        leave_s=study.leave_s,
        checkpoint_s=study.checkpoint_s,
        costs=study.costs,
        retries=study.retries,
        until_s=study.until_s,
        keep_series=study.keep_series,
        keep_stays=study.keep_stays,
        keep_reasons=study.keep_reasons,
        check_every=study.check_every,
    )
    try:
        outcome = simulate(task, states=states, progress=progress)
    except PlanInvariantError as error:
        raise PlanInvariantError(f"{arm.name}: {error}") from error
    return Result(arm=arm, seed=seed, outcome=outcome, summary=summarize(outcome))


def _queued(study: Study, trace: Trace, cluster_gpus: int) -> tuple[Trace, QueueTable, tuple[str, ...]]:
    """Return the trace with its jobs in the queues of the study, the queues, and their names."""
    specs = study.cluster.queues
    if specs:
        return (
            _by_name(trace, specs),
            queue_table(specs, cluster_gpus=cluster_gpus),
            tuple(spec.name for spec in specs),
        )
    if study.one_queue:
        jobs = [job if job.queue == 0 else replace(job, queue=0) for job in trace.jobs]
        trace = replace(trace, jobs=jobs, queues=("all",), quotas=None)
    return trace, trace_queue_table(trace, cluster_gpus=cluster_gpus), trace.queues


def _shaped(trace: Trace, workload: Workload, cluster_gpus: int) -> Trace:
    """Return the trace cut to its window and number of jobs, then stretched to its load."""
    if workload.window:
        try:
            from_s, to_s = parse_window(workload.window, starts_at=trace.starts_at)
        except ValueError as error:
            raise BadInput(f"--window: {error}.") from None
        trace = window(trace, from_s=from_s, to_s=to_s)
        if not trace.jobs:
            raise BadInput(f"--window {workload.window}: no job of the trace arrives in it.")
    if workload.num_jobs is not None:
        trace = first_jobs(trace, num_jobs=workload.num_jobs)
    if workload.load is not None:
        try:
            trace = at_load(trace, load=workload.load, cluster_gpus=cluster_gpus)
        except ValueError as error:
            raise BadInput(f"--load: {error}.") from None
    return trace


def _profiled(jobs: list[SimJob], servers: ServerTable, mix: Mapping[str, float], seed: int) -> list[SimJob]:
    """Return the jobs with models drawn by the mix; each as fast as its trace says at this cluster's share."""
    gpus = float(servers.num_gpus.sum())
    cpus, memory_bytes = float(servers.num_cpus.sum()) / gpus, float(servers.memory_bytes.sum()) / gpus
    measured = min(MEASURED_CPUS_PER_GPU, key=lambda each: abs(each - cpus))
    profiles = {
        name: _at_share(profile, cpus_per_gpu=cpus, memory_bytes_per_gpu=memory_bytes)
        for name, profile in synergy_profiles(PROFILES, cpus_per_gpu=measured).items()
    }
    return assign_profiles(jobs, profiles=profiles, mix=mix, seed=seed)


def _at_share(profile: Profile, *, cpus_per_gpu: float, memory_bytes_per_gpu: float) -> Profile:
    """Return the profile with speed 1 at this share: run times of a trace were measured with the share of its jobs."""
    unit = sensitivity(profile, cpus_per_gpu=cpus_per_gpu, memory_bytes_per_gpu=memory_bytes_per_gpu)
    if math.isclose(unit, 1.0):
        return profile
    return replace(
        profile, relative_speed=tuple(tuple(speed / unit for speed in row) for row in profile.relative_speed)
    )


def _by_name(trace: Trace, specs: Sequence[QueueSpec]) -> Trace:
    row_of = {spec.name: row for row, spec in enumerate(specs)}
    missing = sorted({trace.queues[job.queue] for job in trace.jobs} - set(row_of))
    if missing:
        shown = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
        raise BadInput(f"--cluster: the trace has jobs in {shown}, which the cluster file does not name as queues.")
    rows = [row_of.get(name, 0) for name in trace.queues]
    return replace(
        trace,
        jobs=[replace(job, queue=rows[job.queue]) for job in trace.jobs],
        queues=tuple(spec.name for spec in specs),
    )
