"""What happens to a job after one of its attempts ended. Pure.

Decides the next state and the back-off; leaves the accounting and the writing to ``attempts.py``.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.core.failures import backoff_s
from scheduler.core.lifecycle import INFRASTRUCTURE, EndCause, JobState

BACKOFF_S = 5.0
BACKOFF_MOST_S = 300.0
# Two identical failures in a row, each after less run time than this, will not become a success by a third try.
HOPELESS_RUN_S = 60.0

STOPPED = frozenset({EndCause.PREEMPTED, EndCause.SUSPENDED, EndCause.CANCELLED})
FAILS_AT_ONCE = frozenset(
    {EndCause.COMMAND_NOT_FOUND, EndCause.OUT_OF_MEMORY, EndCause.OUT_OF_DISK, EndCause.TIME_LIMIT}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How one attempt ended.

    Attributes:
        cause: Why.
        exit_code: Of the training process when it ended by itself.
        exit_signal: The same for a signal.
        run_s: Seconds from the first report of its process to its end, by the scheduler's clock.
        detail: One sentence with the numbers.
    """

    cause: EndCause
    exit_code: int | None = None
    exit_signal: int | None = None
    run_s: float = 0.0
    detail: str = ""

    @property
    def signature(self) -> tuple[EndCause, int | None, int | None]:
        """What two ends must share to be called the same failure."""
        return self.cause, self.exit_code, self.exit_signal


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What becomes of the job.

    Attributes:
        to: Its next state.
        failures: Failures of its own so far, this one included.
        backoff_s: Time it may not be planned for, seconds; 0 for none.
        detail: The sentence to keep with the job when it is over.
    """

    to: JobState
    failures: int
    backoff_s: float
    detail: str


def outcome_of(*, endings: Sequence[Ending], wanted: str, failures: int, max_attempts: int) -> Outcome:
    """Return what becomes of a job whose newest attempt has ended.

    Args:
        endings: How its attempts ended, newest first; at least one.
        wanted: What its owner wants: run, suspend or cancel.
        failures: Failures of the job's own before this end.
        max_attempts: Attempts that may end by the job's own fault before it fails.
    """
    end = endings[0]
    if end.cause is EndCause.COMPLETED:
        return Outcome(to=JobState.COMPLETED, failures=failures, backoff_s=0.0, detail=end.detail)
    if wanted == "cancel":
        return Outcome(to=JobState.CANCELLED, failures=failures, backoff_s=0.0, detail=end.detail)
    again = JobState.SUSPENDED if wanted == "suspend" else JobState.QUEUED
    if end.cause in STOPPED:
        return Outcome(to=again, failures=failures, backoff_s=0.0, detail=end.detail)
    if end.cause in INFRASTRUCTURE:
        return Outcome(to=again, failures=failures, backoff_s=_infrastructure_backoff_s(endings), detail=end.detail)
    failures += 1
    verdict = _verdict(endings, failures=failures, max_attempts=max_attempts)
    if verdict is not None:
        return Outcome(to=JobState.FAILED, failures=failures, backoff_s=0.0, detail=verdict)
    return Outcome(to=again, failures=failures, backoff_s=_backoff_s(failures - 1), detail=end.detail)


def _verdict(endings: Sequence[Ending], *, failures: int, max_attempts: int) -> str | None:
    """Return why the job is not tried again, or None when it is."""
    end = endings[0]
    if end.cause in FAILS_AT_ONCE:
        return end.detail or end.cause
    if failures >= max_attempts:
        return f"{end.detail or end.cause} Failed {failures} of {max_attempts} times.".strip()
    if len(endings) > 1 and _is_hopeless(end, endings[1]):
        return (
            f"{end.detail or end.cause} The attempt before failed the same way within {HOPELESS_RUN_S:.0f} s.".strip()
        )
    return None


def _is_hopeless(end: Ending, before: Ending) -> bool:
    return end.signature == before.signature and max(end.run_s, before.run_s) < HOPELESS_RUN_S


def _infrastructure_backoff_s(endings: Sequence[Ending]) -> float:
    """Return the pause after an end that is not the job's fault: none at first, so that a lost server costs no time."""
    in_a_row = 0
    for end in endings:
        if end.cause not in INFRASTRUCTURE or end.cause is EndCause.PREEMPTED:
            break
        in_a_row += 1
    return 0.0 if in_a_row < 2 else _backoff_s(in_a_row - 2)


def _backoff_s(earlier: int) -> float:
    return backoff_s(earlier, first_s=BACKOFF_S, most_s=BACKOFF_MOST_S)
