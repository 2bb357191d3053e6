"""The one WebSocket consumer: checks that the user may listen to the groups, then forwards frames.

``/ws/live?groups=cluster,queue.3,job.<ulid>``. Without a sign-in, or with a group that the user may not see, the
handshake is refused. Rights are checked again every few seconds: a user who loses one is disconnected with code 4403.
A check that fails or hangs counts as no right (code 4503): nothing is sent on a right that nobody has confirmed.
"""

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Sequence
from importlib import import_module
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.auth.models import AnonymousUser, User

from frontend.components.live.outbox import Outbox
from frontend.components.live.rights import desk_of_loop
from scheduler.broker import FRAME
from scheduler.selectors.visibility import groups_allowed
from scheduler.services.accounts.walls import wall_link_of_session
from scheduler.services.open_connections import RENEWED_EVERY_S, ConnectionSlot

log = logging.getLogger(__name__)

MOST_GROUPS = 60
MOST_SOCKETS = 100  # of one user, in all windows together
WALL_IDS = -1  # links count down from here, so that none is taken for a user
RECHECK_S = 5.0
CHECK_WITHIN_S = 10.0
CLOSE_DENIED = 4403
CLOSE_TOO_MANY = 4429
CLOSE_UNCHECKED = 4503
CLOSE_BEHIND = 4408  # the page reads too slowly; it comes again and reads all anew
# A close frame has room for 123 bytes.
TOO_MANY = f"You have {MOST_SOCKETS} live pages open. Close some, or wait a minute, then reload."


def _groups(query: bytes) -> list[str]:
    text = parse_qs(query.decode("ascii", "replace")).get("groups", [""])[0]
    return list(dict.fromkeys(name for name in text.split(",") if name))


def _listener(session_key: str | None, groups: Sequence[str]) -> int | None:
    """Return the user of the session if it is still good and the user may listen to every group.

    A screen with the wall on it has no user: it may listen to the cluster alone, and is told by its link.
    """
    engine = import_module(settings.SESSION_ENGINE)
    user: User | AnonymousUser = get_user(SimpleNamespace(session=engine.SessionStore(session_key)))  # type: ignore[arg-type]  # reads .session alone
    may = user.is_authenticated and user.is_active and all(groups_allowed(user, name) for name in groups)
    if not may and list(groups) == ["cluster"]:
        link = wall_link_of_session(engine.SessionStore(session_key))
        return WALL_IDS - link.pk if link else None
    return user.pk if may else None


def until_check_s(session_key: str | None, *, now_s: float, every_s: float) -> float:
    """Return the seconds until rights are looked at: all sockets of a session at once, which share one look."""
    phase_s = hash(session_key) % 1_000 / 1_000 * every_s
    return every_s - (now_s + phase_s) % every_s


_in_thread = database_sync_to_async


class LiveConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]  # channels has no stubs
    """One browser page listening to some groups."""

    recheck_s = RECHECK_S
    check_within_s = CHECK_WITHIN_S

    async def connect(self) -> None:
        self.joined: list[str] = []
        self.watch: asyncio.Task[None] | None = None
        self.slot: ConnectionSlot | None = None
        self.is_open = False
        self.outbox = Outbox(self._send_frame)
        groups = _groups(self.scope["query_string"])
        session = self.scope.get("session")
        self.session_key = getattr(session, "session_key", None)
        refused = CLOSE_DENIED
        if groups and len(groups) <= MOST_GROUPS:
            refused = await self._refused(_in_thread(_listener)(self.session_key, groups))
        if refused:
            await self.close(code=refused)
            return
        slot = ConnectionSlot("socket", self.user_id, most=MOST_SOCKETS)
        if not await _in_thread(slot.take)():
            await self.accept()  # else the browser would not be told why
            await self.close(code=CLOSE_TOO_MANY, reason=TOO_MANY)
            return
        self.slot = slot
        try:
            for name in groups:
                await self.channel_layer.group_add(name, self.channel_name)
                self.joined.append(name)
        except Exception:  # the broker is away; ``disconnect`` is not called then
            await _in_thread(slot.give_back)()
            raise
        await self.accept()
        self.is_open = True
        self.watch = asyncio.create_task(self._watch_rights(slot))

    async def _refused(self, asking: Coroutine[Any, Any, int | None]) -> int:
        """Return the code with which to close, or 0 when the user may listen to all groups."""
        check = asyncio.ensure_future(asking)
        check.add_done_callback(lambda done: done.cancelled() or done.exception())  # also of one that came too late
        # Not ``wait_for``: cancelling does not end a thread that waits for the database.
        done, _ = await asyncio.wait({check}, timeout=self.check_within_s)
        error = check.exception() if done else TimeoutError("no answer in time")
        if error is not None:
            log.warning("live_rights_unknown", extra={"error": f"{type(error).__name__}: {error}"[:300]})
            return CLOSE_UNCHECKED
        self.user_id = check.result()
        return 0 if self.user_id is not None else CLOSE_DENIED

    async def _watch_rights(self, slot: ConnectionSlot) -> None:
        loop, desk = asyncio.get_running_loop(), desk_of_loop(_listener)
        renewed_s = loop.time()
        try:
            while True:
                await asyncio.sleep(until_check_s(self.session_key, now_s=loop.time(), every_s=self.recheck_s))
                if code := await self._refused(desk.ask(self.session_key, tuple(self.joined))):
                    break
                if loop.time() - renewed_s >= RENEWED_EVERY_S:
                    renewed_s = loop.time()
                    await _in_thread(slot.renew)()
        except Exception:  # a watch that ends unseen would leave the socket open for ever
            log.exception("live_watch_failed")
            code = CLOSE_UNCHECKED
        log.info("live_rights_lost", extra={"groups": len(self.joined), "code": code})
        self.is_open = False
        self.outbox.close()
        await self.close(code=code)

    async def disconnect(self, code: int) -> None:
        self.is_open = False
        self.outbox.close()
        if self.watch is not None and self.watch is not asyncio.current_task():
            self.watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self.watch
        for name in self.joined:
            await self.channel_layer.group_discard(name, self.channel_name)
        if self.slot is not None:
            await _in_thread(self.slot.give_back)()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Take nothing: the page only listens."""

    async def dispatch(self, message: dict[str, Any]) -> None:
        """Take in frames at once: before each other message channels closes old database connections, in a thread."""
        if message["type"] != FRAME:
            await super().dispatch(message)
        elif self.is_open and not self.outbox.put(message["text"], replaces=message.get("replaces", "")):
            self.is_open = False
            self.outbox.close()
            # Not awaited: the socket of a page that reads nothing takes no close either, and frames would pile up here.
            self.closing = asyncio.create_task(self.close(code=CLOSE_BEHIND))
            self.closing.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def _send_frame(self, text: str) -> None:
        if self.is_open:
            await self.send(text_data=text)
