"""What client and command read of the server's answers; the answers hold more, which ``-o json`` shows.

They know nothing of the server's code, so these fields are named again here.
``tests/integration/api/jobs/test_command.py`` holds them against the rows of the server.
"""

from typing import Any, TypedDict

JsonObject = dict[str, Any]  # an object whose keys are not known here: a spec, or an answer that is printed as it is


class Check(TypedDict):
    """One thing that was checked."""

    name: str
    ok: bool
    text: str


class AttemptAnswer(TypedDict):
    """The newest run of a job."""

    number: int
    exit_code: int | None
    exit_signal: int | None


class JobLine(TypedDict):
    """A job in a list."""

    id: str
    number: int
    name: str
    queue: str
    owner: str
    state: str
    phase: str
    wanted: str
    num_gpus: int
    array: str
    step: int | None
    total_steps: int | None
    loss: float | None
    idle_since: str | None
    wait_sentence: str
    state_changed_at: str
    end_cause: str
    end_detail: str


class Directory(TypedDict):
    """What a job keeps in the shared directory."""

    size_bytes: int
    kept_until: str | None


class FileLine(TypedDict):
    """A name in a folder of a job."""

    name: str
    path: str
    kind: str
    size_bytes: int | None
    changed_at: str


class FolderAnswer(TypedDict):
    """A part of a folder of a job."""

    results: list[FileLine]
    next: str | None
    reason: str


class WrittenLoss(TypedDict):
    """The loss of a job that reported none, as its files say it."""

    loss: float
    source: str


class JobAnswer(JobLine):
    """One job in full."""

    spec: JsonObject
    warnings: list[str]
    written_loss: WrittenLoss | None
    kept: str
    attempt: AttemptAnswer | None
    max_attempts: int
    failures: int
    preemptions: int
    directory: Directory | None
    actions: list[str]


class SubmittedJob(TypedDict):
    """One of many jobs that were stored together."""

    id: str
    number: int
    name: str


class LogPiece(TypedDict):
    """A piece of a log, and why there is none."""

    text: str
    attempt: int | None
    end_offset: int
    truncated: bool
    reason: str


class Estimate(TypedDict):
    """When a job starts."""

    known: bool
    p50_at: str
    p90_at: str | None
    futures: int
    sentence: str


class JobAhead(TypedDict):
    """A job that goes first; id and number are null where it may not be seen."""

    number: int | None
    name: str
    num_gpus: int
    sentence: str


class Change(TypedDict):
    """What would start a waiting job."""

    title: str
    sentence: str
    change: JsonObject


class Build(TypedDict):
    """A Python environment on one server."""

    server: str
    state: str
    changed_at: str
    detail: str
    again_at: str | None


class EnvironmentAnswer(TypedDict):
    """The Python environment that a job waits for, or failed by."""

    source: str
    sentence: str
    builds: list[Build]
    log: str


class Explanation(TypedDict):
    """Why a job waits."""

    state: str
    sentence: str
    since: str | None
    waits_since: str | None
    position: int | None
    waiting_jobs: int | None
    queue_position: int | None
    queue_waiting_jobs: int | None
    ahead: list[JobAhead]
    environment: EnvironmentAnswer | None
    checks: list[Check]
    estimate: Estimate | None
    estimate_basis: str
    kept: str
    unblock: list[Change]
    unblock_sentence: str


class PreemptedJob(TypedDict):
    """A running job that would have to make room."""

    number: int | None
    name: str
    queue: str
    num_gpus: int
    rule: str


class Preview(TypedDict):
    """What would become of a job."""

    feasible: bool | None
    starts: str
    position: int | None
    waiting_jobs: int | None
    preempts: list[PreemptedJob]
    estimate: Estimate | None


class DryRun(TypedDict):
    """The answer to a dry run."""

    checks: list[Check]
    warnings: list[str]
    preview: Preview
