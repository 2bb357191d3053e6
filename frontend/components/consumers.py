"""The one WebSocket consumer: checks that the user may listen to the groups, then forwards frames.

``/ws/live?groups=cluster,queue.3,job.<ulid>``. Without a sign-in, or with a group that the user may not see, the
handshake is refused. Rights are checked again every few seconds: a user who loses one is disconnected with code 4403.
"""

import asyncio
import contextlib
import json
import logging
from importlib import import_module
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.auth.models import AnonymousUser, User

from scheduler.selectors.visibility import groups_allowed

log = logging.getLogger(__name__)

MOST_GROUPS = 60
RECHECK_S = 5.0
CLOSE_DENIED = 4403


def _groups(query: bytes) -> list[str]:
    text = parse_qs(query.decode("ascii", "replace")).get("groups", [""])[0]
    return list(dict.fromkeys(name for name in text.split(",") if name))


@database_sync_to_async  # type: ignore[untyped-decorator]  # channels has no stubs
def _allowed(session_key: str | None, groups: list[str]) -> bool:
    """Return whether the session is still good and its user may listen to every group."""
    engine = import_module(settings.SESSION_ENGINE)
    user: User | AnonymousUser = get_user(SimpleNamespace(session=engine.SessionStore(session_key)))  # type: ignore[arg-type]  # reads .session alone
    return user.is_authenticated and user.is_active and all(groups_allowed(user, name) for name in groups)


class LiveConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]  # channels has no stubs
    """One browser page listening to some groups."""

    recheck_s = RECHECK_S

    async def connect(self) -> None:
        self.joined: list[str] = []
        self.watch: asyncio.Task[None] | None = None
        groups = _groups(self.scope["query_string"])
        session = self.scope.get("session")
        self.session_key = getattr(session, "session_key", None)
        if not groups or len(groups) > MOST_GROUPS or not await _allowed(self.session_key, groups):
            await self.close(code=CLOSE_DENIED)
            return
        for name in groups:
            await self.channel_layer.group_add(name, self.channel_name)
            self.joined.append(name)
        await self.accept()
        self.watch = asyncio.create_task(self._watch_rights())

    async def _watch_rights(self) -> None:
        while True:
            await asyncio.sleep(self.recheck_s)
            if not await _allowed(self.session_key, self.joined):
                log.info("live_rights_lost", extra={"groups": len(self.joined)})
                await self.close(code=CLOSE_DENIED)
                return

    async def disconnect(self, code: int) -> None:
        if self.watch is not None and self.watch is not asyncio.current_task():
            self.watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self.watch
        for name in self.joined:
            await self.channel_layer.group_discard(name, self.channel_name)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Take nothing: the page only listens."""

    async def live_frame(self, message: dict[str, Any]) -> None:  # a channel layer message
        """Forward one frame."""
        await self.send(text_data=json.dumps({"kind": message["kind"], "data": message["data"]}))
