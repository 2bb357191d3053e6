"""New lines of a job's log as server-sent events.

A follower is a coroutine that reads in a pool thread for about a millisecond at a time and holds no thread while it
waits. The reader's right is checked again while it runs.
"""

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from asgiref.sync import SyncToAsync, sync_to_async
from django.contrib.auth import get_user
from django.contrib.auth.models import AnonymousUser
from django.db import Error, close_old_connections, connections
from rest_framework.request import Request

from scheduler.api.http.authentication import bearer_text, holds_scope
from scheduler.api.http.errors import TooManyStreams
from scheduler.core.model.errors import NotFound
from scheduler.core.model.lifecycle import TERMINAL, JobState
from scheduler.models import Attempt, Job
from scheduler.models.job import AttemptState
from scheduler.ports import live_ports
from scheduler.selectors.jobs.logs import LogChunk, log_from
from scheduler.selectors.visibility import Actor, require_job
from scheduler.services.accounts.tokens import token_user
from scheduler.services.open_connections import RENEWED_EVERY_S, SLOT_S, ConnectionSlot

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")
POLL_S = 0.3
STATE_AGAIN_S = 0.9
RIGHTS_AGAIN_S = 4.0
HEARTBEAT_S = 15.0
MOST_STREAMS = 30  # of one user
CHUNK_BYTES = 64 * 1024
END = "end"
HEARTBEAT = b": still here\n\n"
_PLACE = re.compile(r"^(\d{1,9})-(\d{1,18})$", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPlace:
    """A byte of the log of one attempt; also the id of an event."""

    attempt: int
    offset: int

    @staticmethod
    def parse(text: str) -> "LogPlace | None":
        """Return the place in a ``Last-Event-ID``, or None when it is none of ours."""
        found = _PLACE.match(text)
        return LogPlace(attempt=int(found[1]), offset=int(found[2])) if found else None

    def __str__(self) -> str:
        return f"{self.attempt}-{self.offset}"


def event(kind: str, place: object, data: dict[str, Any]) -> bytes:  # JSON of the event
    """Return one server-sent event; JSON keeps line ends of the log out of the framing."""
    return f"event: {kind}\nid: {place}\ndata: {json.dumps(data)}\n\n".encode()


def present_user(request: Request) -> Actor:
    """Return the caller as of now; an anonymous user when the token or the session has ended since."""
    text = bearer_text(request.headers.get("Authorization", ""))
    if text is None:
        session = request._request.session
        return get_user(request._request) if session.exists(session.session_key or "") else AnonymousUser()
    found = token_user(text, live_ports().clock.now())
    return found[0] if found and holds_scope(found[1], "jobs:read") else AnonymousUser()


def in_pool(function: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Return ``function`` as a coroutine that runs in any thread of the loop's pool."""
    return sync_to_async(function, thread_sensitive=False)


def give_back_thread() -> None:
    """End the thread that Django keeps for this request: a stream may last hours and does not need it.

    Django does the same once an answer is sent (``asgiref.sync.ThreadSensitiveContext``).
    """
    context = SyncToAsync.thread_sensitive_context.get(None)
    executor = SyncToAsync.context_to_thread_executor.pop(context, None) if context else None
    if executor is not None:
        executor.submit(connections.close_all)
        executor.shutdown(wait=False)


class Follower:
    """One reader of the log of one job, or of one process of its attempts: where it is, and what comes next."""

    def __init__(
        self, *, request: Request, job: Job, place: LogPlace, only_attempt: int | None, rank: int | None
    ) -> None:
        self._request = request
        self._job_id, self._state = job.pk, JobState(job.state)
        self._attempt: Attempt | None = None
        self._place = place
        self._only_attempt, self._rank = only_attempt, rank
        self._rights_due_s = self._state_due_s = self._renew_due_s = 0.0
        self._slot = ConnectionSlot("log", request.user.pk, most=MOST_STREAMS)
        if not self._slot.take():
            raise TooManyStreams(f"follow {MOST_STREAMS} logs", wait_s=SLOT_S)

    async def events(self) -> AsyncIterator[bytes]:
        """Yield events until the job (or the one attempt) has ended and everything is sent, or the reader leaves."""
        give_back_thread()
        loop = asyncio.get_running_loop()
        quiet_since_s = loop.time()
        try:
            while True:
                message, ended = await in_pool(self._look)(loop.time())
                if message:
                    yield message
                    quiet_since_s = loop.time()
                if ended:
                    return
                if not message:
                    await asyncio.sleep(POLL_S)
                if loop.time() - quiet_since_s >= HEARTBEAT_S:
                    yield HEARTBEAT
                    quiet_since_s = loop.time()
        finally:
            await in_pool(self._slot.give_back)()

    def _look(self, now_s: float) -> tuple[bytes, bool]:
        """Return the next event, if there is one by now, and whether it was the last."""
        try:
            self._refresh(now_s)
            return self._next()
        except NotFound:  # the right to read it has ended
            return b"", True
        except Error as error:  # the next look may find the database again
            log.warning("follower_without_database", extra={"job_id": self._job_id, "error": str(error)})
            close_old_connections()
            return b"", False

    def _refresh(self, now_s: float) -> None:
        """Read whether the reader still may, and how the job stands, and keep the slot, each when it is due."""
        if now_s >= self._rights_due_s:
            require_job(present_user(self._request), self._job_id)
            self._rights_due_s = now_s + RIGHTS_AGAIN_S
        if now_s >= self._renew_due_s:
            self._slot.renew()
            self._renew_due_s = now_s + RENEWED_EVERY_S
        if now_s >= self._state_due_s:
            self._state = JobState(Job.objects.values_list("state", flat=True).get(pk=self._job_id))
            self._attempt = Attempt.objects.filter(job_id=self._job_id, number=self._place.attempt).first()
            self._state_due_s = now_s + STATE_AGAIN_S

    def _next(self) -> tuple[bytes, bool]:
        # The state was read before the log is: what a job wrote before its end is sent before the end is told.
        over, attempt = self._state in TERMINAL, self._attempt
        if attempt is None:
            return self._end() if over else (b"", False)
        chunk = log_from(attempt, self._place.offset, most_bytes=CHUNK_BYTES, rank=self._rank)
        if chunk.text:
            return self._log(attempt, chunk), False
        if attempt.state != AttemptState.ENDED:
            return b"", False
        if self._only_attempt is not None:
            return self._end()
        later = Attempt.objects.filter(job_id=self._job_id, number__gt=attempt.number)
        following = later.order_by("number").first()
        if following is None:
            return self._end() if over else (b"", False)
        self._attempt, self._place = following, LogPlace(attempt=following.number, offset=0)
        return self._next()

    def _log(self, attempt: Attempt, chunk: LogChunk) -> bytes:
        self._place = LogPlace(attempt=attempt.number, offset=chunk.end_offset)
        data = {
            "attempt": attempt.number,
            "start_offset": chunk.start_offset,
            "end_offset": chunk.end_offset,
            "text": chunk.text,
        }
        return event("log", self._place, data)

    def _end(self) -> tuple[bytes, bool]:
        return event("end", END, {"state": self._state.value}), True
