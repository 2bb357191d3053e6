"""The agent's life cycle: what it believes, launches, tells to end, reports and forgets."""

from dataclasses import replace

import pytest

from agents.core import events as ev
from agents.core.records import LAUNCH_FILE, STATE_FILE
from tests.support.agents.fake_job import Job
from tests.support.agents.fakes import FakeHost
from tests.support.agents.server import wanted


@pytest.fixture
def host() -> FakeHost:
    """A server whose agent has reported once."""
    host = FakeHost()
    host.start()
    return host


def test_wanted_attempt_is_launched_once_and_reported(host: FakeHost) -> None:
    """Desired state in, process out, report back."""
    order = wanted(("train",))

    host.send(order)
    host.run(0.5)

    assert host.starts == [order.attempt_id]
    assert host.phase(order) == "running"
    assert host.reports[-1][0].generation == 1


@pytest.mark.parametrize("times", [2, 5])
def test_repeated_desired_state_launches_once(host: FakeHost, times: int) -> None:
    """The same message again, and the same wish with a higher sequence, change nothing."""
    order = wanted(("train",))
    message = host.want(order)

    for _ in range(times):
        host.deliver(message)
        host.deliver(host.message())
        host.run(0.3)

    assert host.spawns == [order.attempt_id]


def test_older_desired_state_changes_nothing(host: FakeHost) -> None:
    """A message that comes late cannot bring back what a newer one ended."""
    first, second = wanted(("train",)), wanted(("train",))
    late = host.want(first)
    host.send(second)
    host.deliver(late)
    host.run(1)

    assert host.starts == [second.attempt_id]
    assert host.agent.core.rejected["stale"] == 1


def test_reports_go_on_while_the_disk_is_slow(host: FakeHost) -> None:
    """Each second has its report, although nothing is launched yet."""
    order = wanted(("train",))
    host.is_disk_slow = True
    before = len(host.reports)
    host.send(order)
    assert host.spawns == []
    host.run(10)

    assert len(host.reports) - before >= 10
    assert host.starts == [order.attempt_id]
    assert host.phase(order) == "running"


def test_wishes_that_come_faster_than_the_disk_keeps_them_are_taken_on(host: FakeHost) -> None:
    """The newest of those that came meanwhile is next; repeats of it do not keep it from being done."""
    first, second, third = wanted(("train",)), wanted(("train",)), wanted(("train",))
    host.is_disk_slow = True
    host.send(first)
    host.send(first, second)
    host.send(second, third)
    for _ in range(20):
        host.deliver(host.message())
        host.run(0.3)

    assert (host.phase(second), host.phase(third)) == ("running", "running")
    assert host.starts.count(second.attempt_id) == 1
    assert host.reports[-1][0].generation == 3


def test_newer_epoch_wins_over_a_higher_generation(host: FakeHost) -> None:
    """A restored database starts its generations again, in a new epoch."""
    first, second = wanted(("train",)), wanted(("train",))
    host.generation = 50
    host.send(first)
    host.epoch, host.generation, host.sequence = 2, 0, 0
    host.send(second)
    host.run(1)

    assert second.attempt_id in host.starts
    assert (host.reports[-1][0].epoch, host.reports[-1][0].generation) == (2, 1)


@pytest.mark.parametrize("bad", ["", "{}", "x" * 10_000, "[" * 50_000])
def test_bad_message_is_counted_and_nothing_else(host: FakeHost, bad: str) -> None:
    """What is not genuine raises a counter, launches nothing, and the agent lives."""
    host.deliver(bad)
    host.run(1)

    assert host.spawns == []
    assert host.agent.core.rejected["malformed"] == 1
    host.send(order := wanted(("train",)))
    assert host.phase(order) == "starting"


def test_expired_message_is_refused(host: FakeHost) -> None:
    """A message that lay about for more than ten minutes says nothing any more."""
    message = host.want(wanted(("train",)))
    host.clock.advance(601)
    host.deliver(message)

    assert host.spawns == []
    assert host.agent.core.rejected["expired"] == 1


def test_flood_of_bad_messages_is_logged_seldom(host: FakeHost) -> None:
    """One line in ten seconds, however many come."""
    notes = []
    for _ in range(100):
        notes += [c for c in host.agent.core.handle(ev.DesiredReceived(message="?")) if isinstance(c, ev.Note)]
        host.clock.advance(0.15)

    assert len(notes) == 2
    assert host.agent.core.rejected["malformed"] == 100


def test_stamp_and_claim_are_on_disk_before_the_launch(host: FakeHost) -> None:
    """Whatever is started can be found again, and an old message is old after a crash too."""
    order = wanted(("train",))
    host.agent.core.handle(ev.Tick())

    commands = host.agent.core.handle(ev.DesiredReceived(message=host.want(order)))
    [persist] = [c for c in commands if isinstance(c, ev.Persist)]
    others = [c for c in commands if not isinstance(c, ev.Persist | ev.Note)]

    assert others == []
    assert order.attempt_id.encode() in persist.content
    [create] = [c for c in host.agent.core.handle(ev.Persisted(stamp=persist.stamp)) if isinstance(c, ev.CreateLaunch)]
    assert create.attempt_id == order.attempt_id


def test_full_disk_means_not_accepted(host: FakeHost) -> None:
    """What cannot be remembered is not acted on and not acknowledged; the next message does it."""
    order = wanted(("train",))
    host.files.is_full = True
    host.send(order)
    host.run(2)
    during = (list(host.spawns), host.reports[-1][0].generation)
    host.files.is_full = False
    host.deliver(host.message())
    host.run(1)

    assert during == ([], 0)
    assert host.starts == [order.attempt_id]
    assert host.reports[-1][0].generation == 1


def test_attempt_not_named_any_more_is_ended_and_forgotten(host: FakeHost) -> None:
    """The scheduler's silence about an attempt is an order to end it."""
    order = wanted(("train",), grace_s=3.0)
    host.send(order)
    host.run(1)
    host.send()
    host.run(1)

    assert host.jobs[order.attempt_id].exit is not None
    assert host.report(order) is None
    assert host.processes.supervisors == {}


def test_ended_attempt_stays_in_reports_until_omitted(host: FakeHost) -> None:
    """An end is said until it was heard."""
    order = wanted(("train",))
    host.jobs[order.attempt_id] = Job(run_s=0.5)
    host.send(order)
    host.run(3)
    before = host.report(order)
    host.deliver(host.message())
    host.run(3)
    still = host.phase(order)
    host.send()
    host.run(1)

    assert before is not None
    assert (before.phase, before.end_cause, before.exit_code) == ("ended", "completed", 0)
    assert still == "ended"
    assert host.report(order) is None


def test_known_attempt_is_never_started_again(host: FakeHost) -> None:
    """Not after its end, not after the agent forgot it, not after a restart of the agent."""
    order = wanted(("train",))
    host.jobs[order.attempt_id] = Job(run_s=0.5)
    host.send(order)
    host.run(2)
    host.send()
    host.run(1)
    host.send(order)
    host.run(1)
    after_forgetting = host.phase(order)
    host.start()
    host.send(order)
    host.run(1)

    assert host.spawns == [order.attempt_id]
    assert after_forgetting == "ended"
    assert host.phase(order) == "ended"


def test_supervisor_that_dies_at_once_is_a_failed_launch(host: FakeHost) -> None:
    """No state file and no process: it never began."""
    order = wanted(("train",))
    host.send(order)
    [identity] = host.processes.supervisors
    host.processes.kill(identity)
    host.run(1)
    report = host.report(order)

    assert report is not None
    assert (report.phase, report.end_cause) == ("ended", "launch_failed")


def test_supervisor_that_cannot_be_started_is_a_failed_launch(host: FakeHost) -> None:
    """No process could be made."""
    order = wanted(("train",))
    host.processes.cannot_spawn = True
    host.send(order)
    host.run(1)
    report = host.report(order)

    assert report is not None
    assert (report.phase, report.end_cause) == ("ended", "launch_failed")
    assert "temporarily unavailable" in report.end_detail


def test_killed_supervisor_is_reported_lost(host: FakeHost) -> None:
    """Its job died with it; where it stood is still known."""
    order = wanted(("train",))
    host.send(order)
    host.run(2)
    [identity] = host.processes.supervisors
    host.processes.kill(identity)
    host.run(1)
    report = host.report(order)

    assert report is not None
    assert (report.phase, report.end_cause) == ("ended", "supervisor_lost")
    assert report.run_s > 0


@pytest.mark.parametrize(
    ("wish", "cause"), [("preempt", "preempted"), ("suspend", "suspended"), ("cancel", "cancelled")]
)
def test_attempt_that_is_to_end_before_it_was_heard_of_never_starts(host: FakeHost, wish: str, cause: str) -> None:
    """Its launch was lost; the scheduler still learns that it is over."""
    order = wanted(("train",), wanted=wish)
    host.send(order)
    host.run(1)
    report = host.report(order)

    assert host.spawns == []
    assert report is not None
    assert (report.phase, report.end_cause) == ("ended", cause)


@pytest.mark.parametrize(
    ("wish", "cause"), [("preempt", "preempted"), ("suspend", "suspended"), ("cancel", "cancelled")]
)
def test_running_attempt_ends_as_wanted(host: FakeHost, wish: str, cause: str) -> None:
    """The wish reaches the job and comes back as the end cause."""
    order = wanted(("train",))
    host.send(order)
    host.run(1)
    host.send(replace(order, wanted=wish))  # type: ignore[arg-type]  # a literal of the list above
    host.run(2)
    report = host.report(order)

    assert report is not None
    assert (report.phase, report.end_cause) == ("ended", cause)


def test_directory_of_another_server_is_left_alone(host: FakeHost) -> None:
    """Two servers never run one attempt, even when the scheduler errs."""
    order = wanted(("train",))
    other = FakeHost()
    other.files.content = host.files.content
    host.send(order)
    host.run(1)
    launch = host.files.read(order.attempt_id, LAUNCH_FILE)
    assert launch is not None
    host.files.content[order.attempt_id, LAUNCH_FILE] = launch.replace(b"s0123456789a", b"szzzzzzzzzzz")
    other.start()
    other.send(order)
    other.run(1)
    report = other.report(order)

    assert other.spawns == []
    assert report is not None
    assert (report.phase, report.end_cause) == ("ended", "launch_failed")


def test_job_cannot_end_its_attempt_by_writing_the_state_file(host: FakeHost) -> None:
    """An end is believed when the supervisor itself is gone."""
    order = wanted(("train",))
    host.send(order)
    host.run(1)
    state = host.files.read(order.attempt_id, STATE_FILE)
    assert state is not None
    host.files.content[order.attempt_id, STATE_FILE] = state.replace(b'"running"', b'"ended"')
    host.look()

    assert host.phase(order) == "stopping"


def test_note_of_a_supervisor_is_logged_once(host: FakeHost, caplog: pytest.LogCaptureFixture) -> None:
    """Its own log is in the attempt's directory, where an admin does not look."""
    order = wanted(("train",))
    host.send(order)
    host.run(0.5)
    state = host.agent.core.book.known[order.attempt_id].state
    assert state is not None
    for _ in range(3):
        host.tell(ev.Observed(attempt_id=order.attempt_id, alive=True, state=replace(state, note="It had threads.")))

    said = [vars(record)["problem"] for record in caplog.records if record.message == "job_start"]
    assert said == ["It had threads."]
