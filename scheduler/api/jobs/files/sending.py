"""Sends what is large piece by piece: each is read in a pool thread, and no thread is held while the reader is slow.

The reader's right is looked at again on the way, so that no download outlives it for long.
"""

import asyncio
import io
from collections.abc import AsyncIterator, Generator

from rest_framework.request import Request

from scheduler.api.http.errors import TooManyStreams
from scheduler.api.jobs.log_stream import RIGHTS_AGAIN_S, give_back_thread, in_pool, present_user
from scheduler.core.model.errors import NotFound
from scheduler.models import Job
from scheduler.selectors.visibility import require_job
from scheduler.services.open_connections import SLOT_S, ConnectionSlot

PIECE_BYTES = 1024 * 1024
MOST_DOWNLOADS = 8  # of one user


def file_pieces(file: io.FileIO, start: int, end: int) -> Generator[bytes, None, None]:
    """Yield a part of a file; less where it became shorter."""
    file.seek(start)
    while start < end and (piece := file.read(min(PIECE_BYTES, end - start))):
        start += len(piece)
        yield piece


class Download:
    """An answer that is made while it is sent; to be iterated once, by asyncio."""

    def __init__(
        self, request: Request, job: Job, pieces: Generator[bytes, None, None], *, held: io.FileIO | None = None
    ) -> None:
        """Take one of the reader's slots; ``held`` is closed at the end. Raises TooManyStreams."""
        self._request, self._job_id = request, job.pk
        self._pieces, self._held = pieces, held
        self._due_s = 0.0
        self._slot = ConnectionSlot("files", request.user.pk, most=MOST_DOWNLOADS)
        if not self._slot.take():
            raise TooManyStreams(f"have {MOST_DOWNLOADS} downloads open", wait_s=SLOT_S)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield piece after piece; a reader whose right has ended gets no more."""
        give_back_thread()
        loop = asyncio.get_running_loop()
        try:
            while piece := await in_pool(self._next)(loop.time()):
                yield piece
        finally:
            await in_pool(self.close)()

    def _next(self, now_s: float) -> bytes:
        if now_s >= self._due_s:
            try:
                require_job(present_user(self._request), self._job_id)
            except NotFound:
                raise ConnectionAbortedError("the right to read it has ended") from None
            self._slot.renew()
            self._due_s = now_s + RIGHTS_AGAIN_S
        return next((piece for piece in self._pieces if piece), b"")

    def close(self) -> None:
        """Give back what it holds; once more does nothing. Django calls it, too, where nothing was sent."""
        self._pieces.close()
        if self._held is not None:
            self._held.close()
        self._slot.give_back()
