"""Limits on failed sign-ins: a few per name and address, more per address, then a pause of WINDOW_S.

Counted in Django's cache. Counting by name alone would let a stranger lock a user out.
"""

from dataclasses import dataclass

from django.core.cache import cache
from django.http import HttpRequest

WINDOW_S = 300


@dataclass(frozen=True, slots=True)
class Limit:
    """At most ``most`` failures for one key in a window."""

    key: str
    most: int


def _limits(request: HttpRequest, username: str) -> tuple[Limit, Limit]:
    address = request.META.get("REMOTE_ADDR", "")
    name = username.strip().lower()[:150].encode().hex()
    return Limit(f"sign-in-failures:{address}:{name}", 5), Limit(f"sign-in-failures:{address}", 30)


def too_many(request: HttpRequest, username: str) -> bool:
    """Return whether this name or address has reached a limit."""
    return any(cache.get(limit.key, 0) >= limit.most for limit in _limits(request, username))


def count_failure(request: HttpRequest, username: str) -> None:
    """Count one failed sign-in."""
    for limit in _limits(request, username):
        cache.add(limit.key, 0, WINDOW_S)
        cache.incr(limit.key)


def forget(request: HttpRequest, username: str) -> None:
    """Reset the count of a name that has signed in."""
    cache.delete(_limits(request, username)[0].key)
