"""Servers are registered with a key of their own, drained with a reason, and offered again."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from pytest_django import DjangoCaptureOnCommitCallbacks

from agents.protocol.signing import SERVER_ID
from scheduler.core.model.errors import Conflict, SpecInvalid
from scheduler.models import Event, Server
from scheduler.models.server import ServerState
from scheduler.notify import use_bell
from scheduler.services.cluster.servers import agent_config, server_drain, server_register, server_undrain
from scheduler.services.permission import OPERATOR
from tests.support.live.ports import MemoryBell
from tests.support.rows.factories import AT, server_make, user_make

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin() -> User:
    """An admin."""
    return user_make("admin", admin=True)


def test_registered_server_joins_with_id_number_and_key(admin: User) -> None:
    """Ids have one length, numbers rise, keys are 32 random bytes; the event holds no key."""
    first = server_register(actor=admin, name="gpu-01", rack="r1", at=AT)
    second = server_register(actor=OPERATOR, name="gpu-02", at=AT)
    events = list(Event.objects.filter(kind="server_state").order_by("id"))

    assert all(SERVER_ID.fullmatch(server.pk) for server in (first, second))
    assert (first.number, second.number) == (1, 2)
    assert all(re.fullmatch("[0-9a-f]{64}", server.key_hex) for server in (first, second))
    assert first.key_hex != second.key_hex
    assert (first.state, first.rack) == (ServerState.JOINING, "r1")
    assert [(event.actor, event.reason, event.new_state) for event in events] == [
        ("admin", "register", "joining"),
        ("operator", "register", "joining"),
    ]
    assert not any(first.key_hex in str(event.data) for event in events)


@pytest.mark.parametrize("name", ["", "-a", "a b", "a" * 64, "gpu_1", "gpu/1", "gpu\n"])
def test_bad_name_of_a_server_is_refused(admin: User, name: str) -> None:
    """Names are host names."""
    with pytest.raises(SpecInvalid) as caught:
        server_register(actor=admin, name=name, at=AT)

    assert [error.pointer for error in caught.value.errors] == ["/name"]


def test_taken_name_of_a_server_is_refused(admin: User) -> None:
    """Two servers never share a name."""
    server_register(actor=admin, name="gpu-01", at=AT)
    with pytest.raises(SpecInvalid, match="There is a server gpu-01 already"):
        server_register(actor=admin, name="gpu-01", at=AT)

    assert Server.objects.count() == 1


def test_configuration_of_the_agent_holds_what_it_needs(admin: User) -> None:
    """The agent gets its identity, its key, and where broker and files are."""
    server = server_register(actor=admin, name="gpu-01", at=AT)
    config = agent_config(server, redis_url="redis://x", shared_dir="/shared", state_dir="/state", cpu_ids=[0, 1])

    assert config == {
        "server_id": server.pk,
        "server_name": "gpu-01",
        "key_hex": server.key_hex,
        "redis_url": "redis://x",
        "shared_dir": "/shared",
        "state_dir": "/state",
        "cpu_slots": None,
        "cpu_ids": [0, 1],
        "gpu_uuids": None,
        "memory_bytes": None,
        "warm_processes": 0,
    }


def test_draining_keeps_the_reason_and_asks_for_a_round(
    admin: User, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    """Jobs move away soon, and everybody sees why."""
    server, bell = server_make(), MemoryBell()
    use_bell(bell)
    try:
        with django_capture_on_commit_callbacks(execute=True):
            drained = server_drain(actor=admin, server=server, reason="fan is loud", at=AT)
    finally:
        use_bell(None)
    event = Event.objects.get(server=server)

    assert (drained.state, drained.state_reason, drained.state_changed_at) == ("draining", "fan is loud", AT)
    assert (event.old_state, event.new_state, event.reason) == ("up", "draining", "drain")
    assert event.data == {"detail": "fan is loud"}
    assert bell.triggers == ["server"]


def test_draining_twice_is_one_event(admin: User) -> None:
    """A repeated request changes nothing."""
    server = server_make()
    for _ in range(2):
        server_drain(actor=admin, server=server, reason="fan is loud", at=AT)

    assert Event.objects.filter(server=server).count() == 1


@pytest.mark.parametrize("reason", ["", " x ", "y" * 501])
def test_draining_needs_a_reason(admin: User, reason: str) -> None:
    """Somebody will ask why."""
    with pytest.raises(SpecInvalid):
        server_drain(actor=admin, server=server_make(), reason=reason, at=AT)


@pytest.mark.parametrize(("columns", "state"), [({}, ServerState.UP), ({"last_report_at": None}, ServerState.JOINING)])
def test_undrained_server_is_offered_again(admin: User, columns: dict[str, Any], state: ServerState) -> None:
    """It is up if its agent reports, and still joining if it never has."""
    server = server_make(state=ServerState.DRAINING, state_reason="fan is loud", **columns)
    server = server_undrain(actor=admin, server=server, reason="new fan", at=AT)

    assert (server.state, server.state_reason) == (state, "")


def test_lost_server_is_neither_drained_nor_undrained(admin: User) -> None:
    """Nothing runs on it; its agent has to come back first."""
    server = server_make(state=ServerState.LOST)
    with pytest.raises(Conflict, match="is lost"):
        server_drain(actor=admin, server=server, reason="fan is loud", at=AT)
    with pytest.raises(Conflict, match="is not drained"):
        server_undrain(actor=admin, server=server, reason="new fan", at=AT)
