"""What becomes of a job after a failure, by what failed."""

from dataclasses import replace

import pytest

from scheduler.core.model.lifecycle import EndCause, JobState
from scheduler.core.operations.failures import MACHINE, FailureClass
from scheduler.live.attempts.retry import AttemptEnd, RetryDecision, decide_retry


def failed(failure: FailureClass, line: str = "", *, run_s: float = 600.0) -> AttemptEnd:
    """Return an attempt that ended with exit code 1."""
    return AttemptEnd(
        cause=EndCause.EXIT_CODE, exit_code=1, run_s=run_s, detail="It ended.", failure=failure, line=line or failure
    )


def after(*endings: AttemptEnd, failures: int = 0) -> RetryDecision:
    """Return what becomes of a job that is wanted; newest first."""
    return decide_retry(endings=endings, wanted="run", failures=failures, max_attempts=5)


@pytest.mark.parametrize("failure", [FailureClass.IMPORT, FailureClass.SYNTAX, FailureClass.CONFIG])
def test_mistakes_in_what_the_user_wrote_are_never_tried_again(failure: FailureClass) -> None:
    """They would fail the same way; the line that says so is kept."""
    outcome = after(failed(failure, "No module named 'apex'"))

    assert (outcome.to, outcome.failures) == (JobState.FAILED, 1)
    assert "No module named 'apex'" in outcome.detail


def test_what_failed_is_said_in_the_words_of_the_pages() -> None:
    """The class, which is a word of ours, is not shown; the line that says it stands in brackets."""
    one = failed(FailureClass.IMPORT, "ModuleNotFoundError: No module named 'apex'")
    node = failed(FailureClass.INVALID_MEMORY, "CUDA error: misaligned address.")

    assert after(one).detail == (
        "It ended. Not tried again: a library, program or script is missing "
        "(ModuleNotFoundError: No module named 'apex')."
    )
    assert after(node, node).detail == (
        "It ended. The attempt before failed the same way: invalid memory access (CUDA error: misaligned address)."
    )


def test_same_line_twice_in_a_row_stops_whatever_it_ran() -> None:
    """Numbers apart, it is one failure; another line in between is something new."""
    one = failed(FailureClass.SEMANTIC, "RuntimeError: size mismatch, pid 17", run_s=7_200)
    same = failed(FailureClass.SEMANTIC, "RuntimeError: size mismatch, pid 23", run_s=3_600)
    other = failed(FailureClass.SEMANTIC, "RuntimeError: undefined symbol")
    moved = AttemptEnd(cause=EndCause.PREEMPTED, run_s=50.0)

    assert after(one).to is JobState.QUEUED
    assert after(same, one, failures=1).to is JobState.FAILED
    assert after(same, moved, one, failures=1).to is JobState.FAILED
    assert after(same, other, failures=1).to is JobState.QUEUED


def test_unknown_failure_stops_when_it_comes_twice_within_a_minute() -> None:
    """Without a line only the time it took tells."""
    quick = AttemptEnd(cause=EndCause.EXIT_CODE, exit_code=7, run_s=5.0, failure=FailureClass.UNCLASSIFIED)

    assert after(quick, quick, failures=1).to is JobState.FAILED
    assert after(replace(quick, run_s=90.0), quick, failures=1).to is JobState.QUEUED


@pytest.mark.parametrize("failure", sorted(MACHINE))
def test_output_that_blames_a_machine_earns_growing_pauses_and_an_end(failure: FailureClass) -> None:
    """It is not charged, but a job that only says so does not run for ever."""
    outcomes = [after(*[failed(failure)] * times) for times in range(1, 7)]

    assert [outcome.backoff_s for outcome in outcomes[:4]] == [60.0, 120.0, 240.0, 300.0]
    assert all((outcome.to, outcome.failures) == (JobState.QUEUED, 0) for outcome in outcomes[:4])
    assert outcomes[4].to is JobState.FAILED


def test_device_that_broke_under_the_job_costs_it_nothing() -> None:
    """We saw it ourselves."""
    outcome = after(replace(failed(FailureClass.NODE), is_seen=True), failures=4)

    assert outcome == RetryDecision(to=JobState.QUEUED, failures=4, backoff_s=0.0, detail="It ended.")


def test_failed_smoke_run_ends_the_job_where_the_gang_would_fail_as_well() -> None:
    """What shows at the start ends it; what may be chance is tried again."""
    assert after(replace(failed(FailureClass.GPU_OOM), is_smoke=True)).to is JobState.FAILED
    assert "smoke run" in after(replace(failed(FailureClass.GPU_OOM), is_smoke=True)).detail
    assert after(replace(failed(FailureClass.SEMANTIC), is_smoke=True)).to is JobState.QUEUED
    assert after(failed(FailureClass.GPU_OOM)).to is JobState.QUEUED
    assert after(AttemptEnd(cause=EndCause.SMOKE_PASSED, is_smoke=True)) == RetryDecision(
        to=JobState.QUEUED, failures=0, backoff_s=0.0, detail=""
    )


def test_early_stop_completes() -> None:
    """Its loss was as good as it gets."""
    assert after(AttemptEnd(cause=EndCause.EARLY_STOPPED)).to is JobState.COMPLETED
