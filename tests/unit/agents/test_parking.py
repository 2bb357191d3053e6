"""A job that leaves its devices and comes back: the supervisor's decisions, on a clock moved by hand."""

import signal

import pytest

from agents.core import supervision_events as ev
from agents.core.records import WrittenLine
from tests.support.agents.supervised import Attempt

STILL = (signal.SIGSTOP, signal.SIGCONT)


def answer(attempt: Attempt, *, request: int | None = None) -> None:
    """Let the job say that it is off its devices; by default in answer to the newest request."""
    newest = [command.number for _, command in attempt.asked if isinstance(command, ev.WriteRequest)][-1]
    line = WrittenLine(event="parked", step=8, request=newest if request is None else request)
    attempt.handle(ev.JobReported(line=line))


def test_job_leaves_its_devices_at_a_boundary_and_goes_on() -> None:
    """Asked by a request, believed when it answers, told to go on; no signal, and parked time is no run time."""
    attempt = Attempt().started().with_runtime()
    attempt.run(10)
    attempt.want("park", generation=5)
    attempt.run(1)
    asked = attempt.report.phase
    answer(attempt)
    parked = attempt.report
    attempt.run(100)
    attempt.want("run", generation=6)
    attempt.run(4)

    assert (asked, parked.phase, parked.generation) == ("running", "parked", 5)
    assert parked.run_s == pytest.approx(11, abs=0.01)
    assert (attempt.report.phase, attempt.report.generation) == ("running", 6)
    assert attempt.report.run_s == pytest.approx(15, abs=0.01)
    assert attempt.requests() == [(10, "park"), (111, "continue")]
    assert attempt.signals() == []
    assert attempt.journal() == ["start", "stop", "continue"]


def test_job_that_does_not_answer_is_stopped_after_the_grace() -> None:
    """As a last resort, again and again; and continued with a signal."""
    attempt = Attempt().started().with_runtime()
    attempt.want("park")
    attempt.run(11.5)
    parked = attempt.report.phase
    attempt.want("run")

    assert parked == "parked"
    assert attempt.signals(*STILL) == [(10, signal.SIGSTOP), (11, signal.SIGSTOP), (12, signal.SIGCONT)]
    assert attempt.requests()[-1] == (12, "continue")
    assert attempt.report.phase == "running"


def test_job_without_runtime_is_stopped_at_once() -> None:
    """Nobody in there reads requests."""
    attempt = Attempt().started()
    attempt.want("park")

    assert attempt.report.phase == "parked"
    assert attempt.signals(*STILL) == [(0, signal.SIGSTOP)]


def test_late_answer_to_an_older_request_is_not_believed() -> None:
    """Parked, continued and to be parked again: only an answer to the newest request frees the devices."""
    attempt = Attempt().started().with_runtime()
    attempt.want("park")
    attempt.want("run")
    attempt.want("park")
    answer(attempt, request=1)
    early = attempt.report.phase
    answer(attempt)

    assert (early, attempt.report.phase) == ("running", "parked")


def test_parked_job_is_asked_to_stop_and_checkpoints() -> None:
    """It is alive and reads requests: preemption, pause and cancel work as for a running one."""
    attempt = Attempt().started().with_runtime()
    attempt.want("park")
    answer(attempt)
    attempt.want("preempt")
    attempt.handle(ev.JobReported(line=WrittenLine(event="stopped", step=8)))
    report = attempt.exit(code=75)

    assert attempt.requests()[-1][1] == "stop"
    assert (report.phase, report.end_cause) == ("ended", "preempted")


def test_job_stopped_by_signal_is_killed_rather_than_let_run_on_devices_of_others() -> None:
    """Asked to end, it would have to run to answer."""
    attempt = Attempt().started()
    attempt.want("park")
    attempt.want("preempt")
    attempt.run(0.1)

    assert attempt.signals(signal.SIGCONT, signal.SIGTERM) == []
    assert [number for _, number in attempt.signals(signal.SIGKILL)] == [signal.SIGKILL]


def test_parked_job_outlives_its_lease_and_waits() -> None:
    """It is on no device; it neither freezes nor goes on before there is a lease again."""
    attempt = Attempt(lease_s=20).started().with_runtime()
    attempt.want("park")
    answer(attempt)
    attempt.run(30)
    waiting = attempt.report.phase
    attempt.want("run", lease_until_s=attempt.began_s + 20)
    attempt.run(1)
    without = attempt.report.phase
    attempt.want("run", lease_until_s=attempt.began_s + 100)

    assert (waiting, without) == ("parked", "parked")
    assert attempt.report.phase == "running"
    assert attempt.signals() == []
    assert attempt.requests() == [(0, "park"), (31, "continue")]


def test_frozen_job_that_had_left_its_devices_is_parked_when_it_thaws() -> None:
    """Its answer is read after the lease ran out: it is frozen first, then parked, and runs at no time."""
    attempt = Attempt(lease_s=20).started().with_runtime()
    attempt.run(19.9)
    attempt.want("park")
    attempt.run(1)
    frozen = attempt.report.phase
    answer(attempt)
    attempt.want("park", lease_until_s=attempt.began_s + 100)

    assert (frozen, attempt.report.phase) == ("frozen", "parked")
    assert attempt.journal() == ["start", "stop"]


def test_time_limit_does_not_count_parked_time() -> None:
    """A job with ten seconds may wait for an hour."""
    attempt = Attempt(max_duration_s=10.0).started().with_runtime()
    attempt.run(5)
    attempt.want("park")
    answer(attempt)
    attempt.run(60)
    attempt.want("run")
    attempt.run(4)
    before = attempt.report.phase
    attempt.run(2)

    assert (before, attempt.report.phase) == ("running", "stopping")


def test_attempt_to_be_parked_before_it_began_ends() -> None:
    """There is nothing to keep."""
    attempt = Attempt(wish="park")

    assert (attempt.report.phase, attempt.report.end_cause) == ("ended", "preempted")
