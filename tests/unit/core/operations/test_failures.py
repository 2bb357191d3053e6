"""Failure classes, retries and what they cost (Philly)."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.models.retries import PHILLY, retry_outcome
from scheduler.core.model.lifecycle import INFRASTRUCTURE, EndCause
from scheduler.core.operations.failures import (
    MACHINE,
    OWN,
    SHOWS_AT_START,
    FailedAttempt,
    FailureClass,
    NoRetry,
    RetryAfter,
    RetryRules,
    after_failure,
    class_of,
)

HOUR_S = 3_600.0
ALWAYS = [FailedAttempt(failure=FailureClass.SYNTAX, run_s=600.0)] * 20


@pytest.mark.parametrize(
    ("rules", "attempts", "lost_gpu_hours"),
    [(PHILLY, 5, 6.67), (RetryRules(), 2, 2.67), (RetryRules(smoke_run_s=120.0), 1, 0.033)],
    ids=["tried again whatever it was", "stopped on the same failure", "smoke run"],
)
def test_what_an_always_failing_job_burns(rules: RetryRules, attempts: int, lost_gpu_hours: float) -> None:
    """8 GPUs, 10 minutes to the failure, at most four retries: 6.67, 2.67 or 0.033 GPU-hours."""
    found = retry_outcome(ALWAYS, num_gpus=8, rules=rules)

    assert found.attempts == attempts
    assert found.lost_gpu_s / HOUR_S == pytest.approx(lost_gpu_hours, abs=0.005 if attempts > 1 else 5e-4)
    assert found.stopped is not None


def _failed(*failures: FailureClass) -> list[FailedAttempt]:
    return [FailedAttempt(failure=failure, run_s=10.0) for failure in failures]


def test_failures_of_machines_back_off_and_leave_the_server() -> None:
    """1, 2, 4 and 8 minutes, an hour off the server, and no fifth retry."""
    pauses = [after_failure(_failed(*[FailureClass.NETWORK] * times), RetryRules()) for times in range(1, 6)]

    assert pauses[:4] == [RetryAfter(backoff_s=60.0 * 2**times, avoid_server_s=3_600.0) for times in range(4)]
    assert pauses[4] is NoRetry.RETRIES_USED_UP


def test_the_same_failure_twice_stops_only_in_a_row_and_with_the_same_signature() -> None:
    """Another class or another signature in between is something new."""
    rules = RetryRules()
    one = FailedAttempt(failure=FailureClass.SEMANTIC, run_s=5.0, signature="KeyError in line 7")
    other = FailedAttempt(failure=FailureClass.SEMANTIC, run_s=5.0, signature="KeyError in line 9")

    assert after_failure([one, one], rules) is NoRetry.SAME_FAILURE
    assert after_failure([one, other], rules) == RetryAfter(backoff_s=0.0, avoid_server_s=0.0)
    assert isinstance(after_failure([one, *_failed(FailureClass.NODE), one], rules), RetryAfter)
    assert isinstance(after_failure(_failed(FailureClass.NODE, FailureClass.NODE), rules), RetryAfter)


def test_the_pause_begins_anew_after_a_failure_of_the_job_itself() -> None:
    """Only failures of machines in a row double it."""
    seen = _failed(FailureClass.MPI, FailureClass.IMPORT, FailureClass.MPI, FailureClass.MPI)

    assert after_failure(seen, RetryRules()) == RetryAfter(backoff_s=60.0, avoid_server_s=3_600.0)


@given(
    failures=st.lists(st.sampled_from(sorted(OWN | MACHINE)), min_size=1, max_size=12),
    num_gpus=st.sampled_from([1, 2, 8]),
    smoke_run_s=st.sampled_from([0.0, 120.0]),
)
def test_a_job_fails_at_most_once_more_than_it_is_retried(
    failures: list[FailureClass], num_gpus: int, smoke_run_s: float
) -> None:
    """Whatever fails: five attempts at the most, never the same own failure three times, and pauses never shrink."""
    plan = _failed(*failures)
    found = retry_outcome(plan, num_gpus=num_gpus, rules=RetryRules(smoke_run_s=smoke_run_s))
    seen = failures[: found.attempts]

    assert 1 <= found.attempts <= 5
    assert (found.stopped is None) <= (found.attempts == len(failures))
    assert all(one != other or one in MACHINE for one, other in pairwise(seen[:-1]))
    if found.stopped is NoRetry.SMOKE_RUN_FAILED:
        assert num_gpus > 1
        assert failures[0] in SHOWS_AT_START
    else:
        assert found.lost_gpu_s == pytest.approx(found.attempts * 10.0 * num_gpus)


def test_a_smoke_run_that_passes_is_charged() -> None:
    """A late failure is not seen in the first iterations: the smoke run is an extra cost."""
    late = [FailedAttempt(failure=FailureClass.SEMANTIC, run_s=7_200.0)]
    found = retry_outcome(late, num_gpus=8, rules=RetryRules(smoke_run_s=120.0))

    assert (found.smoke_gpu_s, found.lost_gpu_s, found.stopped) == (120.0, 57_600.0, None)
    assert retry_outcome([], num_gpus=1, rules=RetryRules(smoke_run_s=120.0)).smoke_gpu_s == 0.0


def test_every_class_is_the_jobs_or_a_machines() -> None:
    """Nothing is both, and only a preemption is neither."""
    assert not OWN & MACHINE
    assert set(FailureClass) - OWN - MACHINE == {FailureClass.PREEMPTED}


def test_live_causes_mean_the_same_here() -> None:
    """What live calls the machine's fault is a machine's here; ends that are no failures have no class."""
    for cause in INFRASTRUCTURE - {EndCause.PREEMPTED}:
        assert class_of(cause) is FailureClass.NODE
    assert class_of(EndCause.OUT_OF_MEMORY) is FailureClass.CPU_OOM
    assert {cause for cause in EndCause if class_of(cause) is None} == {
        EndCause.COMPLETED,
        EndCause.SUSPENDED,
        EndCause.CANCELLED,
        EndCause.DEPENDENCY,
        EndCause.TIME_LIMIT,
        EndCause.SMOKE_PASSED,
        EndCause.EARLY_STOPPED,
    }
