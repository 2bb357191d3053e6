"""The supervisor's decisions on a clock moved by hand: stop, freeze, limits, and how an end is called."""

import signal
from dataclasses import replace
from typing import Any

import pytest

from agents import supervision_events as ev
from agents.ending import Exit
from agents.messages import AttemptReport, Wanted
from agents.ports import ProcessIdentity
from agents.records import Control, JobLine, Launch
from agents.supervision import Supervision
from tests.agent_fakes import HandClock
from tests.agent_server import SERVER_ID, wanted

ME = ProcessIdentity(boot_id="boot", pid=10, start_ticks=100)
TRAINER = ProcessIdentity(boot_id="boot", pid=11, start_ticks=110)
MIB = 1024**2


class Attempt:
    """One attempt under supervision, and all that was asked for, with times since its start."""

    def __init__(self, *, lease_s: float = 1e6, wish: Wanted = "run", **order: Any) -> None:  # fields of an order
        self.clock = HandClock()
        self.began_s = self.clock.mono_s()
        self.control = Control(
            wanted=wish, generation=1, grace_s=10.0, lease_until_s=self.began_s + lease_s, lease_margin_s=5.0
        )
        launch = Launch(
            server_id=SERVER_ID,
            epoch=1,
            order=wanted(("train",), grace_s=10.0, **order),
            control=self.control,
            cpu_ids=(0,),
            visible_devices=(),
            journal_dir="/journal",
        )
        self.core = Supervision(launch=launch, supervisor=ME, clock=self.clock)
        self.asked: list[tuple[float, ev.Command]] = []
        self.handle(ev.Begin())

    def started(self) -> "Attempt":
        """Let the training process start."""
        self.handle(ev.ChildStarted(identity=TRAINER))
        return self

    def with_runtime(self) -> "Attempt":
        """Let the job report that it uses the runtime."""
        self.handle(ev.JobReported(line=JobLine(event="started", step=7, total_steps=100)))
        return self

    def handle(self, event: ev.Event) -> None:
        """Bring in one event."""
        at_s = round(self.clock.mono_s() - self.began_s, 3)
        self.asked += [(at_s, command) for command in self.core.handle(event)]

    def want(self, wish: Wanted, **changes: Any) -> None:  # fields of Control
        """Let the agent change its mind."""
        self.control = replace(self.control, wanted=wish, **changes)
        self.handle(ev.ControlChanged(control=self.control))

    def run(self, seconds: float) -> None:
        """Let time go by, looking ten times a second."""
        for _ in range(round(seconds * 10)):
            self.clock.advance(0.1)
            self.handle(ev.Tick())

    def signals(self, *numbers: int) -> list[tuple[float, int]]:
        """Return the signals that were sent, of the given numbers, with their times rounded to the second."""
        return [
            (round(at_s), command.number)
            for at_s, command in self.asked
            if isinstance(command, ev.Signal) and (not numbers or command.number in numbers)
        ]

    def requests(self) -> list[tuple[float, str]]:
        """Return the requests to the job, with times."""
        return [(round(at_s), c.request) for at_s, c in self.asked if isinstance(c, ev.WriteRequest)]

    def journal(self) -> list[str]:
        """Return the journal's events."""
        return [c.event for _, c in self.asked if isinstance(c, ev.Journal)]

    def exit(self, *, code: int | None = None, number: int | None = None) -> AttemptReport:
        """Let the training process end and everything be cleared; return the last report."""
        self.handle(ev.ChildExited(exit=Exit(code=code, signal=number)))
        self.handle(ev.TreeGone())
        return self.report

    @property
    def report(self) -> AttemptReport:
        """Return what is reported now."""
        return self.core.state.report


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

    assert attempt.report.phase == "running"
    assert attempt.report.run_s == pytest.approx(0)
    assert any(isinstance(command, ev.ClearTree) for _, command in attempt.asked)


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
    """Nobody reads the request, so nobody waits for an answer."""
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
    """A process that somebody woke is stopped again within a second."""
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


def test_memory_over_the_grant_kills_with_numbers() -> None:
    """The cause names what was used and what was granted."""
    attempt = Attempt(memory_bytes=200 * MIB).started()
    attempt.handle(ev.MemorySampled(memory_bytes=150 * MIB))
    before = attempt.signals()
    attempt.handle(ev.MemorySampled(memory_bytes=312 * MIB))
    report = attempt.exit(number=signal.SIGKILL)

    assert before == []
    assert attempt.signals() == [(0, signal.SIGKILL)]
    assert report.end_cause == "out_of_memory"
    assert "312 MiB of 200 MiB" in report.end_detail
    assert report.peak_memory_bytes == 312 * MIB


def test_disk_over_the_grant_kills_with_numbers() -> None:
    """As for memory."""
    attempt = Attempt(disk_bytes=100 * MIB).started()
    attempt.handle(measured(disk_bytes=101 * MIB))
    report = attempt.exit(number=signal.SIGKILL)

    assert report.end_cause == "out_of_disk"
    assert "101 MiB of 100 MiB" in report.end_detail


def measured(**changes: Any) -> ev.Measured:  # fields of Measured
    """Return a quiet second, with changes."""
    return replace(
        ev.Measured(cpu_frac=0.1, disk_bytes=0, is_disk_full=False, log_bytes=0, dropped_log_bytes=0), **changes
    )


def test_longest_duration_ends_the_job() -> None:
    """TERM at the limit, KILL ten seconds later at most."""
    attempt = Attempt(max_duration_s=60.0).started()
    attempt.run(75)
    report = attempt.exit(number=signal.SIGKILL)

    assert attempt.signals() == [(60, signal.SIGTERM), (60, signal.SIGCONT), (70, signal.SIGKILL)]
    assert report.end_cause == "time_limit"


@pytest.mark.parametrize(
    ("event", "cause"),
    [
        (ev.ChildFailed(cause="command_not_found", detail="pyhton: No such file or directory."), "command_not_found"),
        (ev.ChildFailed(cause="launch_failed", detail="No process could be made."), "launch_failed"),
    ],
)
def test_command_that_cannot_start_ends_the_attempt(event: ev.ChildFailed, cause: str) -> None:
    """With the reason, and nothing in the journal: nothing ran."""
    attempt = Attempt()
    attempt.handle(event)

    assert (attempt.report.phase, attempt.report.end_cause) == ("ended", cause)
    assert attempt.report.end_detail == event.detail
    assert attempt.journal() == []


@pytest.mark.parametrize(
    ("wish", "lines", "waits_s", "code", "number", "cause"),
    [
        (None, (), 0, 0, None, "completed"),
        (None, (), 0, 3, None, "exit_code"),
        (None, (), 0, 75, None, "exit_code"),
        (None, (), 0, None, signal.SIGSEGV, "signal"),
        (None, (), 0, None, signal.SIGXFSZ, "out_of_disk"),
        ("preempt", ("stopped",), 0, 75, None, "preempted"),
        ("suspend", ("stopped",), 0, 75, None, "suspended"),
        ("cancel", (), 0, None, signal.SIGTERM, "cancelled"),
        ("preempt", (), 0, None, signal.SIGKILL, "preempted"),
        ("preempt", (), 0, 0, None, "completed"),  # it was done before it read the request
        ("preempt", ("completed",), 11, 0, None, "completed"),  # done, and says so, after TERM
        ("preempt", ("stopped",), 0, 0, None, "preempted"),
        ("preempt", (), 11, 0, None, "preempted"),  # ended with 0 on TERM: its work is not done
        ("preempt", (), 11, 143, None, "preempted"),  # a shell on TERM
        ("preempt", (), 11, 1, None, "preempted"),  # a script that fails on TERM
        ("preempt", (), 0, 1, None, "exit_code"),  # fails by itself before TERM
    ],
)
def test_end_is_called_by_its_cause(
    wish: Wanted | None, lines: tuple[Any, ...], waits_s: float, code: int | None, number: int | None, cause: str
) -> None:
    """What was asked, what the job said, whether TERM was sent, and how it ended decide together."""
    attempt = Attempt().started().with_runtime()
    if wish is not None:
        attempt.want(wish)
    attempt.run(waits_s)
    for event in lines:
        attempt.handle(ev.JobReported(line=JobLine(event=event, step=9)))

    assert attempt.exit(code=code, number=number).end_cause == cause


def test_full_disk_explains_a_failure() -> None:
    """A job that fails while the disk is full failed for that."""
    attempt = Attempt().started()
    attempt.handle(measured(is_disk_full=True))

    assert attempt.exit(code=1).end_cause == "out_of_disk"


def test_kernel_out_of_memory_explains_a_kill() -> None:
    """A KILL that nobody here sent, while the kernel was out of memory."""
    attempt = Attempt().started()
    attempt.handle(ev.ChildExited(exit=Exit(code=None, signal=signal.SIGKILL)))
    attempt.handle(ev.TreeGone(is_kernel_oom=True))

    assert attempt.report.end_cause == "out_of_memory"


def test_progress_and_checkpoints_are_reported() -> None:
    """The newest of each; the first step stays."""
    attempt = Attempt().started().with_runtime()
    attempt.handle(ev.JobReported(line=JobLine(event="progress", step=8, loss=0.5, steps_per_s=2.0)))
    attempt.handle(ev.JobReported(line=JobLine(event="checkpoint", step=8, name="step-8.pt")))
    attempt.handle(ev.JobReported(line=JobLine(event="progress", step=9, total_steps=100)))
    report = attempt.report

    assert (report.first_step, report.step, report.total_steps) == (7, 9, 100)
    assert (report.checkpoint_name, report.checkpoint_step) == ("step-8.pt", 8)
    assert report.loss is None


def test_machine_that_goes_down_preempts() -> None:
    """TERM to the supervisor itself is a preemption, so the job goes on elsewhere."""
    attempt = Attempt().started().with_runtime()
    attempt.handle(ev.EndAsked())
    attempt.handle(ev.JobReported(line=JobLine(event="stopped", step=9)))
    report = attempt.exit(code=75)

    assert attempt.requests() == [(0, "stop")]
    assert report.end_cause == "preempted"


def progress(step: int) -> ev.JobReported:
    """Return a report of progress."""
    return ev.JobReported(line=JobLine(event="progress", step=step, total_steps=100))


def test_job_without_progress_for_its_limit_is_ended_as_stalled() -> None:
    """Reports of the same step are no progress; before the first progress nothing is expected."""
    attempt = Attempt(stall_s=20.0).started()
    attempt.run(60)
    attempt.with_runtime()
    attempt.run(60)
    attempt.handle(progress(8))
    attempt.run(15)
    attempt.handle(progress(9))
    for _ in range(3):
        attempt.run(5)
        attempt.handle(progress(9))
    assert attempt.signals(signal.SIGKILL) == []
    attempt.run(6)
    report = attempt.exit(number=signal.SIGKILL)

    assert [number for _, number in attempt.signals()] == [signal.SIGKILL]
    assert (report.end_cause, report.end_detail) == ("stalled", "It reported no progress for 20 s, after step 9.")


def test_job_that_is_kept_from_going_on_is_not_stalled() -> None:
    """Frozen time does not count, and neither does what a job does after its last step."""
    frozen = Attempt(stall_s=20.0, lease_s=10.0).started()
    frozen.handle(progress(1))
    frozen.run(60)
    frozen.want("run", lease_until_s=frozen.clock.mono_s() + 1e6)
    frozen.run(15)
    done = Attempt(stall_s=20.0).started()
    done.handle(progress(1))
    done.handle(ev.JobReported(line=JobLine(event="completed", step=100)))
    done.run(60)

    assert frozen.report.phase == "running"
    assert done.report.phase == "running"


def test_what_failed_is_reported_with_its_line_and_without_secrets() -> None:
    """Only ends that say nothing themselves are looked into."""
    env = {"HF_TOKEN": "abcdefgh"}
    output = b"ModuleNotFoundError: No module named 'abcdefgh'\n"
    failed = Attempt(env=env).started()
    failed.handle(ev.ChildExited(exit=Exit(code=1, signal=None)))
    failed.handle(ev.TreeGone(output=output))
    hungry = Attempt(memory_bytes=MIB).started()
    hungry.handle(ev.MemorySampled(memory_bytes=2 * MIB))
    hungry.handle(ev.ChildExited(exit=Exit(code=None, signal=9)))
    hungry.handle(ev.TreeGone(output=output))

    assert (failed.report.failure, failed.report.failure_line) == (
        "import",
        "ModuleNotFoundError: No module named '***'",
    )
    assert (hungry.report.end_cause, hungry.report.failure, hungry.report.failure_line) == ("out_of_memory", "", "")


def test_job_with_too_many_processes_is_killed() -> None:
    """A fork bomb of a job without a user of its own ends here."""
    attempt = Attempt().started()
    measured = ev.Measured(cpu_frac=None, disk_bytes=0, is_disk_full=False, log_bytes=0, dropped_log_bytes=0)
    attempt.handle(replace(measured, num_processes=4_096))
    assert attempt.signals(signal.SIGKILL) == []
    attempt.handle(replace(measured, num_processes=4_097))
    report = attempt.exit(number=signal.SIGKILL)

    assert report.end_cause == "process_limit"
    assert "4097 processes" in report.end_detail
