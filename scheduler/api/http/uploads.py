"""The largest body that a request may have, decided before any of it is read.

Traces and folders are large. Django keeps a whole body on disk before a view checks the user, so this checks first that
the user may send such a thing.
"""

import io
import re
from collections.abc import MutableMapping
from importlib import import_module
from typing import Any

from channels.db import database_sync_to_async
from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.auth.models import AnonymousUser
from django.core.handlers.asgi import ASGIRequest

from scheduler.api.http.authentication import bearer_text
from scheduler.ports import live_ports
from scheduler.selectors.visibility import Actor, may_ask_what_if
from scheduler.services.accounts.tokens import token_user
from scheduler.services.code.folders import HASH_BYTES, code_limits, may_send_code
from scheduler.services.whatif.files import most_bytes

TRACE_PATHS = frozenset({"/api/v1/whatif/traces", "/whatif/new", "/whatif/traces"})
MANIFEST_PATH = "/api/v1/code"
FOLDER_PATHS = re.compile(r"/api/v1/code/(archive|[^/]{1,80}/blobs)|/jobs/new")
# Boundaries and the other fields of a form.
FORM_BYTES = 1024 * 1024
MANIFEST_BYTES = 24 * 2**20


async def body_bytes_allowed(scope: MutableMapping[str, Any], usual: int) -> int:  # an ASGI scope
    """Return how many bytes the body of a request may have; ``usual`` for everything but traces and folders."""
    path = str(scope.get("path"))
    if scope.get("method") != "POST" or not (
        path in TRACE_PATHS or path == MANIFEST_PATH or FOLDER_PATHS.fullmatch(path)
    ):
        return usual
    # Outside a request Django closes no connection: one that the database ended would fail every later upload.
    allowed: int = await database_sync_to_async(lambda: _allowed(path, _user(scope)))()
    return max(usual, allowed)


def _allowed(path: str, user: Actor) -> int:
    if path in TRACE_PATHS:
        return most_bytes() + FORM_BYTES if may_ask_what_if(user) else 0
    if not may_send_code(user):
        return 0
    if path == MANIFEST_PATH:
        return MANIFEST_BYTES
    limits = code_limits()
    return limits.num_bytes + HASH_BYTES * limits.files + FORM_BYTES


def _user(scope: MutableMapping[str, Any]) -> Actor:
    request = ASGIRequest(scope, io.BytesIO())
    if (token := bearer_text(request.headers.get("Authorization", ""))) is not None:
        found = token_user(token, live_ports().clock.now())
        return found[0] if found else AnonymousUser()
    engine = import_module(settings.SESSION_ENGINE)
    request.session = engine.SessionStore(request.COOKIES.get(settings.SESSION_COOKIE_NAME))
    user: Actor = get_user(request)
    return user
