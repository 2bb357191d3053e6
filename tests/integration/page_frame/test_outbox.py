"""Frames for many live pages: the newest of each thing alone, a few pages at a time, none held up by another."""

import asyncio
from collections.abc import Awaitable, Callable

from frontend.components.live.outbox import MOST_FRAMES, PAGES_AT_ONCE, Outbox

PAGES = 10 * PAGES_AT_ONCE


class Page:
    """A page that notes what it gets, at its own pace."""

    def __init__(self, *, goes_on: asyncio.Event | None = None) -> None:
        self.got: list[str] = []
        self.outbox = Outbox(self._take)
        self._goes_on = goes_on

    async def _take(self, text: str) -> None:
        if self._goes_on is not None:
            await self._goes_on.wait()
        self.got.append(text)


def lived(story: Callable[[], Awaitable[None]]) -> None:
    """Run a story on an event loop of its own."""
    asyncio.run(story())  # type: ignore[arg-type]  # a coroutine


async def until_quiet() -> None:
    """Let the loop turn until all is sent that can be."""
    for _ in range(10 * PAGES):
        await asyncio.sleep(0)


def test_a_newer_frame_takes_the_place_of_one_that_has_not_gone() -> None:
    """Pages whose turn came between two frames get both, all others the second alone; parts are all sent, in order."""

    async def story() -> None:
        pages = [Page() for _ in range(PAGES)]
        for page in pages:
            page.outbox.put("old", replaces="cluster")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        for page in pages:
            page.outbox.put("event 1", replaces="")
            page.outbox.put("new", replaces="cluster")
            page.outbox.put("event 2", replaces="")
        await until_quiet()

        both, newest = ["old", "event 1", "new", "event 2"], ["new", "event 1", "event 2"]
        counts = [sum(page.got == frames for page in pages) for frames in (both, newest)]
        assert sum(counts) == PAGES
        assert 0 < counts[0] <= 3 * PAGES_AT_ONCE

    lived(story)


def test_a_page_that_takes_nothing_holds_up_no_other() -> None:
    """It gets the newest frame once it goes on; what it never takes is forgotten when it closes."""

    async def story() -> None:
        goes_on = asyncio.Event()
        stalled = [Page(goes_on=goes_on) for _ in range(2 * PAGES_AT_ONCE)]
        pages = [Page() for _ in range(PAGES)]
        for number in range(5):
            for page in (*stalled, *pages):
                page.outbox.put(f"{number}", replaces="cluster")
            await until_quiet()
        assert all(page.got == ["0", "1", "2", "3", "4"] for page in pages)
        assert not any(page.got for page in stalled)

        stalled[0].outbox.close()
        goes_on.set()
        await until_quiet()
        assert stalled[0].got == ["0"]
        assert all(page.got == ["0", "4"] for page in stalled[1:])

    lived(story)


def test_a_page_that_reads_nothing_keeps_few_frames() -> None:
    """What tells a part is refused when there are too many, what takes the place of another is not."""

    async def story() -> None:
        page = Page(goes_on=asyncio.Event())
        assert page.outbox.put("cluster", replaces="cluster")
        assert all(page.outbox.put("event", replaces="") for _ in range(MOST_FRAMES - 1))

        assert not page.outbox.put("event", replaces="")
        assert not page.outbox.put("queue", replaces="queue.1")
        assert page.outbox.put("newer", replaces="cluster")

    lived(story)


def test_a_page_that_has_gone_is_no_error_of_others() -> None:
    """What its socket raises stays with it."""

    async def story() -> None:
        page, told = Page(), []

        async def gone(text: str) -> None:
            raise ConnectionError("closed")

        asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))
        Outbox(gone).put("frame", replaces="")
        page.outbox.put("frame", replaces="")
        await until_quiet()

        assert (page.got, told) == (["frame"], [])

    lived(story)
