"""Requests keep to one thread, and threads are kept for later requests with their connection to the database."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from asgiref import testing
from asgiref.sync import sync_to_async
from django.http import HttpRequest, HttpResponse
from django.test import override_settings
from django.urls import path

from clusterweb import request_threads
from clusterweb.request_threads import OneThreadHandler, with_kept_threads
from scheduler.api.jobs.log_stream import give_back_thread

REQUEST = {"type": "http", "method": "GET", "path": "/", "headers": [], "query_string": b""}
seen: list[int] = []
_communicator: Any = testing.ApplicationCommunicator  # asgiref does not type it


def note(request: HttpRequest) -> HttpResponse:
    """Note in which thread a view runs."""
    seen.append(threading.get_ident())
    return HttpResponse()


class Noting:
    """Middleware that only knows threads, as those of the product."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        seen.append(threading.get_ident())
        return self.get_response(request)


urlpatterns = [path("", note)]
MIDDLEWARE = [f"{__name__}.Noting", "django.middleware.common.CommonMiddleware", f"{__name__}.Noting"]


async def answered(application: Any, scope: dict[str, Any]) -> None:
    """Send one request and wait for the end of its answer."""
    communicator: Any = _communicator(application, scope)
    await communicator.send_input({"type": "http.request", "body": b""})
    assert (await communicator.receive_output(timeout=60))["status"] == 200
    await communicator.receive_output(timeout=60)
    await communicator.wait(timeout=60)


def test_requests_one_after_the_other_share_a_thread() -> None:
    """So the second finds the connection of the first; middleware and view of both are in it."""
    seen.clear()
    with override_settings(ROOT_URLCONF=__name__, MIDDLEWARE=MIDDLEWARE, ALLOWED_HOSTS=["*"]):
        application = with_kept_threads(OneThreadHandler())

        async def both() -> None:
            await answered(application, REQUEST)
            await answered(application, REQUEST)

        asyncio.run(both())

    assert len(seen) == 6
    assert len(set(seen)) == 1
    assert seen[0] != threading.get_ident()


def test_requests_at_once_have_threads_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also more than are kept."""
    monkeypatch.setattr(request_threads, "MOST_WAITING", 2)
    barrier = threading.Barrier(5)
    threads: list[int] = []

    def meet() -> None:
        threads.append(threading.get_ident())
        barrier.wait(timeout=60)

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await sync_to_async(meet)()

    kept = with_kept_threads(application)

    async def all_at_once() -> None:
        await asyncio.gather(*(kept({"type": "http"}, None, None) for _ in range(5)))
        await asyncio.gather(*(kept({"type": "http"}, None, None) for _ in range(5)))

    asyncio.run(all_at_once())

    assert len(threads) == 10
    assert len(set(threads[:5])) == len(set(threads[5:])) == 5


def test_thread_of_a_log_stream_serves_others_meanwhile() -> None:
    """A stream gives its thread back before it ends; before, that thread was ended and each later request failed."""
    threads: list[int] = []

    def note_thread() -> None:
        threads.append(threading.get_ident())

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await sync_to_async(note_thread)()
        if scope["others"]:
            give_back_thread()
            for _ in range(2):
                await kept({"type": "http", "others": 0}, None, None)

    kept = with_kept_threads(application)

    async def one_after_the_other() -> None:
        for _ in range(3):
            await kept({"type": "http", "others": 2}, None, None)

    asyncio.run(one_after_the_other())

    assert len(threads) == 9
    assert len(set(threads)) < 9  # a request may come before the last call in a thread is over
