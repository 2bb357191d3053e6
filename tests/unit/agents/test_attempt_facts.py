"""What a supervisor notes of its job: limits that it breaks, what it reports, and how its end is called."""

import signal
from typing import Any

import pytest

from agents.core import supervision_events as ev
from agents.core.ending import Exit
from agents.core.records import WrittenLine
from agents.protocol.desired_state import Wanted
from tests.support.agents.supervised import Attempt, measured, progress

MIB = 1024**2


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
        attempt.handle(ev.JobReported(line=WrittenLine(event=event, step=9)))

    assert attempt.exit(code=code, number=number).end_cause == cause


def test_full_disk_explains_a_failure() -> None:
    """A job that fails while the disk is full failed for that."""
    attempt = Attempt().started()
    attempt.handle(measured(is_disk_full=True))

    assert attempt.exit(code=1).end_cause == "out_of_disk"


def test_kernel_out_of_memory_explains_a_kill() -> None:
    """A KILL that the supervisor did not send, while the kernel was out of memory."""
    attempt = Attempt().started()
    attempt.handle(ev.ChildExited(exit=Exit(code=None, signal=signal.SIGKILL)))
    attempt.handle(ev.NoneLeft())
    attempt.handle(ev.TreeGone(is_kernel_oom=True))

    assert attempt.report.end_cause == "out_of_memory"


def test_progress_and_checkpoints_are_reported() -> None:
    """The newest of each; the first step stays."""
    attempt = Attempt().started().with_runtime()
    attempt.handle(ev.JobReported(line=WrittenLine(event="progress", step=8, loss=0.5, steps_per_s=2.0)))
    attempt.handle(ev.JobReported(line=WrittenLine(event="checkpoint", step=8, name="step-8.pt")))
    attempt.handle(ev.JobReported(line=WrittenLine(event="progress", step=9, total_steps=100, cached_frac=0.25)))
    report = attempt.report

    assert report.cached_frac == 0.25
    assert (report.first_step, report.step, report.total_steps) == (7, 9, 100)
    assert (report.checkpoint_name, report.checkpoint_step) == ("step-8.pt", 8)
    assert report.loss is None


def test_machine_that_goes_down_preempts() -> None:
    """TERM to the supervisor itself is a preemption, so the job goes on elsewhere."""
    attempt = Attempt().started().with_runtime()
    attempt.handle(ev.EndAsked())
    attempt.handle(ev.JobReported(line=WrittenLine(event="stopped", step=9)))
    report = attempt.exit(code=75)

    assert attempt.requests() == [(0, "stop")]
    assert report.end_cause == "preempted"


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
    done.handle(ev.JobReported(line=WrittenLine(event="completed", step=100)))
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


def test_job_that_was_refused_a_file_is_told_how_folders_are_opened() -> None:
    """Its owner knows the path is right, and looks for the mistake elsewhere."""
    refused = Attempt().started()
    refused.handle(ev.ChildExited(exit=Exit(code=1, signal=None)))
    refused.handle(ev.TreeGone(output=b"PermissionError: [Errno 13] Permission denied: '/data/labels.csv'\n"))

    assert refused.report.failure_line == "PermissionError: [Errno 13] Permission denied: '/data/labels.csv'"
    assert "an admin adds folders by JOB_READ_DIRS and JOB_WRITE_DIRS" in refused.report.end_detail


def test_job_with_too_many_processes_is_killed() -> None:
    """A fork bomb of a job without a user of its own ends here."""
    attempt = Attempt().started()
    attempt.handle(measured(num_processes=4_096))
    assert attempt.signals(signal.SIGKILL) == []
    attempt.handle(measured(num_processes=4_097))
    report = attempt.exit(number=signal.SIGKILL)

    assert report.end_cause == "process_limit"
    assert "4097 processes" in report.end_detail
