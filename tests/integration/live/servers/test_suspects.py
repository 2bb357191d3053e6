"""Servers that attempts keep failing on are drained, and only those."""

from datetime import timedelta

import pytest

from scheduler.core.model.lifecycle import JobState
from scheduler.live.servers.suspects import Incident, suspected
from scheduler.models import Event, Job, Server
from scheduler.models.server import ServerState
from scheduler.services.cluster.servers import server_undrain
from tests.support.live.world import World
from tests.support.rows.factories import AT


def incident(server: str, job: str, minute: float, *, owner: int = 1, seen: bool = True) -> Incident:
    """Return one incident."""
    at = AT + timedelta(minutes=minute)
    return Incident(server_id=server, job_id=job, owner_id=owner, at=at, failure="node", is_seen=seen)


@pytest.mark.parametrize(
    ("incidents", "servers"),
    [
        ([incident("a", "1", 0), incident("a", "2", 5), incident("a", "1", 9)], {"a"}),
        ([incident("a", "1", 0), incident("a", "1", 5), incident("a", "1", 9)], set()),  # one job alone
        ([incident("a", "1", 0), incident("a", "2", 0), incident("a", "3", 0)], set()),  # one moment
        ([incident(server, f"{server}{n}", 5 * n) for n in range(3) for server in ("a", "b")], set()),  # shared trouble
        ([incident("a", "1", 0), incident("a", "2", 5), incident("a", "3", 9), incident("b", "3", 30)], set()),
        ([incident("a", str(n), 5 * n, seen=False) for n in range(3)], set()),  # one owner's output
        ([incident("a", str(n), 5 * n, owner=n, seen=False) for n in range(3)], {"a"}),
    ],
)
def test_what_speaks_against_a_server(incidents: list[Incident], servers: set[str]) -> None:
    """Not what others have at the same time, not what a job takes along, not the word of one owner."""
    assert set(suspected(incidents)) == servers


def fail_three(world: World) -> None:
    """Let three launches fail on alpha at three moments; jobs go to it because beta is full."""
    agent = world.agents["alpha"]
    for job in [world.submit(name=f"doomed-{index}") for index in range(3)]:
        world.until_state(job, JobState.RUNNING)
        agent.end(job.pk, cause="launch_failed", detail="No process could be made.")
        world.pass_time(1)


def test_server_is_drained_by_itself_and_an_admin_undrains_it(world: World) -> None:
    """Three failures at three moments: the reason is an event; what was before the admin looked does not count."""
    beta = world.server("beta", slots=1)
    filler = world.submit(name="filler", schedule={"preemptible": False})
    world.until_state(filler, JobState.RUNNING)
    world.server("alpha", slots=3)
    fail_three(world)

    alpha = Server.objects.get(name="alpha")
    event = Event.objects.get(kind="server_state", reason="failures")
    assert alpha.state == ServerState.DRAINING
    assert (event.actor, event.server_id, event.old_state) == ("scheduler", alpha.pk, ServerState.UP)
    assert "3 attempts of 3 jobs failed on it within an hour: node" in alpha.state_reason

    world.do(lambda: server_undrain(actor=world.admin, server=alpha, reason="looked at", at=world.clock.now()))
    world.pass_time(5)
    assert Server.objects.get(name="alpha").state == ServerState.UP
    assert Job.objects.get(pk=filler.pk).state == JobState.RUNNING
    assert beta.attempt_of(filler.pk)


def test_last_server_is_never_drained(world: World) -> None:
    """A bad server is better than none."""
    world.server("alpha", slots=3)
    fail_three(world)

    assert Server.objects.get(name="alpha").state == ServerState.UP
