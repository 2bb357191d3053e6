"""Rows of servers, rounds, the overview and the shadow policy: each field is named here once.

The selectors of this folder fill them; REST answers, WebSocket frames and pages read them, and the OpenAPI document is
made of them. Names of jobs and queues that the reader may not see are replaced or left out.
"""

from typing import Annotated, TypedDict

from scheduler.core.model.plan import PreemptRule, WaitReason
from scheduler.models.server import ServerState
from scheduler.selectors.rows import Json, Moment, ShownJob, one_of

DEVICE_KINDS = ("gpu", "cpu_slot")


class HolderRow(TypedDict):
    """Whose job holds a GPU."""

    id: str
    number: int
    name: str
    owner: str


class GpuRow(TypedDict):
    """One GPU, or one CPU slot of a machine without GPUs."""

    index: int
    model: str
    memory_bytes: int
    healthy: bool
    health_reason: str
    allocated: bool
    utilization_frac: Annotated[float | None, "0 to 1; null where it is not measured, or the report is old."]
    used_memory_bytes: int | None
    temperature_c: float | None
    job: Annotated[HolderRow | None, "null: free, or not yours to see."]
    guest: Annotated[HolderRow | None, "The job that shares it; null: none, or not yours to see."]
    queue: Annotated[str | None, '"another queue" when you may not see it.']
    color_slot: int | None


class ServerRow(TypedDict):
    """One server."""

    id: str
    number: int
    name: str
    rack: str
    labels: Annotated[list[str], "Words for readers; no round looks at them."]
    state: Annotated[str, one_of(ServerState)]
    phase: Annotated[
        str,
        one_of([*ServerState, "drained"]),
        "What pages call it: its state, or drained where one that is draining holds no job any more.",
    ]
    state_reason: str
    state_changed_at: Moment
    device_kind: Annotated[
        str, one_of(DEVICE_KINDS, blank=True), "A CPU slot is no GPU. Empty before its first report."
    ]
    simulated: Annotated[bool, "It has no machine: nothing on it is computed."]
    num_cpus: int
    memory_bytes: int
    isolation: Annotated[str, "How jobs are kept apart on it."]
    may_mix_queues: Annotated[bool, "Whether jobs of several queues may run on it where nothing keeps them apart."]
    agent_version: str
    last_report_at: Moment | None
    silent_s: Annotated[
        int | None, "Age of its newest report, seconds, where that is too old to say how its GPUs are used; else null."
    ]
    num_gpus: int
    allocated_gpus: int
    broken_gpus: int
    gpus: list[GpuRow]


class SizeRow(TypedDict):
    """How large a server says it is."""

    num_cpus: int
    memory_bytes: int
    num_gpus: int
    gpu_memory_bytes: Annotated[int, "Of its largest GPU."]


class ServerDetailRow(ServerRow):
    """One server with what is given on it."""

    allocated_cpus: float
    allocated_memory_bytes: int
    generation: Annotated[int, "Of its desired state."]
    acked_generation: Annotated[int, "What its agent works on."]
    rejected_reports: int
    claimed_size: Annotated[SizeRow | None, "What it reports, where that grew too far to be believed unconfirmed."]
    other_servers_up: Annotated[int, "Other servers on which jobs may start: up, with a GPU that works."]
    created_at: Moment


class GpuFrame(TypedDict):
    """One GPU without its holder."""

    index: int
    healthy: bool
    allocated: bool
    utilization_frac: float | None


class ServerFrame(TypedDict):
    """One server without its holders."""

    id: str
    name: str
    state: Annotated[str, one_of(ServerState)]
    device_kind: Annotated[str, one_of(DEVICE_KINDS, blank=True)]
    simulated: Annotated[bool, "It has no machine: nothing on it is computed."]
    silent_s: Annotated[int | None, "As in the list of servers."]
    gpus: list[GpuFrame]


class ClusterFrame(TypedDict):
    """What every user may see; the frame of kind `cluster` on the WebSocket has the same shape."""

    at: Moment
    round: int
    round_finished_at: Moment | None
    next_round_at: Moment | None
    paused: bool
    policy: str
    locality: str
    mechanism: str
    num_gpus: int
    busy_gpus: Annotated[int, "Held and used."]
    unknown_gpus: Annotated[int, "Held, and not known how far used: not measured, or the server's report is old."]
    allocated_gpus: Annotated[int, "Held."]
    free_gpus: Annotated[int, "Offered to jobs, and not held."]
    usable_gpus: Annotated[int, "Held or free: of so many pages and the command say how many are held."]
    drained_gpus: Annotated[int, "Not held, on a server that is drained."]
    broken_gpus: Annotated[int, "Not healthy, or on a server that is lost or has not joined."]
    mean_utilization_frac: Annotated[float | None, "0 to 1, of the usable GPUs that are measured; null for none."]
    waiting_jobs: Annotated[int, "Queued, or parked between their turns."]
    running_jobs: int
    servers: list[ServerFrame]


class QueueShareRow(TypedDict):
    """What a queue holds; the last may be "other queues", with id null."""

    id: int | None
    name: str
    color_slot: int
    held_gpus: int
    quota_gpus: int
    borrowed_gpus: int
    waiting_jobs: Annotated[int, "Queued, or parked between their turns."]
    running_jobs: int


class CompletionTimes(TypedDict):
    """Completion and waiting times of jobs that you may see; null when none completed."""

    since: Moment
    count: int
    mean_s: float | None
    p50_s: float | None
    p90_s: float | None
    p99_s: float | None
    wait_p50_s: float | None
    wait_p90_s: float | None
    jct_s: Annotated[list[float], "All completion times, sorted."]
    wait_s: Annotated[list[float], "All waiting times, sorted."]


class RatedJob(ShownJob):
    """Finish-time fairness of one job."""

    num_gpus: int
    is_finished: bool
    rho: Annotated[float, "Above 1 the job is worse off than alone on an equal share."]


class Fairness(TypedDict):
    """Finish-time fairness of jobs that you may see."""

    jobs: list[RatedJob]
    jain_index: Annotated[float | None, "Over queues; 1 when all are equally well off."]
    is_cut: Annotated[bool, "Whether there were more jobs than the newest 500, which are rated."]


class GpuHoursReport(TypedDict):
    """GPU-hours by kind; the kinds of each part, and of all, add up to the capacity."""

    at: Annotated[list[str], "Begin of each part. Times of which nothing was measured are left out."]
    part_s: Annotated[float, "Length of a part."]
    kinds: Annotated[dict[str, list[float]], "GPU-hours of each part, by kind."]
    totals: Annotated[dict[str, float], "GPU-hours in all, by kind."]
    capacity: Annotated[float, "GPU-hours that there were."]
    hours: Annotated[float, "Hours of which something was measured."]


class RoundRow(TypedDict):
    """One decision, without what it decided."""

    number: int
    epoch: int
    trigger: Annotated[str, "beat, submit, end, server, settings, ..."]
    started_at: Moment
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
    snapshot_hash: Annotated[str, "Equal snapshots give equal plans."]
    plan_hash: str
    error: Annotated[str, "Set when the plan was refused."]


class DecidedJob(ShownJob):
    """The job of a decision."""


class GrantedSeat(TypedDict):
    """What was given on one server."""

    server: str
    gpus: Annotated[int, "How many."]
    cpus: float
    memory_bytes: int


class GrantRow(TypedDict):
    """A job that holds GPUs after the round."""

    job: DecidedJob | None
    state: Annotated[str, one_of(["kept", "launched", "reconfiguring", "skipped"])]
    seats: list[GrantedSeat]


class PreemptionRow(TypedDict):
    """A job that must stop."""

    job: DecidedJob | None
    rule: Annotated[str, one_of(PreemptRule)]
    by_job: DecidedJob | None
    evidence: Json


class WaitingRow(TypedDict):
    """A job that waits."""

    job: DecidedJob | None
    position: int | None
    reason: Annotated[str, one_of(WaitReason, blank=True), "Empty for a job that you may not see."]
    evidence: Json


class OrderRow(TypedDict):
    """One place in the order of the policy."""

    job: DecidedJob | None
    key: Annotated[str | None, "What the policy sorts by, smallest first; null for a job that you may not see."]


class TrialRow(TypedDict):
    """A change that introspection tried on running jobs, with the speeds before and after."""

    kind: Annotated[str, "pack, move or grow."]
    jobs: list[DecidedJob]
    servers: list[str]
    verdict: Annotated[str, "trying, kept, undone or gone."]
    rates_before: Annotated[list[float | None], "Mini-batches a second, by job."]
    rates_after: Annotated[list[float | None], "Empty until it was measured."]
    gain: Annotated[float | None, "Of a pair on shared GPUs: together, of one alone in turn."]


class RoundDetailRow(RoundRow):
    """One decision with what it decided."""

    same_as: Annotated[int | None, "The earlier round with the same decisions, word for word."]
    grants: list[GrantRow]
    preemptions: list[PreemptionRow]
    waiting: list[WaitingRow]
    waiting_by_reason: dict[str, int]
    grants_by_state: Annotated[dict[str, int], "All of them, shown or not."]
    order: Annotated[list[OrderRow], "The first ones."]
    trials: list[TrialRow]
    is_shortened: Annotated[bool, "Whether only the first decisions of a kind are shown."]


class ScoreFigures(TypedDict):
    """Figures of one replay."""

    avg_jct_s: float
    avg_rho: float
    max_rho: float
    avg_queueing_s: float


class ScoreRow(TypedDict):
    """Both configurations, replayed on the jobs that had ended by then."""

    at: Moment
    since: Moment
    num_jobs: int
    live: ScoreFigures
    shadow: ScoreFigures


class ShadowReport(TypedDict):
    """The shadow policy and how it compares."""

    chosen: Annotated[Json | None, "Fields as in /settings; null: there is no shadow."]
    since: Moment | None
    chosen_by: str | None
    version: Annotated[int, "The number in the ETag."]
    planned_rounds: Annotated[int, "Rounds that it has planned."]
    scores: list[ScoreRow]


class ShadowRoundRow(TypedDict):
    """What it would have done in one round."""

    round: int
    at: Moment
    planned_at: Moment | None
    took_s: float | None
    error: Annotated[str, "Set when its plan broke a rule."]
    num_same: Annotated[int | None, "Jobs that run with as many GPUs under both."]
    num_only_live: int | None
    num_only_shadow: int | None
    num_other_gpus: int | None
    only_live: Annotated[list[list[int]], "[job number, GPUs], the first ones."]
    only_shadow: Annotated[list[list[int]], "[job number, GPUs], the first ones."]
    other_gpus: Annotated[list[list[int]], "[job number, GPUs live, GPUs shadow], the first ones."]
