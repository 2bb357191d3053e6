"""A server's words about its size: small growth and any loss are believed, a jump waits for an admin."""

from typing import Any

import pytest

from scheduler.core.model.errors import Conflict
from scheduler.models import Event, Gpu, Server
from scheduler.services.cluster.servers import server_size_confirm
from tests.support.live.ports import GIB, FakeAgent
from tests.support.live.world import World


def size() -> tuple[int, int, int]:
    """Return cores, bytes and healthy devices of the only server."""
    server = Server.objects.get()
    return server.num_cpus, server.memory_bytes, Gpu.objects.filter(healthy=True).count()


@pytest.fixture
def alpha(world: World) -> FakeAgent:
    """A server of two slots, four cores and 16 GiB."""
    return world.server("alpha", slots=2)


@pytest.mark.parametrize(
    "jump", [{"num_cpus": 3_999}, {"memory_bytes": 2**50}, {"slots": 64}, {"num_cpus": 9, "slots": 1}]
)
def test_size_that_jumps_is_an_alert_and_no_capacity(world: World, alpha: FakeAgent, jump: dict[str, int]) -> None:
    """One event, however long it goes on; the server is heard as ever."""
    before = size()
    for name, value in jump.items():
        setattr(alpha, name, value)
    world.pass_time(5)

    assert all(now <= then for now, then in zip(size(), before, strict=True))
    claimed: dict[str, Any] = Server.objects.get().claimed_size or {}
    assert claimed["num_cpus"] == jump.get("num_cpus", 4)
    event = Event.objects.get(kind="server_size")
    assert event.data["claimed"] == claimed
    assert event.data["believed"]["num_cpus"] == 4
    assert Server.objects.get().report_sequence == alpha.sequence


def test_loss_is_believed_at_once_and_so_is_its_end(world: World, alpha: FakeAgent) -> None:
    """Work that does not fit must not be placed; what an admin or the first report said stays trusted."""
    alpha.slots, alpha.num_cpus = 1, 1
    world.pass_time(2)
    assert size() == (1, 16 * GIB, 1)

    alpha.slots, alpha.num_cpus = 2, 4
    world.pass_time(2)
    assert size() == (4, 16 * GIB, 2)
    assert not Event.objects.filter(kind="server_size").exists()


def test_growth_to_twice_the_size_is_believed_but_not_twice_that(world: World, alpha: FakeAgent) -> None:
    """What is trusted does not grow with what is believed."""
    alpha.num_cpus = 8
    world.pass_time(2)
    assert size()[0] == 8

    alpha.num_cpus = 16
    world.pass_time(2)
    assert size()[0] == 8


def test_claim_that_is_taken_back_is_forgotten(world: World, alpha: FakeAgent) -> None:
    """Nothing is left to confirm."""
    alpha.num_cpus = 3_999
    world.pass_time(2)
    alpha.num_cpus = 4
    world.pass_time(2)

    assert Server.objects.get().claimed_size is None
    assert size() == (4, 16 * GIB, 2)


def test_admin_confirms_the_size_that_was_read(world: World, alpha: FakeAgent) -> None:
    """From the next report on it is capacity; another size than the one read is not confirmed."""
    alpha.slots, alpha.num_cpus = 8, 64
    world.pass_time(2)
    server = Server.objects.get()
    claimed: dict[str, Any] = server.claimed_size or {}
    with pytest.raises(Conflict):
        server_size_confirm(
            actor=world.admin, server=server, size={**claimed, "num_cpus": 65}, reason="grew", at=world.clock.now()
        )
    world.do(
        lambda: server_size_confirm(actor=world.admin, server=server, size=claimed, reason="grew", at=world.clock.now())
    )
    world.pass_time(2)

    assert size() == (64, 16 * GIB, 8)
    assert Server.objects.get().claimed_size is None
    told = Event.objects.filter(kind="server_size").order_by("id").values_list("reason", "actor")
    assert list(told) == [("claimed", "agent alpha"), ("confirmed", "admin")]


def test_server_that_was_heard_before_sizes_were_kept_trusts_what_is_known_of_it(
    world: World, alpha: FakeAgent
) -> None:
    """An upgrade believes no more than before it."""
    Server.objects.update(trusted_size={})
    alpha.num_cpus = 3_999
    world.pass_time(2)

    assert size()[0] == 4
