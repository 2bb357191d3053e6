"""Decide why an attempt ended: one cause of the scheduler's list and one sentence with the numbers. Pure.

A limit that a job breaks is such a cause too.
"""

import signal
from dataclasses import dataclass

from agents.core.records import EXIT_STOPPED
from agents.core.stopping import Stop
from agents.protocol.desired_state import AttemptWanted

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
# For so long after its grant shrank a job may use more memory than it is granted, seconds.
SHRINK_GRACE_S = 30.0
# Processes of one attempt; a gang of eight ranks with sixteen data loaders each has fewer than two hundred.
MOST_PROCESSES = 4_096
# A shell that was ended by signal n exits with 128 + n.
_SHELL_SIGNALS = range(129, 129 + 64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How the training process ended; exactly one of code and signal is not None.

    ``came_first``: it had ended before the signal that was to ask it to went out.
    """

    code: int | None
    signal: int | None
    came_first: bool = False


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


class Limits:
    """What one attempt may use.

    Attributes:
        memory_bytes: Now, which is more than was granted last for a while after that shrank; 0 for no limit.
    """

    def __init__(self, order: AttemptWanted, *, granted_bytes: int) -> None:
        self.memory_bytes = order.memory_bytes
        self._granted_bytes = granted_bytes
        self._disk_bytes = order.disk_bytes
        self._shrunk_at_s = 0.0

    def grant(self, memory_bytes: int, *, now_s: float) -> None:
        """Take in a new grant."""
        self._granted_bytes = memory_bytes
        if memory_bytes < self.memory_bytes:
            self._shrunk_at_s = now_s

    def broken_by_memory(self, used_bytes: int, *, now_s: float) -> tuple[str, str] | None:
        """Return end cause and sentence if it uses more memory than it may."""
        granted = self._granted_bytes
        is_late = now_s - self._shrunk_at_s >= SHRINK_GRACE_S
        if granted >= self.memory_bytes or used_bytes <= granted or is_late:
            self.memory_bytes = granted
        if not 0 < self.memory_bytes < used_bytes:
            return None
        of = size_text(self.memory_bytes)
        return "out_of_memory", f"Its processes used {size_text(used_bytes)} of {of} granted memory."

    def broken_by(self, *, num_processes: int, disk_bytes: int) -> tuple[str, str] | None:
        """Return end cause and sentence if it has more processes or has written more than it may."""
        if num_processes > MOST_PROCESSES:
            return "process_limit", f"It had {num_processes} processes, and may have {MOST_PROCESSES}."
        if 0 < self._disk_bytes < disk_bytes:
            of = size_text(self._disk_bytes)
            return "out_of_disk", f"Its directories took {size_text(disk_bytes)} of {of} granted disk."
        return None


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

    A script that ends with 0 on our signal looks just like one that is done. Of the two mistakes, calling an
    interrupted job complete loses its work and running a complete one again only costs time.
    """
    if evidence.said_completed or evidence.stop is None:
        return True
    return not evidence.said_stopped and (evidence.exit.came_first or not evidence.stop.is_signalled)


def _is_by_stop(evidence: EndEvidence, stop: Stop) -> bool:
    """Return whether the exit is the answer to our stop and no failure of the job's own."""
    if evidence.exit.signal is not None or evidence.said_stopped:
        return True
    code, is_answer = evidence.exit.code, stop.is_signalled and not evidence.exit.came_first
    return code in (0, EXIT_STOPPED) or code in _SHELL_SIGNALS or is_answer


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
