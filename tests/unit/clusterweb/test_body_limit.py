"""A body that is too large is refused while it arrives, with or without a stated length."""

from collections.abc import MutableMapping
from typing import Any

from clusterweb.body_limit import Receive, Send, limit_body

Message = MutableMapping[str, Any]


async def reads_all(scope: Message, receive: Receive, send: Send) -> None:
    """Read the whole body, then answer 200."""
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": []})


async def status_of(chunks: list[bytes], *, most_bytes: int) -> int:
    """Send the chunks and return the status of the answer."""
    sent: list[Message] = []
    waiting = iter(chunks)

    async def receive() -> Message:
        return {"type": "http.request", "body": next(waiting, b""), "more_body": True}

    async def receive_to_the_end() -> Message:
        message = await receive()
        return {**message, "more_body": bool(message["body"])}

    async def send(message: Message) -> None:
        sent.append(message)

    await limit_body(reads_all, most_bytes=most_bytes)({"type": "http"}, receive_to_the_end, send)
    return int(sent[0]["status"])


async def test_body_within_the_limit_passes() -> None:
    """The application sees it unchanged."""
    assert await status_of([b"x" * 10] * 10, most_bytes=100) == 200


async def test_body_over_the_limit_is_refused() -> None:
    """The answer comes as soon as the limit is passed."""
    assert await status_of([b"x" * 10] * 11, most_bytes=100) == 413
