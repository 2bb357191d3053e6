"""An agent that starts again: what it finds, adopts and reports, and that it starts nothing twice."""

import pytest

from agents.core import events as ev
from agents.core.reporter import CEILING_STEP
from tests.support.agents.fake_job import Job
from tests.support.agents.fakes import FakeHost
from tests.support.agents.server import wanted


@pytest.fixture
def host() -> FakeHost:
    """A server whose agent has reported once."""
    host = FakeHost()
    host.start()
    return host


def test_restarted_agent_adopts_what_runs(host: FakeHost) -> None:
    """Training goes on while the agent is away, and is reported again at once."""
    order = wanted(("train",))
    host.send(order)
    host.run(1)
    host.run(2, with_agent=False)
    host.start()
    host.run(0.2)

    assert host.phase(order) == "running"
    assert host.spawns == [order.attempt_id]
    assert host.jobs[order.attempt_id].ran_s > 2


def test_restarted_agent_reports_what_ended_meanwhile(host: FakeHost) -> None:
    """An end while the agent was away is not lost."""
    order = wanted(("train",))
    host.jobs[order.attempt_id] = Job(run_s=2, exit_code=3)
    host.send(order)
    host.run(1)
    host.run(3, with_agent=False)
    host.start()
    host.run(1)
    report = host.report(order)

    assert report is not None
    assert (report.phase, report.end_cause, report.exit_code) == ("ended", "exit_code", 3)


def test_report_sequence_rises_over_a_restart_with_the_clock_set_back(host: FakeHost) -> None:
    """The scheduler never sees an old sequence, whatever the wall clock does."""
    before = host.reports[-1][0].sequence
    host.clock.wall = host.clock.wall.replace(year=2016)
    host.start()

    assert host.reports[-1][0].sequence > before


def test_agent_without_memory_and_with_its_clock_set_back_goes_on_above_what_was_taken(host: FakeHost) -> None:
    """The first desired state says which report the scheduler took; this also holds after the next crash."""
    before = host.reports[-1][0].sequence
    host.clock.wall = host.clock.wall.replace(year=2016)
    host.files.own = None
    host.start()
    alone = host.reports[-1][0].sequence
    host.deliver(host.message(acknowledged=before))
    told = host.reports[-1][0].sequence
    host.start()

    # Far above: of what the run before sent last, some may still arrive.
    assert alone < before < told - CEILING_STEP
    assert host.reports[-1][0].sequence > told


def test_agent_is_told_where_it_was_only_once(host: FakeHost) -> None:
    """Of two agents with one identity the one that is not heard does not overtake the other, and gets no lease."""
    host.deliver(host.message())
    before = host.reports[-1][0].sequence
    host.deliver(host.message(acknowledged=before + 1000))

    assert before < host.reports[-1][0].sequence < before + 1000


def test_old_message_is_still_old_after_a_restart(host: FakeHost) -> None:
    """The stamp survives a crash."""
    order = wanted(("train",))
    message = host.want(order)
    host.send()
    host.start()
    host.deliver(message)
    host.run(1)

    assert host.spawns == []
    assert host.agent.core.rejected["stale"] == 1


def test_crash_between_claim_and_launch_never_launches_later(host: FakeHost) -> None:
    """Nobody knows whether it was started, so it is ended, for a reason that costs the job nothing."""
    order = wanted(("train",))
    core = host.agent.core
    for command in core.handle(ev.DesiredReceived(message=host.want(order))):
        if isinstance(command, ev.Persist):
            host.files.write_own(command.content)
    host.start()
    host.run(1)
    host.deliver(host.message())
    host.run(1)
    report = host.report(order)

    assert host.spawns == []
    assert report is not None
    assert (report.phase, report.end_cause) == ("ended", "launch_failed")


def test_supervisor_slow_to_start_is_fenced_by_a_restarted_agent(host: FakeHost) -> None:
    """Spawned but unknown to the new agent: the first maker of the state file decides, and nothing starts twice."""
    order = wanted(("train",))
    host.send(order)
    [identity] = host.processes.supervisors
    kept = host.files.own
    assert kept is not None
    host.files.own = kept.replace(
        b'{"boot_id":"boot","pid":%d,"start_ticks":%d}' % (identity.pid, identity.start_ticks), b"null"
    )
    host.start()
    host.look()
    host.run(1)
    report = host.report(order)

    assert host.starts == []
    assert report is not None
    assert (report.phase, report.end_cause) == ("ended", "launch_failed")


def test_agent_that_lost_its_memory_finds_its_attempts(host: FakeHost) -> None:
    """The launch files say whose they are."""
    order = wanted(("train",))
    host.send(order)
    host.run(1)
    host.files.own = b"\x00garbage"
    host.start()
    host.run(0.3)

    assert host.phase(order) == "running"
