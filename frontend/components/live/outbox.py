"""Frames on their way to live pages: a few pages at a time, and for each page the newest frame of each thing.

With a thousand pages one frame takes the web process most of a second. Were all sent as they come, pages would fall
behind for as long as there are more frames than it can send. So each page has an outbox in which a newer frame takes
the place of an older one, and between a few pages and the next the event loop takes in what came meanwhile.
"""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from weakref import WeakKeyDictionary

PAGES_AT_ONCE = 25
MOST_FRAMES = 100  # that one page has not got yet

Send = Callable[[str], Awaitable[None]]


class Outbox:
    """The frames that one page has not got yet."""

    def __init__(self, send: Send) -> None:
        """Prepare to hand frames to ``send``, which may wait for a slow page."""
        self._send = send
        self._frames: dict[str | int, str] = {}
        self._numbers = count()
        self._sending: asyncio.Task[None] | None = None

    def put(self, text: str, *, replaces: str) -> bool:
        """Take in a frame; it takes the place of the one that ``replaces`` names, where that has not gone yet.

        Args:
            replaces: What the frame tells all of; empty for one that tells a part, which stands for itself.

        Returns:
            Whether there was room for it.
        """
        if len(self._frames) >= MOST_FRAMES and replaces not in self._frames:
            return False
        self._frames[replaces or next(self._numbers)] = text
        _turns_of_loop().wait_for(self)
        return True

    def close(self) -> None:
        """Forget what has not gone; what is being sent is left to the socket."""
        self._frames.clear()

    def begin(self) -> None:
        """Send what there is, unless the page is still at the frame before."""
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send_all())
            # A page that has gone: its socket hears of it by itself.
            self._sending.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def _send_all(self) -> None:
        while self._frames:
            await self._send(self._frames.pop(next(iter(self._frames))))


class Turns:
    """The outboxes of one event loop that wait for their turn."""

    def __init__(self) -> None:
        self._waiting: dict[Outbox, None] = {}
        self._giving: asyncio.Task[None] | None = None

    def wait_for(self, outbox: Outbox) -> None:
        """Let an outbox begin when it is its turn; one that waits already keeps its place."""
        self._waiting[outbox] = None
        if self._giving is None or self._giving.done():
            self._giving = asyncio.create_task(self._give())

    async def _give(self) -> None:
        while self._waiting:
            for outbox in list(self._waiting)[:PAGES_AT_ONCE]:
                del self._waiting[outbox]
                outbox.begin()
            await asyncio.sleep(0)  # they send, and the loop takes in new frames


_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, Turns] = WeakKeyDictionary()


def _turns_of_loop() -> Turns:
    return _turns.setdefault(asyncio.get_running_loop(), Turns())
