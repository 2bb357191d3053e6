"""Runs each HTTP request in one thread, from the first middleware to the view, and keeps threads for later requests.

Django's own handler changes threads for each middleware that is not written for asyncio, and gives each request a new
thread, so that no request finds an open connection to the database. Connections belong to threads.
"""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.core.handlers.asgi import ASGIHandler
from django.db import connections
from django.http import FileResponse, HttpRequest
from django.http.response import HttpResponseBase

from clusterweb.body_limit import Application, Message, Receive, Send

T = TypeVar("T")

# Threads that wait for a request, each with a connection to the database; more requests at once get more.
MOST_WAITING = 16


class OneThreadHandler(ASGIHandler):
    """Django's handler with the whole chain of middleware in the thread of the request."""

    def load_middleware(self, is_async: bool = False) -> None:
        """Build the chain for threads; signature of the base class."""
        super().load_middleware(is_async=False)

    async def run_get_response(self, request: HttpRequest) -> HttpResponseBase:
        """Answer a request in its thread."""
        response: HttpResponseBase = await sync_to_async(self.get_response)(request)
        response._handler_class = self.__class__  # type: ignore[attr-defined]  # as the base class does
        if isinstance(response, FileResponse):
            response.block_size = self.chunk_size
        return response


class _Thread(ThreadPoolExecutor):
    """One thread, and the newest call it was given."""

    def __init__(self) -> None:
        super().__init__(max_workers=1, thread_name_prefix="request")
        self.newest: Future[Any] | None = None

    def submit(self, call: Callable[..., T], /, *args: Any, **named: Any) -> Future[T]:
        """Run a call after those before it; signature of the base class."""
        found = super().submit(call, *args, **named)
        self.newest = found
        return found


def with_kept_threads(application: Application) -> Application:
    """Return the application; what it does in a thread for one request runs in one thread, which is used again."""
    waiting: deque[_Thread] = deque()

    def keep(thread: _Thread) -> None:
        if len(waiting) < MOST_WAITING:
            waiting.append(thread)
        else:
            thread.submit(connections.close_all)
            thread.shutdown(wait=False)

    async def with_thread(scope: Message, receive: Receive, send: Send) -> None:
        thread = waiting.pop() if waiting else _Thread()
        try:
            async with ThreadSensitiveContext(executor=thread):
                await application(scope, receive, send)
        finally:
            if thread.newest is None or thread.newest.done():
                keep(thread)
            else:  # the client went away: the view still runs
                thread.newest.add_done_callback(lambda _: keep(thread))

    return with_thread
