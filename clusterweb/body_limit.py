"""Refuse a request body that is too large while it arrives.

Django spools a body to disk before any view or parser sees it; without a ``Content-Length`` it does so without limit.
"""

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]  # ASGI's own types
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Any, Any, Any], Awaitable[None]]  # Django, Channels and uvicorn each spell it differently

MOST_BYTES = 8 * 1024 * 1024
Allowed = Callable[[Message, int], Awaitable[int]]


class _TooLarge(Exception):
    """The body went over the limit."""


def limit_body(
    application: Application, *, most_bytes: int = MOST_BYTES, allowed: Allowed | None = None
) -> Application:
    """Return an application that answers 413 instead of reading more than ``most_bytes`` of a body.

    Args:
        application: What reads the body.
        most_bytes: Bytes of a body.
        allowed: Returns for one request, given ``most_bytes``, how many it may have instead.
    """

    async def limited(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await application(scope, receive, send)
            return
        most = await allowed(scope, most_bytes) if allowed else most_bytes
        read = 0
        answered = False

        async def counted() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > most:
                raise _TooLarge
            return message

        async def noted(message: Message) -> None:
            nonlocal answered
            answered = True
            await send(message)

        try:
            await application(scope, counted, noted)
        except _TooLarge:
            if not answered:
                await _refuse(send, most)

    return limited


async def _refuse(send: Send, most_bytes: int) -> None:
    problem = {
        "type": "about:blank",
        "title": "Content too large",
        "status": 413,
        "detail": f"A request may have at most {most_bytes // 1024 // 1024} MiB.",
    }
    headers = [(b"content-type", b"application/problem+json"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": 413, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(problem).encode()})
