"""The order of a server's reports: no forged number makes the genuine ones old."""

import pytest

from agents.protocol.signing import Stamp
from scheduler.models import Event, Server
from scheduler.models.server import ServerState
from tests.support.live.ports import FakeAgent
from tests.support.live.world import World

HOUR_MS, DAY_MS, YEAR_MS = 3_600_000, 86_400_000, 365 * 86_400_000


def sequence_of(agent: FakeAgent) -> int:
    """Return the newest sequence that was taken."""
    return Server.objects.get(pk=agent.server_id).report_sequence


def say(world: World, agent: FakeAgent, sequence: int) -> None:
    """Send one genuine-looking report with a sequence."""
    message = agent.report(sequence=sequence)
    world.do(lambda: world.engine.take([(agent.server_id, message)]))


def now_ms(world: World) -> int:
    """Return the wall clock, at which agents begin to count."""
    return int(world.clock.now().timestamp() * 1000)


@pytest.mark.parametrize("far", [2**62, 2**53, 30 * YEAR_MS + 1_772_000_000_000])
def test_forged_sequence_far_ahead_makes_no_genuine_report_old(world: World, far: int) -> None:
    """It is refused and told; the next genuine report is taken."""
    agent = world.server("alpha")
    say(world, agent, far)

    assert sequence_of(agent) < far
    event = Event.objects.get(kind="report_rejected")
    assert (event.reason, event.server_id) == ("sequence_jumped", agent.server_id)
    assert Server.objects.get().rejected_reports == 1

    world.pass_time(2)
    assert sequence_of(agent) == agent.sequence
    assert Server.objects.get().rejected_reports == 1


def test_forged_sequence_hides_behind_no_genuine_one(world: World) -> None:
    """A batch of messages with both: the genuine one is taken."""
    agent = world.server("alpha")
    forged, genuine = agent.report(sequence=2**62), agent.report()
    world.do(lambda: world.engine.take([(agent.server_id, forged), (agent.server_id, genuine)]))

    assert sequence_of(agent) == agent.sequence


def test_agent_that_starts_again_is_heard_at_once(world: World) -> None:
    """It goes on at the milliseconds of its clock, far above what it counted to in a month."""
    agent = world.server("alpha")
    agent.sequence = now_ms(world) - 30 * DAY_MS
    say(world, agent, agent.sequence)
    say(world, agent, now_ms(world))
    assert sequence_of(agent) == now_ms(world)

    say(world, agent, now_ms(world) + HOUR_MS)  # and with a clock that is wrong by an hour
    assert sequence_of(agent) == now_ms(world) + HOUR_MS


def test_agent_that_restarts_often_is_heard(world: World) -> None:
    """Each start skips the 100,000 numbers that the run before may have used."""
    agent = world.server("alpha")
    newest = now_ms(world)
    for _ in range(50):
        newest += HOUR_MS
        say(world, agent, newest)

    assert sequence_of(agent) == newest
    assert Server.objects.get().rejected_reports == 0


def test_agent_that_began_while_its_clock_was_years_ahead_is_heard_once_its_server_is_lost(world: World) -> None:
    """Its clock is right again, and its numbers stay where they began."""
    agent = world.server("alpha")
    agent.sequence = now_ms(world) + 10 * YEAR_MS
    world.pass_time(20)
    assert sequence_of(agent) < now_ms(world) + YEAR_MS
    world.pass_time(60)

    assert sequence_of(agent) == agent.sequence
    assert Server.objects.get().state == ServerState.UP


def test_server_that_is_lost_or_new_takes_no_last_number(world: World) -> None:
    """There is always a higher one for the next agent to go on with."""
    agent = world.server("alpha")
    world.pass_time(60, silent=("alpha",))
    assert Server.objects.get().state == ServerState.LOST
    stamp = Stamp(epoch=agent.stamp.epoch, generation=agent.stamp.generation, sequence=2**62)
    say(world, agent, stamp.sequence)

    assert sequence_of(agent) < 2**61
