"""The supervisor's decisions on a clock moved by hand: start, stop, freeze."""

import signal

import pytest

from agents.core import supervision_events as ev
from agents.core.ending import Exit
from agents.protocol.desired_state import Wanted
from tests.support.agents.supervised import TRAINER, Attempt


def test_job_is_started_reported_and_completed() -> None:
    """The plain life of an attempt."""
    attempt = Attempt().started()
    running = attempt.report
    attempt.run(3)
    report = attempt.exit(code=0)

    assert (running.phase, running.pid) == ("running", TRAINER.pid)
    assert (report.phase, report.end_cause, report.exit_code) == ("ended", "completed", 0)
    assert report.run_s == pytest.approx(3)
    assert attempt.journal() == ["start", "exit"]
    assert isinstance(attempt.asked[-1][1], ev.Finish)


def test_end_is_not_told_before_every_process_is_gone() -> None:
    """Devices are free when nothing can use them any more."""
    attempt = Attempt().started()
    attempt.handle(ev.ChildExited(exit=Exit(code=0, signal=None)))
    attempt.run(5)
    attempt.handle(ev.NoneLeft())

    assert attempt.report.phase == "running"
    assert attempt.report.run_s == pytest.approx(0)
    assert attempt.cleared() == [5]


@pytest.mark.parametrize("wish", ["preempt", "suspend"])
def test_job_with_runtime_is_asked_then_terminated_then_killed(wish: Wanted) -> None:
    """Request at once, TERM (and CONT) after the grace, KILL after as much again."""
    attempt = Attempt().started().with_runtime()
    attempt.want(wish)
    attempt.run(25)

    assert attempt.requests() == [(0, "stop")]
    assert attempt.signals() == [(10, signal.SIGTERM), (10, signal.SIGCONT), (20, signal.SIGKILL)]
    assert attempt.report.phase == "stopping"


def test_job_without_runtime_is_terminated_at_once() -> None:
    """The job reads no requests, so no answer is waited for."""
    attempt = Attempt().started()
    attempt.want("preempt")
    attempt.run(15)

    assert attempt.signals() == [(0, signal.SIGTERM), (0, signal.SIGCONT), (10, signal.SIGKILL)]


def test_cancel_waits_for_no_checkpoint() -> None:
    """TERM at once, KILL after ten seconds at most."""
    attempt = Attempt().started().with_runtime()
    attempt.want("cancel", grace_s=300.0)
    attempt.run(15)

    assert attempt.requests() == []
    assert attempt.signals() == [(0, signal.SIGTERM), (0, signal.SIGCONT), (10, signal.SIGKILL)]


def test_cancel_hurries_a_preemption() -> None:
    """A gentle stop that has begun gives way to a quick one, and the cause is the newer wish."""
    attempt = Attempt().started().with_runtime()
    attempt.want("preempt")
    attempt.run(3)
    attempt.want("cancel")
    attempt.run(11)
    report = attempt.exit(number=signal.SIGKILL)

    assert attempt.signals() == [(3, signal.SIGTERM), (3, signal.SIGCONT), (13, signal.SIGKILL)]
    assert report.end_cause == "cancelled"


def test_stop_once_begun_is_not_taken_back() -> None:
    """The job may have begun to end; running on would leave it half stopped."""
    attempt = Attempt().started().with_runtime()
    attempt.want("preempt")
    attempt.want("run")
    attempt.run(21)

    assert attempt.signals(signal.SIGKILL) == [(20, signal.SIGKILL)]


def test_wish_to_end_before_the_start_starts_nothing() -> None:
    """The order was taken back while the supervisor was starting."""
    attempt = Attempt(wish="suspend")

    assert attempt.report.end_cause == "suspended"
    assert not any(isinstance(command, ev.StartChild) for _, command in attempt.asked)


def test_nothing_is_started_out_of_lease() -> None:
    """A supervisor that starts too late leaves the devices alone."""
    attempt = Attempt(lease_s=-1)

    assert attempt.report.end_cause == "launch_failed"
    assert not any(isinstance(command, ev.StartChild) for _, command in attempt.asked)


def test_lease_that_runs_out_checkpoints_and_freezes() -> None:
    """A checkpoint is asked for a little before the end; at the end the job stands still, at ttl exactly."""
    attempt = Attempt(lease_s=30).started().with_runtime()
    attempt.run(31)

    assert attempt.requests() == [(25, "checkpoint")]
    assert attempt.signals(signal.SIGSTOP)[0] == (30, signal.SIGSTOP)
    assert attempt.report.phase == "frozen"
    assert attempt.journal() == ["start", "stop"]


def test_frozen_job_is_held_down() -> None:
    """A process that was continued from outside is stopped again within a second."""
    attempt = Attempt(lease_s=5).started()
    attempt.run(9)

    assert len(attempt.signals(signal.SIGSTOP)) >= 4


def test_renewal_thaws() -> None:
    """The same generation with a later end lets the job go on."""
    attempt = Attempt(lease_s=5).started()
    attempt.run(8)
    attempt.want("run", lease_until_s=attempt.clock.mono_s() + 30)

    assert attempt.report.phase == "running"
    assert attempt.signals()[-1] == (8, signal.SIGCONT)
    assert attempt.journal() == ["start", "stop", "continue"]


def test_renewal_in_time_is_not_noticed() -> None:
    """No request, no signal."""
    attempt = Attempt(lease_s=30).started().with_runtime()
    for _ in range(10):
        attempt.run(10)
        attempt.want("run", lease_until_s=attempt.clock.mono_s() + 30)

    assert attempt.requests() == []
    assert attempt.signals() == []


def test_preempted_while_frozen_with_a_new_lease_ends_gently() -> None:
    """It may checkpoint, as it has time again."""
    attempt = Attempt(lease_s=5).started().with_runtime()
    attempt.run(8)
    attempt.want("preempt", lease_until_s=attempt.clock.mono_s() + 60)
    attempt.run(1)

    assert attempt.requests()[-1] == (8, "stop")
    assert attempt.signals()[-1] == (8, signal.SIGCONT)
    assert attempt.report.phase == "stopping"


def test_cancelled_while_frozen_without_a_lease_is_killed_where_it_stands() -> None:
    """It must not run a moment longer."""
    attempt = Attempt(lease_s=5).started().with_runtime()
    attempt.run(8)
    attempt.want("cancel")

    assert attempt.signals(signal.SIGKILL) == [(8, signal.SIGKILL)]


def test_stopping_job_is_killed_at_the_end_of_its_lease() -> None:
    """The grace never lasts longer than the lease."""
    attempt = Attempt(lease_s=8).started().with_runtime()
    attempt.want("preempt")
    attempt.run(9)

    assert attempt.signals(signal.SIGKILL) == [(8, signal.SIGKILL)]
