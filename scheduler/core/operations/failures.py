"""Classify failures, and decide whether a job is tried again: retries, back-off, same failure twice, smoke run.

The live scheduler knows *that* an attempt ended and by which ``EndCause``; what failed inside it is a ``FailureClass``.
``class_of`` says what the one tells about the other.

Source: Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads" (Philly), ATC 2019,
sections 4 and 5. Differs: times are ours where the paper has none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from scheduler.core.model.lifecycle import EndCause


class FailureClass(StrEnum):
    """The cause of a failed attempt. A closed list."""

    INCORRECT_INPUT = "incorrect_input"  # data that is missing, broken or of another form
    SYNTAX = "syntax"  # the script cannot be read
    IMPORT = "import"  # a library or a program is missing
    CPU_OOM = "cpu_oom"  # more host memory than granted
    GPU_OOM = "gpu_oom"  # more GPU memory than there is
    CONFIG = "config"  # arguments or settings that the script refuses
    DISK_FULL = "disk_full"  # more disk than granted, or than there is
    STALLED = "stalled"  # went on without progress
    SEMANTIC = "semantic"  # versions or settings that do not go together; shows late
    CHECKPOINT = "checkpoint_error"  # a checkpoint could not be written or read
    INVALID_MEMORY = "invalid_memory"  # invalid memory access
    MPI = "mpi"  # the communication runtime
    NETWORK = "network"
    STORAGE = "storage"  # the shared file system
    NODE = "node"  # the server or what runs there for us
    PREEMPTED = "preempted"  # stopped for another job; not a failure
    UNCLASSIFIED = "unclassified"  # ended by an exit code or signal that tells nothing


# What each is called, on pages and in the sentence that stays with a failed job; the others say nothing to people.
FAILURE_WORDS: dict[str, str] = {
    FailureClass.INCORRECT_INPUT: "Input data cannot be read",
    FailureClass.SYNTAX: "Syntax error in the script",
    FailureClass.IMPORT: "A library, program or script is missing",
    FailureClass.CONFIG: "Arguments or settings refused",
    FailureClass.CPU_OOM: "Too little memory",
    FailureClass.GPU_OOM: "Too little GPU memory",
    FailureClass.DISK_FULL: "No disk space left",
    FailureClass.STALLED: "No progress",
    FailureClass.SEMANTIC: "Shapes, types, versions or settings do not fit",
    FailureClass.CHECKPOINT: "A checkpoint cannot be read or written",
    FailureClass.INVALID_MEMORY: "Invalid memory access",
    FailureClass.MPI: "Communication between ranks failed",
    FailureClass.NETWORK: "Network failed",
    FailureClass.STORAGE: "Shared storage failed",
    FailureClass.NODE: "Server or device failed",
}
# Failures that the next attempt repeats, because the cause is in the job.
OWN = frozenset(
    {
        FailureClass.INCORRECT_INPUT,
        FailureClass.SYNTAX,
        FailureClass.IMPORT,
        FailureClass.CONFIG,
        FailureClass.CPU_OOM,
        FailureClass.GPU_OOM,
        FailureClass.DISK_FULL,
        FailureClass.STALLED,
        FailureClass.SEMANTIC,
        FailureClass.INVALID_MEMORY,
        FailureClass.UNCLASSIFIED,
    }
)
# Failures of machines, networks and shared services, which the next attempt may escape.
MACHINE = frozenset(
    {FailureClass.CHECKPOINT, FailureClass.MPI, FailureClass.NETWORK, FailureClass.STORAGE, FailureClass.NODE}
)
# Failures that show in the first iterations, on one GPU as on many.
SHOWS_AT_START = frozenset(
    {
        FailureClass.INCORRECT_INPUT,
        FailureClass.SYNTAX,
        FailureClass.IMPORT,
        FailureClass.CONFIG,
        FailureClass.CPU_OOM,
        FailureClass.GPU_OOM,
    }
)
# Failures that no further attempt heals: what the user wrote has to change.
UNHEALABLE = frozenset({FailureClass.SYNTAX, FailureClass.IMPORT, FailureClass.CONFIG})

_CLASS_OF = {
    EndCause.PREEMPTED: FailureClass.PREEMPTED,
    EndCause.EXIT_CODE: FailureClass.UNCLASSIFIED,
    EndCause.SIGNAL: FailureClass.UNCLASSIFIED,
    EndCause.OUT_OF_MEMORY: FailureClass.CPU_OOM,
    EndCause.OUT_OF_DISK: FailureClass.DISK_FULL,
    EndCause.PROCESS_LIMIT: FailureClass.UNCLASSIFIED,
    EndCause.STALLED: FailureClass.STALLED,
    EndCause.COMMAND_NOT_FOUND: FailureClass.IMPORT,
    EndCause.SECRET_MISSING: FailureClass.CONFIG,
    EndCause.ENVIRONMENT: FailureClass.CONFIG,
    EndCause.LAUNCH_FAILED: FailureClass.NODE,
    EndCause.SERVER_LOST: FailureClass.NODE,
    EndCause.SUPERVISOR_LOST: FailureClass.NODE,
    EndCause.LAUNCH_UNCONFIRMED: FailureClass.NODE,
}


def class_of(cause: EndCause) -> FailureClass | None:
    """Return what an end cause tells about the failure; None when the attempt did not fail."""
    return _CLASS_OF.get(cause)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedAttempt:
    """One attempt that failed.

    Attributes:
        failure: What failed.
        run_s: Seconds it ran.
        signature: What two failures must share, beside the class, to be called the same.
    """

    failure: FailureClass
    run_s: float
    signature: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRules:
    """When a failed job is tried again.

    Attributes:
        most_retries: Attempts after the first; Philly's R_max.
        stops_on_same: Whether the same failure of the job's own, twice in a row, ends it.
        backoff_first_s: Pause after the first failure of a machine; doubles with each further one in a row.
        backoff_most_s: The longest pause.
        avoid_server_s: How long a job stays off the servers on which a machine failed under it.
        smoke_run_s: Length of the first iterations on one GPU before a wider start; 0 for no smoke run.
    """

    most_retries: int = 4
    stops_on_same: bool = True
    backoff_first_s: float = 60.0
    backoff_most_s: float = 3_600.0
    avoid_server_s: float = 3_600.0
    smoke_run_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryAfter:
    """The job goes back to its queue.

    Attributes:
        backoff_s: Time it may not start, seconds.
        avoid_server_s: Time it stays off the servers of the failed attempt, seconds.
    """

    backoff_s: float
    avoid_server_s: float


class NoRetry(StrEnum):
    """Why a job is not tried again."""

    SAME_FAILURE = "same_failure"  # it failed twice in a row in the same way, by its own fault
    RETRIES_USED_UP = "retries_used_up"
    SMOKE_RUN_FAILED = "smoke_run_failed"  # it failed in its first iterations on one GPU


def after_failure(failed: Sequence[FailedAttempt], rules: RetryRules) -> RetryAfter | NoRetry:
    """Return when a job is tried again, or why it is not.

    Args:
        failed: Its failed attempts, newest first; at least one. A preemption is not among them.
        rules: When it is tried again.
    """
    last = failed[0]
    is_own = last.failure in OWN
    if is_own and rules.stops_on_same and len(failed) > 1 and _same(last, failed[1]):
        return NoRetry.SAME_FAILURE
    if len(failed) > rules.most_retries:
        return NoRetry.RETRIES_USED_UP
    if is_own:
        return RetryAfter(backoff_s=0.0, avoid_server_s=0.0)
    in_a_row = next((at for at, attempt in enumerate(failed) if attempt.failure in OWN), len(failed))
    pause_s = backoff_s(in_a_row - 1, first_s=rules.backoff_first_s, most_s=rules.backoff_most_s)
    return RetryAfter(backoff_s=pause_s, avoid_server_s=rules.avoid_server_s)


def _same(one: FailedAttempt, other: FailedAttempt) -> bool:
    return (one.failure, one.signature) == (other.failure, other.signature)


def backoff_s(earlier: int, *, first_s: float, most_s: float) -> float:
    """Return the pause after a failure: ``first_s``, doubled for each ``earlier`` failure, up to ``most_s``."""
    return float(min(most_s, first_s * 2 ** min(earlier, 10)))


def fails_smoke_run(failure: FailureClass, rules: RetryRules) -> bool:
    """Return whether the first iterations on one GPU show a failure before the job gets all its GPUs."""
    return rules.smoke_run_s > 0 and failure in SHOWS_AT_START
