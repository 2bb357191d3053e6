"""Runs each HTTP request in one thread, from the first middleware to the view, and keeps threads for later requests.

Django's own handler changes threads for each middleware that is not written for asyncio, and gives each request a new
thread, so that no request finds an open connection to the database. Connections belong to threads.
"""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
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


class _Loan(Executor):
    """The thread of one request. What shuts it down, as a stream that needs none does early, gives it back."""

    def __init__(self, thread: ThreadPoolExecutor, give_back: Callable[[ThreadPoolExecutor], None]) -> None:
        self._thread, self._give_back = thread, give_back
        self._newest: Future[Any] | None = None
        self._is_over = False

    def submit(self, call: Callable[..., T], /, *args: Any, **named: Any) -> Future[T]:
        """Run a call after those before it; signature of the base class."""
        found = self._thread.submit(call, *args, **named)
        self._newest = found
        return found

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Give the thread back when its newest call is over: the client may have gone while a view still runs."""
        if self._is_over:
            return
        self._is_over = True
        if self._newest is None:
            self._give_back(self._thread)
        else:
            self._newest.add_done_callback(lambda _: self._give_back(self._thread))


def with_kept_threads(application: Application) -> Application:
    """Return the application; what it does in a thread for one request runs in one thread, which is used again."""
    waiting: deque[ThreadPoolExecutor] = deque()

    def keep(thread: ThreadPoolExecutor) -> None:
        if len(waiting) < MOST_WAITING:
            waiting.append(thread)
        else:
            thread.submit(connections.close_all)
            thread.shutdown(wait=False)

    async def with_thread(scope: Message, receive: Receive, send: Send) -> None:
        thread = waiting.pop() if waiting else ThreadPoolExecutor(max_workers=1, thread_name_prefix="request")
        loan = _Loan(thread, keep)
        try:
            async with ThreadSensitiveContext(executor=loan):
                await application(scope, receive, send)
        finally:
            loan.shutdown(wait=False)

    return with_thread
