"""What each class of failure is called, for pages and for the sentence that stays with a failed job."""

from scheduler.core.operations.failures import FailureClass

FAILURE_WORDS: dict[str, str] = {
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
