"""What failed in an attempt, in words for its owner."""

from scheduler.core.model.lifecycle import EndCause
from scheduler.core.operations.failures import FailureClass
from scheduler.selectors.jobs.rows import AttemptRow

WORDS: dict[str, str] = {
    FailureClass.INCORRECT_INPUT: "Input data cannot be read",
    FailureClass.SYNTAX: "Syntax error in the script",
    FailureClass.IMPORT: "A library or program is missing",
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


def failure_words(attempt: AttemptRow) -> str:
    """Return what failed in an attempt; empty when nothing did, or it is not known."""
    if attempt["end_cause"] == EndCause.COMMAND_NOT_FOUND:
        return "The command cannot be run"  # it may be there, and not be one that the job may run
    return WORDS.get(attempt["failure"], "")
