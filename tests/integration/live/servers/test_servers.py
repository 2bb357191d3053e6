"""Servers that fall silent, come back, drain, break or forget: their jobs go on elsewhere, and never twice."""

from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings

from scheduler.core.model.lifecycle import EndCause, JobState
from scheduler.live.servers.watch import UNCONFIRMED_AFTER_S
from scheduler.models import Event, Gpu, Job, Lease, Server
from scheduler.models.server import ServerState
from scheduler.services.cluster.servers import server_drain
from tests.support.live.world import World

SILENCE_S = int(settings.LEASE_TTL_S + settings.LOST_GRACE_S)


def test_job_of_a_lost_server_continues_on_another(world: World) -> None:
    """A server silent for longer than its lease and the grace is fenced; its job resumes from the checkpoint."""
    world.server("alpha", slots=1)
    job = world.submit()
    world.until_state(job, JobState.RUNNING)
    world.pass_time(10)
    world.agents["alpha"].checkpoint(job.pk)
    world.pass_time(2)
    world.server("beta", slots=1)
    generation = Server.objects.get(name="alpha").generation
    world.pass_time(SILENCE_S - 3, silent=("alpha",))
    assert Server.objects.get(name="alpha").state == ServerState.UP
    world.pass_time(10, silent=("alpha",))

    lost = Server.objects.get(name="alpha")
    assert lost.state == ServerState.LOST
    assert lost.generation > generation
    first, second = world.attempts(job)
    assert first.end_cause == EndCause.SERVER_LOST
    assert first.lost_s == pytest.approx(SILENCE_S, abs=4)
    assert second.resume_attempt_id == first.pk
    assert world.agent_of(job).name == "beta"
    assert world.state(job) == JobState.RUNNING


def test_lost_server_comes_back_by_working_on_the_new_generation(world: World) -> None:
    """Its first reports are of an old generation: it is told, drops what it ran, and is up again."""
    agent = world.server("alpha", slots=1)
    job = world.submit()
    world.until_state(job, JobState.RUNNING)
    attempt = world.attempts(job)[0]
    world.pass_time(SILENCE_S + 2, silent=("alpha",))
    assert world.state(job) == JobState.QUEUED
    world.transport.desired.clear()  # the broker kept nothing for it
    world.pass_time(1)
    assert Server.objects.get(name="alpha").state == ServerState.LOST
    assert attempt.pk in agent.attempts
    world.pass_time(5)

    assert Server.objects.get(name="alpha").state == ServerState.UP
    assert attempt.pk not in agent.attempts
    assert world.state(job) == JobState.RUNNING
    assert [a.number for a in world.attempts(job)] == [1, 2]


@pytest.mark.parametrize("silent_s", [2, SILENCE_S + 2], ids=["soon", "after it was given up"])
def test_server_that_lost_its_memory_comes_back(world: World, silent_s: int) -> None:
    """Its reports have numbers of long ago; it is told nevertheless, goes on above them, and works."""
    agent = world.server("alpha", slots=1)
    world.pass_time(10)
    world.pass_time(silent_s, silent=("alpha",))
    world.transport.desired.clear()  # the broker kept nothing for it
    agent.forget()
    world.pass_time(5)

    assert Server.objects.get(name="alpha").state == ServerState.UP
    assert Server.objects.get(name="alpha").report_sequence == agent.sequence

    world.until_state(world.submit(), JobState.RUNNING, within_s=5)


def test_new_scheduler_grants_a_silent_server_one_full_period(world: World) -> None:
    """What the scheduler remembered is gone with it; it never gives a server up for time it did not watch."""
    from scheduler.live.engine import Engine

    world.server("alpha", slots=1)
    world.pass_time(SILENCE_S - 5, silent=("alpha",))
    world.engine = Engine(world.ports)
    world.pass_time(SILENCE_S - 5, silent=("alpha",))

    assert Server.objects.get(name="alpha").state == ServerState.UP

    world.pass_time(10, silent=("alpha",))

    assert Server.objects.get(name="alpha").state == ServerState.LOST


@pytest.mark.parametrize("when", ["before it listens", "while it listens", "while it takes what arrived"])
def test_server_that_reports_is_not_silent_while_the_scheduler_stands_still(
    world: World, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """A process that was stopped, or a database that let it wait, takes what was said before it judges."""
    agent = world.server("alpha", slots=1)
    job = world.submit()
    world.until_state(job, JobState.RUNNING)

    def standing_still(call: Callable[..., Any]) -> Callable[..., Any]:
        def slow(*arguments: Any, **named: Any) -> Any:
            world.clock.advance(2 * SILENCE_S)
            return call(*arguments, **named)

        return slow

    agent.send()
    if when == "before it listens":
        world.clock.advance(2 * SILENCE_S)
        agent.send()  # it went on
    elif when == "while it listens":
        monkeypatch.setattr(world.transport, "receive_reports", standing_still(world.transport.receive_reports))
    else:
        monkeypatch.setattr(world.engine, "take", standing_still(world.engine.take))
    world.do(lambda: world.engine.turn(world.engine.server_ids(), timeout_s=0))

    assert Server.objects.get(name="alpha").state == ServerState.UP
    assert world.state(job) == JobState.RUNNING


def test_wall_clock_jumps_lose_no_server(world: World) -> None:
    """Silence is measured by the monotonic clock alone."""
    world.server("alpha", slots=1)
    job = world.submit()
    world.until_state(job, JobState.RUNNING)
    for seconds in (3600, -7200, 10 * 365 * 86_400, -20 * 365 * 86_400):
        world.clock.jump(seconds)
        world.pass_time(3)

    assert Server.objects.get(name="alpha").state == ServerState.UP
    assert world.state(job) == JobState.RUNNING
    assert len(world.attempts(job)) == 1


def test_drained_server_is_emptied_and_gets_nothing_new(world: World) -> None:
    """Its jobs are asked to checkpoint and continue elsewhere."""
    world.server("alpha", slots=1)
    job = world.submit()
    world.until_state(job, JobState.RUNNING)
    world.pass_time(5)
    world.server("beta", slots=1)
    server = Server.objects.get(name="alpha")
    world.do(lambda: server_drain(actor=world.admin, server=server, reason="new fan", at=world.clock.now()))
    world.until(lambda: world.state(job) == JobState.RUNNING and len(world.attempts(job)) == 2)

    assert world.agent_of(job).name == "beta"
    assert world.attempts(job)[0].preempt_rule == "server_gone"
    assert not Lease.objects.filter(server__name="alpha", closed_at=None).exists()


def test_broken_gpu_is_not_given_and_its_job_moves(world: World) -> None:
    """A GPU that its server reports as broken leaves the pool at once."""
    agent = world.server("alpha", slots=2)
    job = world.submit()
    world.until_state(job, JobState.RUNNING)
    held = Gpu.objects.get(leases__released_at=None, leases__lease__attempt__job=job)
    agent.broken = {held.index}
    world.until(lambda: len(world.attempts(job)) == 2 and world.state(job) == JobState.RUNNING)

    now = Gpu.objects.get(leases__released_at=None, leases__lease__attempt__job=job)
    assert now.index != held.index
    assert not Gpu.objects.get(pk=held.pk).healthy


def test_launch_that_no_agent_confirms_is_taken_back(world: World) -> None:
    """An agent that acknowledges the generation but never names the attempt loses it; the job starts again."""
    agent = world.server("alpha", slots=1)
    agent.launches = False
    job = world.submit()
    world.until(lambda: world.state(job) == JobState.QUEUED, within_s=1)
    seconds = world.until(lambda: any(attempt.ended_at for attempt in world.attempts(job)))
    first = world.attempts(job)[0]

    assert seconds == pytest.approx(UNCONFIRMED_AFTER_S, abs=4)
    assert first.end_cause == EndCause.LAUNCH_UNCONFIRMED
    assert Job.objects.get(pk=job.pk).failures == 0

    agent.launches = True
    world.until_state(job, JobState.RUNNING, within_s=20)


def test_two_schedulers_do_not_lose_a_server_that_one_of_them_hears(world: World) -> None:
    """A scheduler that hears nothing believes the other one's notes in the database."""
    from scheduler.live.engine import Engine

    world.server("alpha", slots=1)
    deaf = Engine(world.ports)
    for _ in range(SILENCE_S + 20):
        world.pass_time(1)
        world.do(deaf.tick)

    assert Server.objects.get(name="alpha").state == ServerState.UP
    assert not Event.objects.filter(kind="server_state", new_state="lost").exists()
