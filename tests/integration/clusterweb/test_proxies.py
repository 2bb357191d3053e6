"""Whose word counts about where a request comes from, and what an answer says about TLS."""

import asyncio
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import cache, caches
from django.test import Client
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from scheduler.api.http.throttling import WINDOW_S
from scheduler.ports import live_ports

FORWARDED = [(b"host", b"localhost"), (b"x-forwarded-for", b"203.0.113.9"), (b"x-forwarded-proto", b"https")]


async def counted_as(application: Any, client: str) -> list[str]:
    """Return the networks that a request of an anonymous client counted for."""
    cache.clear()
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/api/v1/schemas/job",
        "query_string": b"",
        "headers": FORWARDED,
        "client": (client, 1234),
        "scheme": "http",
    }

    messages: list[MutableMapping[str, Any]] = [{"type": "http.request", "body": b""}]

    async def receive() -> MutableMapping[str, Any]:
        if not messages:
            await asyncio.Event().wait()  # the client stays
        return messages.pop()

    async def send(message: MutableMapping[str, Any]) -> None:
        pass

    window = int(live_ports().clock.now().timestamp() // WINDOW_S)
    await application(scope, receive, send)
    return [
        name
        for name in ("203.0.113.9", client)
        if caches["shared"].get_many([f"api-rate.network.{name}.{number}" for number in (window, window + 1)])
    ]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("client", ["127.0.0.1", "10.1.2.3"])
async def test_forwarded_address_is_believed_from_configured_proxies_alone(
    settings: Any, tmp_path: Path, client: str
) -> None:
    """Else whoever can reach the port has as many addresses as there are."""
    settings.STATIC_ROOT = tmp_path
    from clusterweb import asgi

    behind = ProxyHeadersMiddleware(asgi.by_protocol, trusted_hosts=["10.1.2.0/24", "127.0.0.1/32"])

    assert await counted_as(asgi.application, client) == [client]
    assert await counted_as(behind, client) == ["203.0.113.9"]


@pytest.mark.django_db
def test_answers_forbid_plain_http_where_people_use_tls(settings: Any, tmp_path: Path) -> None:
    """Also where the proxy asks us by plain HTTP and does not say how it was asked."""
    settings.STATIC_ROOT = tmp_path
    plain = Client().get("/healthz")
    settings.SECURE_HSTS_SECONDS = 31_536_000

    assert "Strict-Transport-Security" not in plain
    assert Client().get("/healthz")["Strict-Transport-Security"] == "max-age=31536000"
