"""How long a job has that is to end: for its answer, after its signal, and what its command leaves behind. Pure.

The same for one that is to leave its devices and stay.

``supervision.py`` says when an end begins; ``ending.py`` names its cause.
"""

from dataclasses import dataclass

# The longest time between signal and KILL for a job that is cancelled or over its time, seconds.
SHORT_GRACE_S = 10.0
# The time between signal and KILL for processes that a command leaves behind when it ends by itself, seconds.
LEFTOVER_S = 10.0


@dataclass(slots=True, kw_only=True)
class Stop:
    """A stop that the supervisor has begun; it is never taken back.

    Attributes:
        cause: End cause if the job ends by it.
        detail: One sentence.
        signal_at_s, kill_at_s: When the signals are due, CLOCK_BOOTTIME.
        is_signalled, is_kill_sent: Whether they went out.
        is_fault: The job broke a limit: whatever its exit, that is the cause.
        is_warning: Its time is not over yet: another wish to end it comes first.
    """

    cause: str
    detail: str
    signal_at_s: float
    kill_at_s: float
    is_signalled: bool = False
    is_kill_sent: bool = False
    is_fault: bool = False
    is_warning: bool = False

    @staticmethod
    def begin(
        cause: str, detail: str, *, now_s: float, grace_s: float, is_gentle: bool, reads_requests: bool
    ) -> "Stop":
        """Return a stop that begins now.

        A job that reads requests answers one before it gets a signal, within a grace of its own; any other would only
        lose that time.
        """
        answer_s = grace_s if is_gentle and reads_requests else 0.0
        after_s = grace_s if is_gentle else min(grace_s, SHORT_GRACE_S)
        return Stop(cause=cause, detail=detail, signal_at_s=now_s + answer_s, kill_at_s=now_s + answer_s + after_s)

    @staticmethod
    def warning(detail: str, *, now_s: float, left_s: float, grace_s: float, reads_requests: bool) -> "Stop":
        """Return the stop of a job whose time is over in ``left_s``: it has until then."""
        answer_s = max(0.0, left_s - min(grace_s, SHORT_GRACE_S)) if reads_requests else 0.0
        return Stop(
            cause="time_limit",
            detail=detail,
            signal_at_s=now_s + answer_s,
            kill_at_s=now_s + left_s,
            is_warning=True,
        )

    @staticmethod
    def fault(cause: str, detail: str, *, now_s: float) -> "Stop":
        """Return the stop of a job that broke a limit: it is killed now, and gets no other signal."""
        return Stop(cause=cause, detail=detail, signal_at_s=now_s, kill_at_s=now_s, is_signalled=True, is_fault=True)

    def give_way(self, other: "Stop") -> None:
        """Become another stop that is asked for meanwhile; what was due sooner stays so."""
        self.cause, self.detail, self.is_warning = other.cause, other.detail, False
        self.signal_at_s = min(self.signal_at_s, other.signal_at_s)
        self.kill_at_s = min(self.kill_at_s, other.kill_at_s)


@dataclass(slots=True, kw_only=True)
class Leftovers:
    """What is left of a job whose command has ended: processes that it started.

    Attributes:
        kill_at_s: When they are killed, CLOCK_BOOTTIME.
        is_signalled: Whether they got the signal.
        is_cleared: Whether they are being killed, or none is left.
    """

    kill_at_s: float
    is_signalled: bool = False
    is_cleared: bool = False

    @staticmethod
    def of(stop: Stop | None, *, now_s: float, grace_s: float, is_answered: bool, may_run: bool) -> "Leftovers":
        """Return when the processes left by a command are killed.

        Args:
            stop: The end that has begun, if any.
            now_s: When the command ended.
            grace_s: After a signal.
            is_answered: The job said that it has done what it was asked to, or all it had to.
            may_run: It is neither out of its lease nor off devices that are another job's by now.
        """
        if not may_run or (stop is not None and stop.is_fault):
            return Leftovers(kill_at_s=now_s)
        if stop is None:
            return Leftovers(kill_at_s=now_s + LEFTOVER_S)
        # One of them may be the process that saves, and the command, which only waited for it, has died of the signal.
        after_s = LEFTOVER_S if is_answered else grace_s
        return Leftovers(kill_at_s=min(stop.kill_at_s, now_s + after_s), is_signalled=stop.is_signalled)


@dataclass(slots=True, kw_only=True)
class Parking:
    """A job that has left its devices, or is asked to.

    Attributes:
        request: Number of the request that asks for it.
        stop_at_s: When it is stopped by SIGSTOP unless it has answered, CLOCK_BOOTTIME.
        since_s: When it left its devices; None while it is on its way.
        is_stopped: It was stopped by SIGSTOP: it holds the memory of its devices and cannot be asked anything.
    """

    request: int
    stop_at_s: float
    since_s: float | None = None
    is_stopped: bool = False
