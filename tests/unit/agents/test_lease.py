"""The lease of a server as its agent counts it, and what becomes of jobs when it runs out."""

import pytest

from tests.support.agents.fake_job import Job
from tests.support.agents.fakes import FakeHost
from tests.support.agents.server import wanted


@pytest.fixture
def host() -> FakeHost:
    """A server whose agent has reported once."""
    host = FakeHost()
    host.start()
    return host


def test_nothing_is_launched_without_a_lease(host: FakeHost) -> None:
    """An acknowledgement of a report that this agent did not send grants nothing; the next renewal does."""
    order = wanted(("train",))
    host.generation += 1
    host.orders = {order.attempt_id: order}
    host.deliver(host.message(acknowledged=1))
    host.run(1)
    before = list(host.spawns)
    host.deliver(host.message())
    host.run(0.5)

    assert before == []
    assert host.starts == [order.attempt_id]


def test_lease_counts_from_sending_the_acknowledged_report(host: FakeHost) -> None:
    """However late the acknowledgement comes, the job stops ttl after the report was sent."""
    order = wanted(("train",))
    host.send(order)
    host.run(1)
    stamp = host.reports[-1][0]
    host.run(10)
    host.deliver(host.message(acknowledged=stamp.sequence))
    host.run(9)
    before = host.phase(order)
    host.run(2)

    assert before == "running"
    assert host.phase(order) == "frozen"


def test_renewal_thaws_and_training_continues(host: FakeHost) -> None:
    """A lease that ran out freezes the job; a renewal of the same generation lets it go on."""
    order = wanted(("train",))
    host.send(order)
    host.run(25)
    frozen = (host.phase(order), host.jobs[order.attempt_id].is_stopped)
    host.deliver(host.message())
    host.run(1)

    assert frozen == ("frozen", True)
    assert host.phase(order) == "running"
    assert not host.jobs[order.attempt_id].is_stopped
    assert [event for _, event, _ in host.journal] == ["start", "stop", "continue"]


def test_frozen_attempt_that_is_fenced_never_runs_again(host: FakeHost) -> None:
    """A newer generation without the attempt kills it where it stands."""
    order = wanted(("train",))
    host.send(order)
    host.run(25)
    ran_s = host.jobs[order.attempt_id].ran_s
    host.generation += 1
    host.orders = {}
    host.deliver(host.message(acknowledged=1))
    host.run(1)

    assert host.jobs[order.attempt_id].ran_s == ran_s
    assert host.processes.supervisors == {}
    assert [event for _, event, _ in host.journal] == ["start", "stop", "exit"]


def test_regular_renewals_keep_a_job_running(host: FakeHost) -> None:
    """With a renewal every quarter of the ttl nothing ever freezes or is asked for a checkpoint."""
    order = wanted(("train",))
    host.jobs[order.attempt_id] = Job(uses_runtime=True)
    host.send(order)
    for _ in range(12):
        host.run(5)
        host.deliver(host.message())

    assert host.jobs[order.attempt_id].requests == []
    assert "stop" not in [event for _, event, _ in host.journal]
