"""A broker that answers late delays reports, it does not keep them out."""

import pytest
from django.conf import settings

from scheduler.models.server import ServerState
from tests.support.live.ports import FakeAgent
from tests.support.live.world import World
from tests.support.rows import factories

pytestmark = pytest.mark.django_db
SERVERS = 12


def test_renewals_that_take_long_leave_time_for_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next renewal was due when the last had ended: one report was taken in between."""
    world = World()
    world.server("first")
    renewals: list[set[str]] = []
    send = world.transport.send_desired

    def slowly(messages: dict[str, str]) -> None:
        renewals.append(set(messages))
        world.clock.advance(settings.LEASE_TTL_S / 3)
        send(messages)

    monkeypatch.setattr(world.transport, "send_desired", slowly)
    world.clock.advance(settings.LEASE_TTL_S / 2)
    for number in range(SERVERS):
        row = factories.server_make(f"new-{number}", gpus=0, state=ServerState.JOINING, num_cpus=0, memory_bytes=0)
        FakeAgent(row, world.transport, world.clock, slots=1).send()
    world.engine.turn(world.engine.server_ids(), timeout_s=0)

    assert len(renewals) <= 3  # one renewal, the answers to new servers, and one renewal after them
    assert len(world.engine.watch.heard) == SERVERS + 1


def test_broker_that_hung_does_not_put_off_the_next_renewal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs end themselves before their lease runs out: what failed is tried again within an eighth of its life."""
    world = World()
    world.server("first")
    sent_s: list[float] = []
    send = world.transport.send_desired

    def hang(messages: dict[str, str]) -> None:
        world.clock.advance(settings.LEASE_TTL_S / 3)
        raise ConnectionError("hung")

    def note(messages: dict[str, str]) -> None:
        sent_s.append(world.clock.mono_s())
        send(messages)

    world.clock.advance(settings.LEASE_TTL_S / 2)
    monkeypatch.setattr(world.transport, "send_desired", hang)
    world.engine.turn(world.engine.server_ids(), timeout_s=0)
    monkeypatch.setattr(world.transport, "send_desired", note)
    hung_until_s = world.clock.mono_s()
    world.pass_time(int(settings.LEASE_TTL_S / 8) + 2)

    assert sent_s
    assert sent_s[0] - hung_until_s <= settings.LEASE_TTL_S / 8 + 1
