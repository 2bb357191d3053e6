"""Rows of the cluster as REST answers, WebSocket frames and pages read them: servers, rounds, fairness, shadow.

The selectors of this folder make them. Times are ISO 8601 text in UTC. Names of other users' jobs and queues are left
out or replaced where the reader may not see them.
"""

from typing import Any, TypedDict

# Settings, evidence and decisions as the database keeps them: their keys depend on the policy or on the reason.
Json = dict[str, Any]


class HolderRow(TypedDict):
    """A job that holds a GPU."""

    id: str
    number: int
    name: str
    owner: str


class GpuRow(TypedDict):
    """One GPU or CPU slot with the job that holds it; ``guest`` is a second job that shares it."""

    index: int
    model: str
    memory_bytes: int
    healthy: bool
    health_reason: str
    allocated: bool
    utilization_frac: float | None
    used_memory_bytes: int | None
    temperature_c: float | None
    job: HolderRow | None
    guest: HolderRow | None
    queue: str | None
    color_slot: int | None


class ServerRow(TypedDict):
    """One server with its GPUs."""

    id: str
    number: int
    name: str
    rack: str
    state: str
    state_reason: str
    state_changed_at: str
    device_kind: str
    simulated: bool
    num_cpus: float
    memory_bytes: int
    isolation: str
    agent_version: str
    last_report_at: str | None
    num_gpus: int
    allocated_gpus: int
    broken_gpus: int
    gpus: list[GpuRow]


class ServerDetailRow(ServerRow):
    """One server with what open leases hold on it."""

    allocated_cpus: float
    allocated_memory_bytes: int
    generation: int
    acked_generation: int
    rejected_reports: int
    created_at: str


class GpuFrame(TypedDict):
    """One GPU without its holder."""

    index: int
    healthy: bool
    allocated: bool
    utilization_frac: float | None


class ServerFrame(TypedDict):
    """One server without the holders of its GPUs."""

    id: str
    name: str
    state: str
    device_kind: str
    simulated: bool
    gpus: list[GpuFrame]


class ClusterFrame(TypedDict):
    """The cluster now, free of names of jobs and queues; also the WebSocket frame of kind ``cluster``."""

    at: str
    round: int
    round_finished_at: str | None
    next_round_at: str | None
    paused: bool
    policy: str
    locality: str
    mechanism: str
    num_gpus: int
    busy_gpus: int
    allocated_gpus: int
    free_gpus: int
    broken_gpus: int
    waiting_jobs: int
    running_jobs: int
    servers: list[ServerFrame]


class QueueShareRow(TypedDict):
    """GPUs and jobs of a leaf queue; ``id`` is None for the sum of the queues that the reader may not see."""

    id: int | None
    name: str
    color_slot: int
    held_gpus: int
    quota_gpus: int
    borrowed_gpus: int
    waiting_jobs: int
    running_jobs: int


class CompletionTimes(TypedDict):
    """Completion and waiting times in seconds; ``jct_s`` and ``wait_s`` are sorted, the rest None without a job."""

    since: str
    count: int
    mean_s: float | None
    p50_s: float | None
    p90_s: float | None
    p99_s: float | None
    wait_p50_s: float | None
    wait_p90_s: float | None
    jct_s: list[float]
    wait_s: list[float]


class RatedJob(TypedDict):
    """Finish-time fairness rho of one job."""

    id: str
    number: int
    name: str
    queue: str
    color_slot: int
    num_gpus: int
    is_finished: bool
    rho: float


class Fairness(TypedDict):
    """Rho of jobs, and the Jain index over their queues."""

    jobs: list[RatedJob]
    jain_index: float | None


class GpuHours(TypedDict):
    """GPU-hours by kind: ``kinds`` for each part of ``part_s`` that begins at ``at``, ``totals`` for all parts."""

    at: list[str]
    part_s: float
    kinds: dict[str, list[float]]
    totals: dict[str, float]
    capacity: float
    hours: float


class RoundRow(TypedDict):
    """One round without its decisions."""

    number: int
    epoch: int
    trigger: str
    started_at: str
    duration_s: float
    policy: str
    policy_options: Json
    locality: str
    mechanism: str
    num_jobs: int
    num_running: int
    num_launched: int
    num_preempted: int
    num_waiting: int
    num_gpus: int
    num_gpus_granted: int
    snapshot_hash: str
    plan_hash: str
    error: str


class DecidedJob(TypedDict):
    """The job of a decision; ``id`` and ``number`` are None where the reader may not see it."""

    id: str | None
    number: int | None
    name: str
    queue: str
    color_slot: int


class SeatRow(TypedDict):
    """GPUs, cores and memory on one server; ``server`` is empty when it has left the cluster."""

    server: str
    gpus: int
    cpus: float
    memory_bytes: int


class GrantRow(TypedDict):
    """A job that holds GPUs after the round."""

    job: DecidedJob | None
    state: str
    seats: list[SeatRow]


class PreemptionRow(TypedDict):
    """A job that must stop, by which rule and for which job."""

    job: DecidedJob | None
    rule: str
    by_job: DecidedJob | None
    evidence: Json


class WaitingRow(TypedDict):
    """A job that waits, and why; ``reason`` is empty where the reader may not see the job."""

    job: DecidedJob | None
    position: int | None
    reason: str
    evidence: Json


class OrderRow(TypedDict):
    """A job's place in the order of the policy; ``key`` is None where the reader may not see the job."""

    job: DecidedJob | None
    key: str | None


class TrialRow(TypedDict):
    """A change that introspection tried on running jobs, with their speeds before and after."""

    kind: str
    jobs: list[DecidedJob | None]
    servers: list[str]
    verdict: str
    rates_before: list[float | None]
    rates_after: list[float | None]
    gain: float | None


class RoundDetailRow(RoundRow):
    """One round with its decisions."""

    same_as: int | None
    grants: list[GrantRow]
    preemptions: list[PreemptionRow]
    waiting: list[WaitingRow]
    waiting_by_reason: dict[str, int]
    order: list[OrderRow]
    trials: list[TrialRow]
    is_shortened: bool


class ScoreFigures(TypedDict):
    """Figures of one replay."""

    avg_jct_s: float
    avg_rho: float
    max_rho: float
    avg_queueing_s: float


class ScoreRow(TypedDict):
    """The live and the shadow configuration, both replayed on the jobs that had ended by ``at``."""

    at: str
    since: str
    num_jobs: int
    live: ScoreFigures
    shadow: ScoreFigures


class ShadowReport(TypedDict):
    """The shadow policy with its scores; ``chosen`` is None where there is none."""

    chosen: Json | None
    since: str | None
    chosen_by: str | None
    version: int
    planned_rounds: int
    scores: list[ScoreRow]


class ShadowRoundRow(TypedDict):
    """What the shadow would have done in one round; the lists hold job number and GPUs."""

    round: int
    at: str
    planned_at: str | None
    took_s: float | None
    error: str
    num_same: int | None
    num_only_live: int | None
    num_only_shadow: int | None
    num_other_gpus: int | None
    only_live: list[list[int]]
    only_shadow: list[list[int]]
    other_gpus: list[list[int]]
