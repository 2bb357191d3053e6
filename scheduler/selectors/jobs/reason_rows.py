"""Rows of why a job waits, when it starts, and what would start it.

``explain`` and ``estimates`` fill the first, ``scheduler.whatif`` those that need a planned round or simulated futures.
"""

from typing import Annotated, Literal, TypedDict

from scheduler.core.model.lifecycle import JobState
from scheduler.core.model.plan import PreemptRule, WaitReason
from scheduler.core.operations.kept import KEEPS_WORK
from scheduler.selectors.cluster.environments import EnvironmentRow
from scheduler.selectors.jobs.rows import GapRow
from scheduler.selectors.rows import Json, Moment, ShownJob, one_of


class CheckRow(TypedDict):
    """One thing that was checked."""

    name: str
    ok: bool
    text: Annotated[str, "What was found."]


class JobAhead(ShownJob):
    """A job that goes first."""

    position: int | None
    num_gpus: int
    reason: str
    sentence: str


class EstimateRow(TypedDict):
    """When a waiting job starts, from futures simulated after a round."""

    known: bool
    p50_at: Annotated[Moment | None, "Half of the futures start it by then."]
    simulated_p90_at: Annotated[Moment | None, "Nine in ten; null where that many do not start it within 7 days."]
    p90_at: Annotated[
        Moment | None,
        "The same, stretched by how far earlier ones were off; null where that is later than 7 days.",
    ]
    made_at: Moment | None
    round: int | None
    futures: Annotated[int, "How many were simulated."]
    reason: Annotated[str, "Why nothing is known; empty when something is."]
    sentence: Annotated[str, "The same in words."]


class EstimateError(TypedDict):
    """How far first estimates of the last 7 days were off, once jobs started."""

    starts: Annotated[int, "Starts that had an estimate."]
    median_error_s: Annotated[float, "Median size of the error of `p50_at`."]
    covered_frac: Annotated[float | None, "Share that had started by `p90_at`, or had none."]
    covered_simulated_frac: Annotated[float | None, "Share that had started by `simulated_p90_at`."]
    untold_frac: Annotated[float | None, "Share without `p90_at`: later than 7 days."]
    ratios: Annotated[int, "Ended waits by which the next `p90_at` are stretched, at most 500."]


class PlaceInLine(TypedDict):
    """Where a waiting job stands in the order of the policy; all null or empty when it has no place there."""

    position: Annotated[
        int | None,
        "Place in the cluster; 1 is next. null before its first round, and while it may not start whatever ends.",
    ]
    waiting_jobs: Annotated[int | None, "Jobs that have a place, parked ones included."]
    queue_position: int | None
    queue_waiting_jobs: int | None
    num_ahead: int
    ahead: Annotated[list[JobAhead], "The nearest of them."]


class Explanation(PlaceInLine):
    """Why a job waits."""

    round: Annotated[int | None, "The round that said so."]
    state: Annotated[str, one_of(JobState)]
    reason: Annotated[str, one_of(WaitReason, blank=True), "The binding constraint; empty when it does not wait."]
    sentence: str
    evidence: Annotated[Json, "The numbers of the reason."]
    needed_change: Annotated[str, "What completes 'It cannot start until ...'; empty where ends of jobs may start it."]
    since: Annotated[Moment | None, "Since when it waits for this reason."]
    waits_since: Annotated[Moment | None, "Since when it waits: its submission, or when it was stopped."]
    policy: str
    environment: Annotated[
        EnvironmentRow | None, "Of a job that waits for its Python environment, or failed by it; else null."
    ]
    checks: list[CheckRow]
    held_back: Annotated[list[GapRow], "What it waited for so far."]
    estimate: Annotated[EstimateRow | None, "null when it does not wait."]
    estimate_error: EstimateError | None
    estimate_basis: Annotated[str, "On how much a known estimate rests, in words; whether that is too little."]
    keeps_work: Annotated[str | None, one_of(KEEPS_WORK), "unknown: it has run and told of no checkpoint."]
    kept: Annotated[str, "What is kept of its work and what its end would lose, in words; empty before it has run."]


class SizedJob(ShownJob):
    """A job as far as the reader may see it, with its size."""

    num_gpus: int


class PreemptedJob(SizedJob):
    """A running job that would have to make room."""

    rule: Annotated[str, one_of(PreemptRule)]


class UnblockRow(TypedDict):
    """A change with which a waiting job starts, tried before it is told."""

    key: Annotated[str, one_of(["queue", "max_servers", "resources", "min_gpus", "gpus"])]
    title: str
    change: Annotated[Json, "The body of `POST /jobs/{id}/unblock` that makes it so."]
    starts: Literal["now", "after_others_leave", "sooner"]
    sentence: str
    p50_at: Annotated[Moment | None, "Of a change that starts it sooner."]
    sooner_s: Annotated[float | None, "By how much, seconds; null where as it is it does not start at all."]
    preempts: list[PreemptedJob]


class ExplanationWithChanges(Explanation):
    """Why a job waits."""

    unblock: Annotated[list[UnblockRow], "Up to three; none when you may not change the job."]
    unblock_sentence: Annotated[str, "Where there is none: what was tried, and what has to change first."]


class SimulatedStart(TypedDict):
    """When a job that is asked about starts, from futures simulated for the question."""

    known: bool
    p50_at: Annotated[Moment | None, "Half of the futures start it by then."]
    simulated_p90_at: Annotated[Moment | None, "Nine in ten; null where that many do not start it within 7 days."]
    p90_at: Annotated[
        Moment | None,
        "The same, stretched by how far earlier ones were off; null where that is later than 7 days.",
    ]
    futures: Annotated[int, "How many were simulated; 0 for a job that starts with the next round."]
    reason: Annotated[str, "Why nothing is known; empty when something is."]
    sentence: Annotated[str, "The same in words."]


class PlannedSeatRow(TypedDict):
    """What the next round would give on one server."""

    server_id: str
    server: Annotated[str, "Name of the server."]
    num_gpus: int
    cpus: Annotated[float, "Cores."]
    memory_bytes: int


class JobPreview(TypedDict):
    """What the next round would do with a job that is not submitted yet."""

    feasible: Annotated[bool | None, "false: no round could ever start it; null: no server is up."]
    starts: Annotated[str, one_of(["now", "after_others_leave", "later", "never", "unknown"])]
    sentence: Annotated[str, "The answer in words."]
    largest_gpus: Annotated[int | None, "Where it never starts: the most GPUs with which it could."]
    round: Annotated[int, "The round before the question."]
    reason: Annotated[str, one_of(WaitReason, blank=True), "Why it would wait; empty when it would not."]
    evidence: Annotated[Json, "The numbers of the reason."]
    position: Annotated[int | None, "Its place in the order of the policy."]
    waiting_jobs: Annotated[int | None, "Of so many that then wait."]
    placement: Annotated[list[PlannedSeatRow], "Where it starts; empty when it waits."]
    preempts: Annotated[list[PreemptedJob], "Jobs that have to make room for it."]
    estimate: Annotated[SimulatedStart | None, "When; null where it never starts or no server is up."]


class DryRun(TypedDict):
    """What would be stored, and what would become of it."""

    spec: Json
    checks: list[CheckRow]
    warnings: Annotated[list[str], "What of its command is probably not meant: signs that only a shell would read."]
    preview: JobPreview


class ElasticJobRow(SizedJob):
    """An elastic running job, and what one GPU more or fewer does to it."""

    change: int  # of its GPUs, were one more free
    gain_frac: float | None  # in speed with one GPU more; None at its most
    loss_frac: float | None
    is_measured: bool  # else speed is assumed in proportion to GPUs
    remaining_s: float | None
    is_own: bool


class NextGpu(TypedDict):
    """Which elastic job would get one more GPU, and why: shortness, efficiency, or empty."""

    policy: str
    winner: ElasticJobRow | None
    why: str
    rows: list[ElasticJobRow]
