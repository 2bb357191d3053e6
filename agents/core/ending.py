"""Decide why an attempt ended: one cause of the scheduler's list and one sentence with the numbers. Pure."""

import signal
from dataclasses import dataclass

from agents.core.records import EXIT_STOPPED

# End cause of an attempt that ended because it was asked to, by what was wanted. An attempt that is to park before it
# has begun ends as well: there is nothing to keep.
ENDS: dict[str, str] = {
    "park": "preempted",
    "preempt": "preempted",
    "suspend": "suspended",
    "cancel": "cancelled",
}
# Ends that say nothing about what failed: the output may.
UNEXPLAINED = frozenset({"exit_code", "signal"})
# A shell that was ended by signal n exits with 128 + n.
_SHELL_SIGNALS = range(129, 129 + 64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How the training process ended; exactly one is not None."""

    code: int | None
    signal: int | None


@dataclass(slots=True, kw_only=True)
class Stop:
    """A stop that the supervisor has begun; it is never taken back.

    Attributes:
        cause: End cause if the job ends by it.
        detail: One sentence.
        term_at_s, kill_at_s: When the signals are due, CLOCK_BOOTTIME.
        is_term_sent, is_kill_sent: Whether they went out.
        is_fault: The job broke a limit: whatever its exit, that is the cause.
    """

    cause: str
    detail: str
    term_at_s: float
    kill_at_s: float
    is_term_sent: bool = False
    is_kill_sent: bool = False
    is_fault: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EndEvidence:
    """What is known when the last process is gone.

    Attributes:
        exit: Of the training process.
        stop: The end that was begun, if any.
        said_stopped, said_completed: What the job itself reported last.
        is_disk_full: The disk had no room while it ran.
        is_kernel_oom: The kernel's out-of-memory killer struck on this machine while it ran.
        is_over_limit: It struck the job because that took more than it was granted.
    """

    exit: Exit
    stop: Stop | None
    said_stopped: bool
    said_completed: bool
    is_disk_full: bool
    is_kernel_oom: bool
    is_over_limit: bool = False


def signal_name(number: int) -> str:
    """Return the name of a signal, such as SIGKILL."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def size_text(num_bytes: int) -> str:
    """Return a size for people: 312 MiB, 1.5 GiB."""
    if num_bytes >= 1 << 30:
        return f"{num_bytes / (1 << 30):.1f} GiB"
    return f"{num_bytes / (1 << 20):.0f} MiB" if num_bytes >= 1 << 20 else f"{num_bytes} bytes"


def end_cause(evidence: EndEvidence) -> tuple[str, str]:
    """Return the end cause and its sentence."""
    stop, code = evidence.stop, evidence.exit.code
    if stop is not None and stop.is_fault:
        return stop.cause, stop.detail
    if code == 0 and _is_complete(evidence):
        return "completed", ""
    if stop is not None and _is_by_stop(evidence, stop):
        return stop.cause, stop.detail
    return _by_itself(evidence)


def _is_complete(evidence: EndEvidence) -> bool:
    """Return whether exit code 0 means that the job is done.

    A script that ends with 0 on TERM looks just like one that is done. Of the two mistakes, calling an interrupted job
    complete loses its work and running a complete one again only costs time.
    """
    if evidence.said_completed or evidence.stop is None:
        return True
    return not evidence.said_stopped and not evidence.stop.is_term_sent


def _is_by_stop(evidence: EndEvidence, stop: Stop) -> bool:
    """Return whether the exit is the answer to our stop and no failure of the job's own."""
    if evidence.exit.signal is not None or evidence.said_stopped:
        return True
    code = evidence.exit.code
    return code in (0, EXIT_STOPPED) or code in _SHELL_SIGNALS or stop.is_term_sent


def _by_itself(evidence: EndEvidence) -> tuple[str, str]:
    if evidence.is_disk_full:
        return "out_of_disk", "The disk was full while it ran."
    number = evidence.exit.signal
    if number is None:
        return "exit_code", f"The command ended with exit code {evidence.exit.code}."
    if number == signal.SIGKILL and evidence.is_over_limit:
        return "out_of_memory", "The kernel ended it because it took more memory than it was granted."
    if number == signal.SIGKILL and evidence.is_kernel_oom:
        return "out_of_memory", "The kernel ended it because the machine was out of memory."
    if number == signal.SIGXFSZ:
        return "out_of_disk", "It wrote a file larger than its disk grant."
    return "signal", f"It was ended by {signal_name(number)}, which the supervisor did not send."
