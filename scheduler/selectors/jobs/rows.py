"""Rows of jobs, their attempts and their course: each field is named here once.

``listing`` and ``history`` fill them. A field added here is asked for by the type checker where the row is made, and
appears in the OpenAPI document by itself.
"""

from typing import Annotated, Literal, TypedDict

from scheduler.core.model.lifecycle import PREPARING, EndCause, JobState
from scheduler.core.model.plan import PreemptRule, WaitReason
from scheduler.core.operations.failures import FailureClass
from scheduler.core.operations.kept import KEEPS_WORK
from scheduler.models.job import AttemptKind, AttemptState
from scheduler.selectors.cluster.environments import EnvironmentRow
from scheduler.selectors.rows import Json, Moment, NamedJob, one_of

JobAction = Literal["cancel", "suspend", "resume", "restore", "keep", "discard"]


class SeatRow(TypedDict):
    """What an attempt holds on one server."""

    server_id: str
    server: Annotated[str, "Name of the server."]
    gpus: Annotated[list[int], "Indexes of the GPUs."]
    cpus: Annotated[float, "Cores."]
    memory_bytes: int


class AttemptRow(TypedDict):
    """One run of a job."""

    id: str
    number: int
    state: Annotated[str, one_of(AttemptState)]
    run_kind: Annotated[str, one_of(AttemptKind), "smoke: its first iterations, on one GPU."]
    wanted: Annotated[str, one_of(["run", "preempt", "suspend", "cancel"]), "What its agent is asked for."]
    num_gpus: int
    round: Annotated[int, "The round that gave it its place."]
    created_at: Moment
    started_at: Annotated[Moment | None, "When its process was seen first."]
    stop_requested_at: Moment | None
    ended_at: Moment | None
    end_cause: Annotated[str, one_of(EndCause, blank=True)]
    end_detail: str
    exit_code: int | None
    exit_signal: int | None
    failure: Annotated[str, one_of(FailureClass, blank=True), "What failed; empty when nothing did or it is unknown."]
    failure_line: Annotated[str, "The line of its output that says so, without secrets."]
    resume_step: Annotated[int | None, "Step of the checkpoint that it continued from."]
    first_step: int | None
    last_step: int | None
    peak_memory_bytes: int | None
    log_bytes: int
    lost_s: Annotated[float | None, "Work lost since the last checkpoint, seconds."]
    servers: list[SeatRow]


class ReceiptRow(TypedDict):
    """By whom and by which rule an attempt was preempted."""

    rule: Annotated[str, one_of(PreemptRule)]
    at: Moment | None
    lost_s: float | None
    by_job: NamedJob | None


class RunRow(AttemptRow):
    """A run on the timeline of a job."""

    kind: Literal["attempt"]
    start: Moment
    end: Annotated[Moment | None, "null: until now."]
    duration_s: Annotated[float, "From the round that placed it, its launch included."]
    ran_s: Annotated[float, "Of its process: without the launch and without turns that other jobs had."]
    receipt: ReceiptRow | None


class GapRow(TypedDict):
    """A time in which the job waited for one reason."""

    kind: Literal["wait", "suspended"]
    reason: str
    start: Moment
    end: Annotated[Moment | None, "null: until now."]
    duration_s: float


TimelineRow = RunRow | GapRow


class JobRow(TypedDict):
    """One line of a list of jobs."""

    id: Annotated[str, "ULID."]
    number: Annotated[int, "Shown as J-<number>."]
    name: str
    queue: str
    color_slot: Annotated[int, "Colour of the queue on pages, 1 to 8."]
    owner: str
    state: Annotated[str, one_of(JobState)]
    phase: Annotated[
        str, one_of([*JobState, PREPARING]), "Its state, or preparing: queued until its environment is built."
    ]
    wanted: Annotated[str, one_of(["run", "suspend", "cancel"]), "What its owner wants."]
    num_gpus: int
    array: Annotated[str, "A-<number> of its array; empty for a job of its own."]
    array_index: Annotated[int | None, "Which job of the array it is."]
    priority: int
    step: int | None
    total_steps: int | None
    loss: float | None
    steps_per_s: float | None
    idle_since: Annotated[Moment | None, "Since when its GPUs do nothing, where that is longer than its queue allows."]
    wait_reason: Annotated[str, one_of(WaitReason, blank=True), "Why it waits; empty when it does not."]
    wait_sentence: Annotated[str, "The same in words, with numbers."]
    wait_position: Annotated[int | None, "1 for the first in the order of the policy."]
    submitted_at: Moment
    first_started_at: Moment | None
    state_changed_at: Moment
    ended_at: Moment | None
    end_cause: Annotated[str, one_of(EndCause, blank=True)]
    end_detail: str


class Checkpoint(TypedDict):
    """Where the job would continue."""

    attempt: Annotated[int, "Number of the attempt that wrote it."]
    name: str
    step: int | None
    at: Moment | None


class Directory(TypedDict):
    """What the job keeps in the shared directory, at every attempt."""

    size_bytes: Annotated[int, "With its HOME, as last measured."]
    kept_until: Annotated[
        Moment | None, "The later of queue_keeps_until and what a user asked for; null while the job has not ended."
    ]
    queue_keeps_until: Annotated[Moment | None, "By the rule of its queue alone; null while the job has not ended."]
    removal_at: Annotated[Moment | None, "Since when it is to be removed."]
    removed_at: Annotated[Moment | None, "When it was gone."]


class WrittenLossRow(TypedDict):
    """The loss of a job that reported none, as its own files say it."""

    loss: float
    step: int | None
    source: Annotated[str, "Column and file: `loss in metrics.csv`."]


class JobDetail(JobRow):
    """Everything about one job."""

    environment: Annotated[
        EnvironmentRow | None, "null for a job that needs none, or names one that is on the servers."
    ]

    spec: Annotated[Json, "As stored, with every default."]
    warnings: Annotated[list[str], "What of its command is probably not meant: signs that only a shell would read."]
    wait_evidence: Json
    wait_since: Moment | None
    wait_round: int | None
    retry_after: Annotated[Moment | None, "Not tried again before, after a failure."]
    preemptible: bool
    max_attempts: int
    profile: str
    attained_gpu_s: Annotated[float, "GPU-seconds of closed leases."]
    executed_s: float
    queueing_s: float
    preemptions: int
    failures: int
    saved_gpu_s: Annotated[float | None, "GPU-seconds left unused because it was stopped early."]
    progress_at: Moment | None
    written_loss: Annotated[WrittenLossRow | None, "null where it reported its loss, or none is known."]
    checkpoint: Checkpoint | None
    keeps_work: Annotated[
        str | None,
        one_of(KEEPS_WORK),
        "unknown: it has run and told of no checkpoint, so what it saves itself is not known. null before it has run.",
    ]
    kept: Annotated[str, "What is kept of its work and what its end would lose, in words; empty before it has run."]
    directory: Annotated[Directory | None, "null for a job that never started."]
    attempt: Annotated[AttemptRow | None, "The newest one."]
    num_events: int
    actions: Annotated[list[JobAction], "What you may do with it now."]


class BadItemRow(TypedDict):
    """An item of a dataset that was left out."""

    dataset: str
    attempt: Annotated[int, "Number of the attempt that found it."]
    key: Annotated[str, "As the script names it."]
    error: Annotated[str, "What reading or decoding it raised."]
