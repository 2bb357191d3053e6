"""How a job ends that is asked to: its signal, its grace, a warning before its time is over, what it leaves behind."""

import signal
from dataclasses import replace

import pytest

from agents.core import supervision_events as ev
from agents.core.ending import Exit
from agents.core.records import WrittenLine
from agents.protocol.desired_state import STOP_SIGNALS, AttemptWanted, Wanted
from agents.protocol.errors import Malformed
from agents.protocol.fields import plain
from tests.support.agents.server import wanted
from tests.support.agents.supervised import Attempt

MIB = 1024**2


def leaves(attempt: Attempt, *, code: int | None = None, number: int | None = None, came_first: bool = False) -> None:
    """Let the command end while other processes of it live on."""
    attempt.handle(ev.ChildExited(exit=Exit(code=code, signal=number, came_first=came_first)))


def gone(attempt: Attempt) -> str:
    """Let the last process end; return the end cause."""
    attempt.handle(ev.NoneLeft())
    attempt.handle(ev.TreeGone())
    return attempt.report.end_cause


@pytest.mark.parametrize("name", sorted(STOP_SIGNALS))
def test_signal_is_the_one_that_was_chosen(name: str) -> None:
    """Every process gets it, none of them twice."""
    attempt = Attempt(stop_signal=name).started()
    attempt.want("preempt")
    [asked] = [command for _, command in attempt.asked if isinstance(command, ev.Signal) and command.is_once]

    assert asked.number == STOP_SIGNALS[name]
    assert attempt.signals() == [(0, STOP_SIGNALS[name]), (0, signal.SIGCONT)]


def test_grace_lasts_until_the_last_process_is_gone() -> None:
    """A shell dies of the signal at once, while what it waited for saves."""
    attempt = Attempt().started()
    attempt.want("preempt")
    leaves(attempt, number=signal.SIGTERM)
    attempt.run(7)
    before = attempt.cleared()

    assert gone(attempt) == "preempted"
    assert (before, attempt.cleared()) == ([], [7])
    assert attempt.signals() == [(0, signal.SIGTERM), (0, signal.SIGCONT)]


def test_grace_that_is_over_ends_what_is_left() -> None:
    """Whoever ended first."""
    attempt = Attempt().started()
    attempt.want("preempt")
    attempt.run(4)
    leaves(attempt, code=0)
    attempt.run(20)

    assert attempt.cleared() == [10]
    assert gone(attempt) == "preempted"


def test_command_that_ends_by_itself_leaves_its_children_ten_seconds() -> None:
    """They get the signal when it has ended, then KILL; the job fared as its command did."""
    attempt = Attempt().started()
    attempt.run(3)
    leaves(attempt, code=0)
    attempt.run(20)

    assert attempt.signals() == [(3, signal.SIGTERM), (3, signal.SIGCONT)]
    assert attempt.cleared() == [13]
    assert gone(attempt) == "completed"
    assert attempt.report.run_s == pytest.approx(3)


def test_command_that_ends_alone_signals_no_process() -> None:
    """There is none."""
    attempt = Attempt().started()
    attempt.run(3)
    attempt.exit(code=0)

    assert (attempt.signals(), attempt.cleared()) == ([], [3])


def test_preemption_of_a_command_that_has_ended_changes_nothing() -> None:
    """It was complete before, and its children keep the time they have."""
    attempt = Attempt().started()
    leaves(attempt, code=0)
    attempt.run(2)
    attempt.want("preempt")
    attempt.run(20)

    assert attempt.cleared() == [10]
    assert gone(attempt) == "completed"


def test_job_that_said_it_stopped_leaves_its_children_ten_seconds() -> None:
    """It has saved: what it left behind does not hold the devices for two graces."""
    attempt = Attempt().started().with_runtime()
    attempt.want("preempt", grace_s=300.0)
    attempt.handle(ev.JobReported(line=WrittenLine(event="stopped", step=8)))
    leaves(attempt, code=75)
    attempt.run(20)

    assert attempt.signals() == [(0, signal.SIGTERM), (0, signal.SIGCONT)]
    assert attempt.cleared() == [10]
    assert gone(attempt) == "preempted"


def test_cancel_hurries_what_is_left() -> None:
    """As it hurries a job whose command still runs."""
    attempt = Attempt().started()
    attempt.want("preempt", grace_s=300.0)
    leaves(attempt, number=signal.SIGTERM)
    attempt.run(5)
    attempt.want("cancel")
    attempt.run(20)

    assert attempt.cleared() == [15]
    assert gone(attempt) == "cancelled"


def test_nothing_is_left_beyond_the_lease() -> None:
    """The devices may be another job's."""
    attempt = Attempt(lease_s=6).started()
    attempt.want("preempt", grace_s=300.0)
    leaves(attempt, number=signal.SIGTERM)
    attempt.run(20)

    assert attempt.cleared() == [6]


@pytest.mark.parametrize("wish", ["run", "park"])
def test_what_a_stopped_job_leaves_is_killed_where_it_stands(wish: Wanted) -> None:
    """Frozen, or stopped to leave its devices: to end by itself it would have to run."""
    attempt = Attempt(lease_s=5 if wish == "run" else 1e6).started()
    attempt.want(wish)
    attempt.run(6)
    leaves(attempt, number=signal.SIGKILL)
    attempt.run(0.1)

    assert attempt.cleared() == [6]
    assert attempt.signals(signal.SIGTERM) == []


def test_leftovers_that_break_a_limit_are_killed_at_once() -> None:
    """The end cause stays what the command made it."""
    attempt = Attempt(memory_bytes=200 * MIB).started()
    leaves(attempt, code=0)
    attempt.handle(ev.MemorySampled(memory_bytes=300 * MIB))

    assert attempt.cleared() == [0]
    assert gone(attempt) == "completed"


def test_job_that_ends_by_itself_at_the_moment_of_the_signal_is_complete() -> None:
    """It was a zombie when the signal went out: its exit is no answer to that."""
    attempt = Attempt().started()
    attempt.want("preempt")
    leaves(attempt, code=0, came_first=True)

    assert gone(attempt) == "completed"


def test_job_that_ends_well_on_the_signal_is_preempted() -> None:
    """It saved and left; a failure of its own at that moment is one."""
    saved, failed = Attempt().started(), Attempt().started()
    for attempt in (saved, failed):
        attempt.want("preempt")
    leaves(saved, code=0)
    leaves(failed, code=1, came_first=True)

    assert (gone(saved), gone(failed)) == ("preempted", "exit_code")


def test_longest_duration_warns_first() -> None:
    """The signal so long before, KILL at the limit; what ends on the warning ended by the limit."""
    attempt = Attempt(max_duration_s=60.0, warn_before_s=20.0).started()
    attempt.run(75)

    assert attempt.signals() == [(40, signal.SIGTERM), (40, signal.SIGCONT), (60, signal.SIGKILL)]
    assert attempt.requests() == [(40, "stop")]
    leaves(attempt, code=0)
    assert gone(attempt) == "time_limit"
    assert attempt.report.end_detail == "It was warned 20 s before its maximum of 60 s."


def test_warned_job_with_runtime_answers_a_request_first() -> None:
    """It has the time up to the limit for that, and the last ten seconds after the signal."""
    attempt = Attempt(max_duration_s=60.0, warn_before_s=20.0).started().with_runtime()
    attempt.run(75)

    assert attempt.requests() == [(40, "stop")]
    assert attempt.signals() == [(50, signal.SIGTERM), (50, signal.SIGCONT), (60, signal.SIGKILL)]


def test_job_that_says_it_is_done_after_the_warning_is_complete() -> None:
    """Its last step came in time."""
    attempt = Attempt(max_duration_s=60.0, warn_before_s=20.0).started().with_runtime()
    attempt.run(45)
    attempt.handle(ev.JobReported(line=WrittenLine(event="completed", step=100)))

    assert attempt.exit(code=0).end_cause == "completed"


@pytest.mark.parametrize(
    ("wish", "cause", "kill_s"),
    [
        ("preempt", "preempted", 55),
        ("park", "preempted", 55),
        ("suspend", "suspended", 55),
        ("cancel", "cancelled", 55),
    ],
)
def test_warned_job_gives_way_to_other_wishes(wish: Wanted, cause: str, kill_s: int) -> None:
    """It holds its devices no longer than any other, and goes on later where it is to."""
    attempt = Attempt(max_duration_s=600.0, warn_before_s=560.0).started()
    attempt.run(45)
    attempt.want(wish)
    attempt.run(15)

    assert attempt.signals(signal.SIGKILL) == [(kill_s, signal.SIGKILL)]
    leaves(attempt, number=signal.SIGKILL)
    assert gone(attempt) == cause


def test_frozen_job_is_warned_when_it_runs_again() -> None:
    """Out of its lease it could not answer."""
    attempt = Attempt(lease_s=30.0, max_duration_s=60.0, warn_before_s=25.0).started()
    attempt.run(40)
    frozen = attempt.signals(signal.SIGTERM)
    attempt.want("run", lease_until_s=attempt.began_s + 1000)
    attempt.run(1)

    assert (frozen, attempt.signals(signal.SIGTERM)) == ([], [(40, signal.SIGTERM)])


def test_order_of_an_older_scheduler_means_term_and_no_warning() -> None:
    """It names neither; a signal that is not on the list is refused."""
    data = plain(wanted(("train",), stop_signal="USR1", warn_before_s=30.0))
    old = {name: value for name, value in data.items() if name not in ("stop_signal", "warn_before_s")}

    assert AttemptWanted.parse(data) == replace(AttemptWanted.parse(old), stop_signal="USR1", warn_before_s=30.0)
    assert (AttemptWanted.parse(old).stop_signal, AttemptWanted.parse(old).warn_before_s) == ("TERM", 0.0)
    with pytest.raises(Malformed):
        AttemptWanted.parse({**data, "stop_signal": "KILL"})
