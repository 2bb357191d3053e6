"""Decides what a job does after one of its attempts ended: its next state and back-off. Pure.

Three kinds of failure: a machine failure that the scheduler saw costs the job nothing; one that only the job's output
blames on a machine costs nothing either, but only a few are allowed in a row; every other counts as the job's own.
``close.py`` writes the decision; held right by ``tests/unit/live/test_retry.py``.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.core.model.lifecycle import INFRASTRUCTURE, EndCause, JobState
from scheduler.core.operations.failures import (
    FAILURE_WORDS,
    MACHINE,
    UNHEALABLE,
    FailureClass,
    RetryRules,
    backoff_s,
    fails_smoke_run,
)

BACKOFF_S = 5.0
BACKOFF_MOST_S = 300.0
# After two identical failures without a known cause, each within this run time, the job is not tried again.
HOPELESS_RUN_S = 60.0
# A job can write any output, so claimed machine failures get the pauses and the retries in a row of Philly, no more.
CLAIMED = RetryRules()

STOPPED = frozenset({EndCause.PREEMPTED, EndCause.SUSPENDED, EndCause.CANCELLED, EndCause.SMOKE_PASSED})
FAILS_AT_ONCE = frozenset(
    {
        EndCause.COMMAND_NOT_FOUND,
        EndCause.SECRET_MISSING,
        EndCause.ENVIRONMENT,
        EndCause.OUT_OF_MEMORY,
        EndCause.OUT_OF_DISK,
        EndCause.PROCESS_LIMIT,
        EndCause.TIME_LIMIT,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnd:
    """How one attempt ended.

    Attributes:
        cause: Why.
        exit_code: Of the training process when it ended by itself.
        exit_signal: The same for a signal.
        run_s: Seconds from the first report of its process to its end, by the scheduler's clock.
        detail: One sentence with the numbers.
        failure: What failed; None for an end that is no failure.
        line: The line of its output that says so; empty when none does.
        is_seen: The scheduler saw the machine fail: a device was lost under it.
        is_smoke: It ran on one GPU before its gang.
        is_ours: The scheduler brought it about; it speaks neither against the server nor against the job.
    """

    cause: EndCause
    exit_code: int | None = None
    exit_signal: int | None = None
    run_s: float = 0.0
    detail: str = ""
    failure: FailureClass | None = None
    line: str = ""
    is_seen: bool = False
    is_smoke: bool = False
    is_ours: bool = False

    @property
    def is_free(self) -> bool:
        """Return whether a machine failed for sure, so that the job is not charged."""
        return self.is_seen or (self.cause in INFRASTRUCTURE and self.cause is not EndCause.PREEMPTED)

    @property
    def signature(self) -> tuple[object, ...]:
        """Return what two ends must share to count as the same failure; numbers in the line are ignored."""
        words = "".join("#" if letter.isdigit() else letter for letter in self.line)
        return self.cause, self.exit_code, self.exit_signal, self.failure, words


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryDecision:
    """What the job does next.

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


def decide_retry(*, endings: Sequence[AttemptEnd], wanted: str, failures: int, max_attempts: int) -> RetryDecision:
    """Return what a job does after its newest attempt has ended.

    Args:
        endings: How its attempts ended, newest first; at least one.
        wanted: What its owner wants: run, suspend or cancel.
        failures: Failures of the job's own before this end.
        max_attempts: Attempts that may end by the job's own fault before it fails.
    """
    end = endings[0]
    if end.cause in (EndCause.COMPLETED, EndCause.EARLY_STOPPED):
        return RetryDecision(to=JobState.COMPLETED, failures=failures, backoff_s=0.0, detail=end.detail)
    if wanted == "cancel":
        return RetryDecision(to=JobState.CANCELLED, failures=failures, backoff_s=0.0, detail=end.detail)
    again = JobState.SUSPENDED if wanted == "suspend" else JobState.QUEUED
    if end.cause in STOPPED:
        return RetryDecision(to=again, failures=failures, backoff_s=0.0, detail=end.detail)
    if end.is_free:
        return RetryDecision(to=again, failures=failures, backoff_s=_seen_backoff_s(endings), detail=end.detail)
    if end.failure in MACHINE:
        return _claimed(endings, again=again, failures=failures)
    failures += 1
    verdict = _verdict(endings, failures=failures, max_attempts=max_attempts)
    if verdict is not None:
        return RetryDecision(to=JobState.FAILED, failures=failures, backoff_s=0.0, detail=verdict)
    return RetryDecision(to=again, failures=failures, backoff_s=_backoff_s(failures - 1), detail=end.detail)


def _claimed(endings: Sequence[AttemptEnd], *, again: JobState, failures: int) -> RetryDecision:
    """Return what a job does whose output blames a machine."""
    end, in_a_row = endings[0], 0
    for each in endings:
        if each.cause in STOPPED or each.is_free:
            continue
        if each.failure not in MACHINE:
            break
        in_a_row += 1
    if in_a_row > CLAIMED.most_retries:
        detail = f"{end.detail} Its output blamed a machine {in_a_row} times in a row: {_words(end)}.".strip()
        return RetryDecision(to=JobState.FAILED, failures=failures, backoff_s=0.0, detail=detail)
    pause_s = backoff_s(in_a_row - 1, first_s=CLAIMED.backoff_first_s, most_s=BACKOFF_MOST_S)
    return RetryDecision(to=again, failures=failures, backoff_s=pause_s, detail=end.detail)


def _verdict(endings: Sequence[AttemptEnd], *, failures: int, max_attempts: int) -> str | None:
    """Return why the job is not tried again, or None when it is."""
    end = endings[0]
    said = end.detail or str(end.cause)
    if end.cause in FAILS_AT_ONCE:
        return said
    if end.failure in UNHEALABLE:
        return f"{said} Not tried again: {_words(end)}."
    if end.is_smoke and end.failure is not None and fails_smoke_run(end.failure, RetryRules(smoke_run_s=1.0)):
        return f"{said} It failed in its smoke run on one GPU: {_words(end)}."
    if failures >= max_attempts:
        return f"{said} Failed {failures} of {max_attempts} times."
    before = next((each for each in endings[1:] if each.cause not in STOPPED and not each.is_free), None)
    if before is not None and end.signature == before.signature:
        if end.line:
            return f"{said} The attempt before failed the same way: {_words(end)}."
        if max(end.run_s, before.run_s) < HOPELESS_RUN_S:
            return f"{said} The attempt before failed the same way within {HOPELESS_RUN_S:.0f} s."
    return None


def _words(end: AttemptEnd) -> str:
    """Return what failed, with the line of the output that says so in brackets."""
    words, line = FAILURE_WORDS.get(end.failure or "", ""), end.line[:160].removesuffix(".")
    words = words[:1].lower() + words[1:]
    return f"{words} ({line})" if words and line else words or line or str(end.cause)


def _seen_backoff_s(endings: Sequence[AttemptEnd]) -> float:
    """Return the pause after a failure of a machine: none at first, so that a lost server costs no time."""
    in_a_row = 0
    for end in endings:
        if not end.is_free:
            break
        in_a_row += 1
    return 0.0 if in_a_row < 2 else _backoff_s(in_a_row - 2)


def _backoff_s(earlier: int) -> float:
    return backoff_s(earlier, first_s=BACKOFF_S, most_s=BACKOFF_MOST_S)
