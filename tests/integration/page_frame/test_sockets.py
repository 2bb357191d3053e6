"""The live socket: who may listen to what, and for how long."""

import json
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import channels.consumer
import pytest
import pytest_asyncio
from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator
from channels.layers import get_channel_layer
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.core.cache import cache
from django.db import DatabaseError
from django.test import Client

from frontend.components.live import consumer, outbox
from frontend.components.live.consumer import LiveConsumer, until_check_s
from scheduler import notify
from scheduler.broker import frame_message
from scheduler.models import Membership, Queue
from tests.support.live.ports import MemoryBell
from tests.support.rows.factories import job_make, member_make, queue_make, user_make

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.asyncio]


@pytest.fixture(autouse=True)
def _memory_layer(settings: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    settings.STATIC_ROOT = tmp_path  # WhiteNoise warns of a missing directory when the application is first imported
    settings.CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
    monkeypatch.setattr(LiveConsumer, "recheck_s", 0.05)
    cache.clear()
    notify.use_bell(MemoryBell())
    yield
    notify.use_bell(None)


class Socket:
    """A browser's socket (Channels' own communicator needs daphne, which we do not install)."""

    def __init__(self, scope: dict[str, Any]) -> None:
        from clusterweb.asgi import application

        self._end: Any = ApplicationCommunicator(application, scope)  # type: ignore[no-untyped-call]  # asgiref's own

    async def next(self) -> Any:
        """Return the next message of the server."""
        return await self._end.receive_output(timeout=300)

    async def silent(self) -> bool:
        """Return whether nothing comes for a moment."""
        return bool(await self._end.receive_nothing(0.1))

    async def open(self) -> bool:
        """Return whether the handshake succeeds."""
        await self._end.send_input({"type": "websocket.connect"})
        return bool((await self.next())["type"] == "websocket.accept")

    async def frame(self) -> Any:
        """Return the next frame."""
        return json.loads((await self.next())["text"])

    async def close(self) -> None:
        """Leave."""
        await self._end.send_input({"type": "websocket.disconnect", "code": 1001})
        await self._end.wait(timeout=300)


def socket(groups: str, user: User | None, *, origin: str = "http://localhost") -> Socket:
    """Return a socket as a signed-in user's page opens it; None is nobody."""
    headers = [(b"origin", origin.encode())]
    if user is not None:
        client = Client()
        client.force_login(user)
        headers.append((b"cookie", f"sessionid={client.cookies['sessionid'].value}".encode()))
    scope = {
        "type": "websocket",
        "path": "/ws/live",
        "query_string": f"groups={groups}".encode(),
        "headers": headers,
        "subprotocols": [],
    }
    return Socket(scope)


@pytest_asyncio.fixture
async def people() -> AsyncIterator[dict[str, Any]]:
    """A member of vision with a job, and somebody from speech."""

    def make() -> dict[str, Any]:
        vision, speech = queue_make("vision"), queue_make("speech")
        member = member_make(vision)
        return {
            "vision": vision,
            "member": member,
            "outsider": member_make(speech),
            "job": job_make(vision, owner=member),
        }

    yield await sync_to_async(make)()


async def refused(communicator: Socket) -> bool:
    opened = await communicator.open()
    await communicator.close()
    return not opened


async def test_nobody_listens_without_a_sign_in(people: dict[str, Any]) -> None:
    """The handshake of a page without a session is refused, also for the whole cluster's numbers."""
    assert await refused(await sync_to_async(socket)("cluster", None))


async def test_foreign_groups_are_refused(people: dict[str, Any]) -> None:
    """Whoever has no role in a queue cannot listen to it or to its jobs, nor to groups that do not exist."""
    for group in (
        f"queue.{people['vision'].pk}",
        f"job.{people['job'].pk}",
        "queue.999999",
        "admin",
        "",
        "queue.1%20x",
    ):
        assert await refused(await sync_to_async(socket)(group, people["outsider"])), group


async def test_one_foreign_group_refuses_the_whole_socket(people: dict[str, Any]) -> None:
    """A page that asks for more than it may gets nothing at all."""
    assert await refused(await sync_to_async(socket)(f"cluster,queue.{people['vision'].pk}", people["outsider"]))


async def test_foreign_origins_are_refused(people: dict[str, Any]) -> None:
    """Another site's page cannot use the reader's session."""
    other = await sync_to_async(socket)("cluster", people["member"], origin="http://elsewhere.example")

    assert await refused(other)


async def test_frames_of_a_group_reach_the_page(people: dict[str, Any]) -> None:
    """What is sent to a group arrives as kind and data, and nothing else does."""
    queue: Queue = people["vision"]
    communicator = await sync_to_async(socket)(f"cluster,queue.{queue.pk}", people["member"])
    connected = await communicator.open()
    layer = get_channel_layer()
    await layer.group_send("queue.999", frame_message("queue.999", "jobs", {"jobs": [1]}))
    await layer.group_send(f"queue.{queue.pk}", frame_message(f"queue.{queue.pk}", "queue", {"held_gpus": 3}))

    assert connected
    assert await communicator.frame() == {"kind": "queue", "data": {"held_gpus": 3}}
    assert await communicator.silent()
    await communicator.close()


async def test_a_lost_role_closes_the_socket(people: dict[str, Any]) -> None:
    """Who is taken out of a queue while looking at it is disconnected, with the code that says so."""
    communicator = await sync_to_async(socket)(f"queue.{people['vision'].pk}", people["member"])
    await communicator.open()
    await sync_to_async(Membership.objects.filter(user=people["member"]).delete)()

    assert await communicator.next() == {"type": "websocket.close", "code": 4403}


@pytest.mark.parametrize("how", ["sign out", "switched off", "new password"])
async def test_an_ended_session_closes_the_socket(people: dict[str, Any], how: str) -> None:
    """Signing out, being switched off and a new password all end what the old session listened to."""
    user = await sync_to_async(user_make)()
    communicator = await sync_to_async(socket)("cluster", user)
    await communicator.open()

    def end() -> None:
        if how == "sign out":
            Session.objects.all().delete()
        elif how == "switched off":
            User.objects.filter(pk=user.pk).update(is_active=False)
        else:
            user.set_password("another-long-one")
            user.save()

    await sync_to_async(end)()

    assert await communicator.next() == {"type": "websocket.close", "code": 4403}


async def test_rights_that_cannot_be_checked_close_the_socket(
    people: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A check that fails is no right: nothing more is sent, and the page may come again."""
    communicator = await sync_to_async(socket)("cluster", people["member"])
    await communicator.open()

    def fails(*_: object) -> bool:
        raise DatabaseError("the connection is lost")

    monkeypatch.setattr(consumer, "groups_allowed", fails)

    assert await communicator.next() == {"type": "websocket.close", "code": 4503}

    await get_channel_layer().group_send("cluster", frame_message("cluster", "cluster", {}))

    assert await communicator.silent()


async def test_sockets_of_a_session_look_at_their_rights_at_once() -> None:
    """Whenever each was opened; none waits for longer than one period."""
    for key in ("one", "two", None):
        moments = [now_s + until_check_s(key, now_s=now_s, every_s=5.0) for now_s in (100.2, 100.9, 102.5, 104.8)]
        assert all(min(abs((moment - moments[0]) % 5.0), abs((moments[0] - moment) % 5.0)) < 1e-6 for moment in moments)
        assert all(0 < until_check_s(key, now_s=now_s / 7, every_s=5.0) <= 5.0 for now_s in range(100))


async def test_a_frame_waits_for_no_thread(people: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Channels looks for old database connections before each message: a thousand pages would wait in line for that."""
    communicator = await sync_to_async(socket)("cluster", people["member"])
    await communicator.open()
    looked: list[str] = []

    async def look() -> None:
        looked.append("at connections")

    monkeypatch.setattr(channels.consumer, "aclose_old_connections", look)
    await get_channel_layer().group_send("cluster", frame_message("cluster", "cluster", {}))

    assert (await communicator.next())["type"] == "websocket.send"
    assert looked == []


async def test_a_page_that_reads_too_slowly_is_asked_to_come_again(
    people: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Frames that tell parts do not pile up for it; the page reads all anew when it opens its next socket."""
    monkeypatch.setattr(outbox, "MOST_FRAMES", 0)
    communicator = await sync_to_async(socket)("cluster", people["member"])
    await communicator.open()

    await get_channel_layer().group_send("cluster", frame_message("cluster", "event", {}))

    assert await communicator.next() == {"type": "websocket.close", "code": 4408}


async def test_rights_that_cannot_be_checked_open_no_socket(
    people: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The handshake is refused as without a right."""

    def fails(*_: object) -> bool:
        raise ValueError("a defect")

    monkeypatch.setattr(consumer, "groups_allowed", fails)
    communicator = await sync_to_async(socket)("cluster", people["member"])

    assert await refused(communicator)


async def test_check_that_hangs_closes_the_socket(people: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that does not answer keeps no page open on an old right."""
    communicator = await sync_to_async(socket)("cluster", people["member"])
    await communicator.open()
    answers = threading.Event()
    monkeypatch.setattr(LiveConsumer, "check_within_s", 0.05)
    monkeypatch.setattr(consumer, "groups_allowed", lambda *_: answers.wait(300))

    closed = await communicator.next()
    answers.set()

    assert closed == {"type": "websocket.close", "code": 4503}


async def test_sockets_of_one_user_are_counted(people: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """One too many is told what to do; others have their own, and a closed page makes room."""
    monkeypatch.setattr(consumer, "MOST_SOCKETS", 2)
    open_ones = [await sync_to_async(socket)("cluster", people["member"]) for _ in range(2)]
    assert [await one.open() for one in open_ones] == [True, True]
    third = await sync_to_async(socket)("cluster", people["member"])
    other = await sync_to_async(socket)("cluster", people["outsider"])

    assert await third.open()
    closed = await third.next()
    assert closed["code"] == 4429
    assert "Close some" in closed["reason"]
    assert len(closed["reason"].encode()) <= 123
    assert await other.open()

    await open_ones[0].close()
    again = await sync_to_async(socket)("cluster", people["member"])
    assert await again.open()
    assert await again.silent()
    for one in (open_ones[1], other, again):
        await one.close()
