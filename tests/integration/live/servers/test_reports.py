"""What an agent may not do: lie about others, come from the past or the future, or make the engine fail."""

from collections.abc import Callable
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from agents.protocol.signing import Stamp
from scheduler.broker import TOO_LARGE
from scheduler.core.model.lifecycle import JobState
from scheduler.models import Attempt, Cluster, Event, Gpu, Job, Lease, Server
from tests.support.live.ports import FakeAgent
from tests.support.live.world import World


def _state_of_everything() -> list[Any]:
    """Return all rows that a report could change, but the counter of refusals."""
    rows: list[Any] = [list(model.objects.order_by("pk").values()) for model in (Job, Attempt, Lease, Gpu)]
    return [*rows, list(Server.objects.order_by("pk").values("pk", "state", "generation", "num_cpus"))]


def _take(world: World, agent: FakeAgent, *messages: str) -> None:
    world.do(lambda: world.engine.take([(agent.server_id, message) for message in messages]))


def _rejected(agent: FakeAgent) -> int:
    return Server.objects.get(pk=agent.server_id).rejected_reports


def test_doubled_and_late_reports_change_nothing(world: World) -> None:
    """Only a report newer than the newest one counts; transports double and reorder, so nothing is held against it."""
    agent = world.server("alpha")
    job = world.submit()
    world.until_state(job, JobState.RUNNING)
    early = agent.report()
    agent.work(5)
    late = agent.report()
    _take(world, agent, late)
    before = _state_of_everything()
    _take(world, agent, early, late, late)

    assert _state_of_everything() == before
    assert Job.objects.get(pk=job.pk).step == agent.attempt_of(job.pk).step
    assert _rejected(agent) == 0


def test_report_of_many_jobs_costs_no_more_statements_than_of_one(
    world: World, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    """Of each server a report is taken every second."""
    agent = world.server("alpha", slots=4)
    jobs = [world.submit() for _ in range(4)]
    world.until(lambda: all(world.state(job) == JobState.RUNNING for job in jobs))
    agent.work(1)
    message = agent.report()

    # The cluster's epoch, the server (twice, and its place in line), its GPUs, leases and gangs, two kinds of rows
    # written, and a savepoint.
    with django_assert_num_queries(11):
        world.engine.take([(agent.server_id, message)])
    assert [Job.objects.get(pk=job.pk).step for job in jobs] == [agent.attempt_of(job.pk).step for job in jobs]


def test_of_one_batch_the_newest_report_counts(world: World) -> None:
    """Each report says all there is to say."""
    agent = world.server("alpha")
    job = world.submit()
    world.until_state(job, JobState.RUNNING)
    messages = []
    for _ in range(5):
        agent.work(1)
        messages.append(agent.report())
    _take(world, agent, *reversed(messages))

    assert Job.objects.get(pk=job.pk).step == agent.attempt_of(job.pk).step


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda text: text[:40], "malformed"),
        (lambda text: "", "malformed"),
        (lambda text: "[" * 50_000, "malformed"),
        (lambda text: '{"content": "{}", "mac": "00"}', "forged"),
        (lambda text: text.replace("cpu-slot-0", "cpu-slot-9"), "forged"),
    ],
)
def test_spoiled_report_is_counted_and_nothing_else(world: World, spoil: Callable[[str], str], why: str) -> None:
    """No exception, no change, one event that says why."""
    agent = world.server("alpha")
    job = world.submit()
    world.until_state(job, JobState.RUNNING)
    before = _state_of_everything()
    agent.work(3)
    _take(world, agent, spoil(agent.report()))

    assert _state_of_everything() == before
    assert _rejected(agent) == 1
    assert Event.objects.get(kind="report_rejected").reason == why


def test_report_sealed_by_another_server_is_forged(world: World) -> None:
    """The key of one server opens nothing of another."""
    alpha, beta = world.server("alpha"), world.server("beta")
    before = _state_of_everything()
    world.do(lambda: world.engine.take([(alpha.server_id, beta.report())]))

    assert _state_of_everything() == before
    assert _rejected(alpha) == 1


def test_report_from_the_future_is_refused(world: World) -> None:
    """Nobody can work on a desired state that was never decided."""
    agent = world.server("alpha")
    server = Server.objects.get(pk=agent.server_id)
    _take(world, agent, agent.report(generation=server.generation + 1), agent.report(epoch=2))

    assert _rejected(agent) == 2
    assert Server.objects.get(pk=agent.server_id).acked_generation <= server.generation


def test_report_of_an_old_epoch_changes_no_attempt(world: World) -> None:
    """After a restored backup agents still speak of the time before; they are told the present state."""
    agent = world.server("alpha")
    job = world.submit()
    world.until_state(job, JobState.RUNNING)
    Cluster.objects.update(epoch=2)
    agent.end(job.pk, cause="completed")
    world.transport.desired.clear()
    _take(world, agent, agent.report())

    assert world.state(job) == JobState.RUNNING
    assert world.transport.desired[agent.server_id]


def test_attempt_of_another_server_is_not_believed(world: World) -> None:
    """A server may lie only about itself."""
    alpha, beta = world.server("alpha", slots=1), world.server("beta", slots=1)
    job = world.submit()
    world.until_state(job, JobState.RUNNING)
    owner = world.agent_of(job)
    liar = beta if owner is alpha else alpha
    attempt = owner.attempt_of(job.pk)
    liar.attempts[attempt.wanted.attempt_id] = attempt
    attempt.phase, attempt.cause = "ended", "completed"
    _take(world, liar, liar.report())

    assert world.state(job) == JobState.RUNNING
    assert _rejected(liar) == 1
    assert Event.objects.get(kind="report_rejected").reason == "foreign_attempt"


def test_ended_attempt_stays_ended(world: World) -> None:
    """Whatever is said about an attempt after its end is history."""
    agent = world.server("alpha")
    job = world.submit()
    world.until_state(job, JobState.RUNNING)
    attempt = agent.attempt_of(job.pk)
    agent.end(job.pk, cause="completed")
    _take(world, agent, agent.report())
    attempt.phase, attempt.step = "running", 10_000
    agent.attempts[attempt.wanted.attempt_id] = attempt
    _take(world, agent, agent.report())

    assert world.state(job) == JobState.COMPLETED
    assert Job.objects.get(pk=job.pk).step != 10_000
    assert _rejected(agent) == 0


def test_steps_only_rise_within_an_attempt(world: World) -> None:
    """A step that goes back is not taken, and is counted."""
    agent = world.server("alpha")
    job = world.submit()
    world.until_state(job, JobState.RUNNING)
    world.pass_time(5)
    known = Job.objects.get(pk=job.pk).step
    agent.attempt_of(job.pk).step = 1
    _take(world, agent, agent.report())

    assert Job.objects.get(pk=job.pk).step == known
    assert _rejected(agent) == 1


def test_checkpoint_pointer_moves_only_forward(world: World) -> None:
    """The latest checkpoint is that of the live attempt at its highest step."""
    agent = world.server("alpha")
    job = world.submit()
    world.until_state(job, JobState.RUNNING)
    world.pass_time(9)
    agent.checkpoint(job.pk)
    world.pass_time(1)
    latest = Job.objects.get(pk=job.pk).checkpoint_step
    agent.attempt_of(job.pk).checkpoint_step = 2
    world.pass_time(1)

    assert latest is not None
    assert latest > 2
    assert Job.objects.get(pk=job.pk).checkpoint_step == latest


def test_end_on_request_that_nobody_asked_for_is_no_success(world: World) -> None:
    """An agent that says "cancelled" of its own accord loses the attempt; the job runs again."""
    agent = world.server("alpha")
    job = world.submit()
    world.until_state(job, JobState.RUNNING)
    agent.end(job.pk, cause="cancelled")
    _take(world, agent, agent.report())

    assert world.state(job) == JobState.QUEUED
    assert world.attempts(job)[0].end_cause == "supervisor_lost"


def test_job_that_was_stopped_with_its_server_waits_for_no_pause(world: World) -> None:
    """Ctrl-C of the product, or of one agent: the job checkpoints, and goes on as soon as its server is back."""
    agent = world.server("alpha")
    job = world.submit()
    world.until_state(job, JobState.RUNNING)
    world.pass_time(5)
    agent.checkpoint(job.pk)
    agent.end(job.pk, cause="preempted")
    _take(world, agent, agent.report())
    stopped = world.attempts(job)[0]
    kept = Job.objects.get(pk=job.pk)

    assert (stopped.end_cause, stopped.preempt_rule, stopped.failure) == ("preempted", "server_gone", "preempted")
    assert (kept.state, kept.failures, kept.retry_after, kept.preemptions) == (JobState.QUEUED, 0, None, 1)
    world.until_state(job, JobState.RUNNING, within_s=20)


@pytest.mark.parametrize("cause", ["", "tired", "x" * 20])
def test_unknown_cause_is_refused(world: World, cause: str) -> None:
    """The list of causes is closed."""
    agent = world.server("alpha")
    job = world.submit()
    world.until_state(job, JobState.RUNNING)
    agent.end(job.pk, cause=cause)
    _take(world, agent, agent.report())

    assert world.state(job) == JobState.RUNNING
    assert _rejected(agent) == 1


def _body(agent: FakeAgent, **changes: Any) -> dict[str, Any]:
    body = {
        "agent_version": "1",
        "boot_id": "boot",
        "device_kind": "cpu_slot",
        "isolation": "none",
        "num_cpus": 4,
        "memory_bytes": 10**9,
        "cpu_frac": 0.5,
        "used_memory_bytes": 1,
        "devices": [],
        "attempts": [],
    }
    return {**body, **changes}


DEVICE = {"index": 0, "uuid": "a", "model": "m", "memory_bytes": 0, "healthy": True, "health_reason": ""}


@pytest.mark.parametrize(
    "changes",
    [
        {"num_cpus": -1},
        {"cpu_frac": 17.0},
        {"memory_bytes": 2**63},
        {"boot_id": 7},
        {"devices": [DEVICE, {**DEVICE, "index": 1}]},  # one device twice
        {"devices": [{**DEVICE, "model": "\ud800"}]},  # no text that a database can hold
        {"attempts": [{"attempt_id": "x"}]},
        {"attempts": "many"},
    ],
)
def test_values_out_of_range_are_refused_whole(world: World, changes: dict[str, Any]) -> None:
    """The report is signed, so the server itself is at fault; the next good report is taken as ever."""
    agent = world.server("alpha")
    before = _state_of_everything()
    agent.sequence += 1
    stamp = Stamp(epoch=agent.stamp.epoch, generation=agent.stamp.generation, sequence=agent.sequence)
    _take(world, agent, agent.seal(stamp, _body(agent, **changes)))

    assert _state_of_everything() == before
    assert _rejected(agent) == 1

    world.pass_time(2)

    assert _rejected(agent) == 1
    assert Server.objects.get(pk=agent.server_id).report_sequence == agent.sequence


def test_refusals_are_told_once_a_minute(world: World) -> None:
    """A server that floods us with nonsense fills a counter, not the list of events."""
    agent = world.server("alpha")
    for _ in range(50):
        _take(world, agent, "nonsense")
    first = Event.objects.filter(kind="report_rejected").count()
    world.pass_time(61)
    _take(world, agent, "nonsense")

    assert first == 1
    assert Event.objects.filter(kind="report_rejected").count() == 2
    assert _rejected(agent) == 51


def test_two_devices_may_change_places(world: World) -> None:
    """After a reboot the same GPUs may come in another order."""
    agent = world.server("alpha")
    agent.sequence += 1
    stamp = Stamp(epoch=agent.stamp.epoch, generation=agent.stamp.generation, sequence=agent.sequence)
    devices = [{**DEVICE, "index": 0, "uuid": "cpu-slot-1"}, {**DEVICE, "index": 1, "uuid": "cpu-slot-0"}]
    _take(world, agent, agent.seal(stamp, _body(agent, devices=devices)))

    assert list(Gpu.objects.order_by("index").values_list("uuid", flat=True)) == ["cpu-slot-1", "cpu-slot-0"]
    assert _rejected(agent) == 0


def test_reports_that_were_dropped_unread_are_an_event_of_their_server(world: World) -> None:
    """What would have filled our memory is told with its cause; the server's next report counts."""
    agent = world.server("alpha")
    _take(world, agent, TOO_LARGE)
    refused = Event.objects.get(kind="report_rejected")
    _take(world, agent, agent.report())

    assert (refused.server_id, refused.reason, refused.data) == (agent.server_id, "too_large", {"too_large": 1})
    assert _rejected(agent) == 1
