"""``Idempotency-Key``: a POST that is sent again is not done again but gets its first answer."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.core.cache import cache
from rest_framework.exceptions import ValidationError
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from scheduler.api.http.authentication import signed_in
from scheduler.api.http.errors import FirstStillRuns, IdempotencyKeyReused
from scheduler.ports import live_ports
from scheduler.services.idempotency import Answer, KeyReused, Make, idempotent

HEADER = "Idempotency-Key"
MOST_KEY = 200
MOST_ROUTE = 80
IN_FLIGHT_S = 30


def _plain(data: Any) -> Any:  # any JSON value, times not yet written as text
    return json.loads(JSONRenderer().render(data))


def _body_hash(request: Request, data: object) -> str:
    """Return a digest of path, query and data; data from YAML may hold more than JSON can say, so it is not dumped."""
    text = repr((request.path, request.META.get("QUERY_STRING", ""), data))
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def _key(request: Request) -> str:
    key = request.headers.get(HEADER, "")
    if len(key) > MOST_KEY or not key.isprintable():
        raise ValidationError({HEADER: f"It must be at most {MOST_KEY} printable characters."})
    return key


@contextmanager
def _in_flight(name: str) -> Iterator[None]:
    """Refuse a second request of the same name while the first one runs, where this process can know.

    Only saves work: between processes the unique key in the database decides.
    """
    if not cache.add(name, 1, timeout=IN_FLIGHT_S):
        raise FirstStillRuns
    try:
        yield
    finally:
        cache.delete(name)


def _kept_or_made(request: Request, key: str, data: object, made: Make) -> Answer:
    assert request.resolver_match is not None
    route = f"{request.method} {request.resolver_match.route}"[:MOST_ROUTE]
    name = hashlib.sha256(repr((request.user.pk, route, key)).encode()).hexdigest()
    try:
        with _in_flight(f"api-in-flight.{name}"):
            return idempotent(
                user=signed_in(request),
                route=route,
                key=key,
                body_hash=_body_hash(request, data),
                at=live_ports().clock.now(),
                make=made,
            )
    except KeyReused:
        raise IdempotencyKeyReused from None


def once(request: Request, data: object, make: Make) -> Response:
    """Return the answer of ``make``, or the one it gave when the same request came first.

    Args:
        request: The POST; signed in.
        data: Its body, parsed.
        make: Does it; returns status, JSON body (not sent with 204) and Location (or empty).
    """
    key = _key(request)

    def made() -> tuple[int, Any, str]:
        status, body, location = make()
        return status, _plain(body), location

    answer = _kept_or_made(request, key, data, made) if key else Answer(*made(), replayed=False)
    headers = {"Location": request.build_absolute_uri(answer.location)} if answer.location else {}
    if answer.replayed:
        headers["Idempotency-Replayed"] = "true"
    body = None if answer.status == 204 else answer.body
    return Response(body, status=answer.status, headers=headers)
