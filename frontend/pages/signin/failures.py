"""Limits on failed sign-ins: a few per name and network, more per network and per name, then a pause of WINDOW_S.

Counted in the cache that all web processes share. Counting by name alone would let a stranger lock a user out, so the
limit per name leaves out networks from which the user has signed in before.
"""

from contextlib import suppress
from dataclasses import dataclass

from django.core.cache import caches
from django.http import HttpRequest

from scheduler.services.networks import network_of

WINDOW_S = 300
KNOWN_S = 30 * 86_400


@dataclass(frozen=True, slots=True)
class Limit:
    """At most ``most`` failures for one key in a window."""

    key: str
    most: int


class Failures:
    """Failed sign-ins that concern one attempt to sign in."""

    def __init__(self, request: HttpRequest, username: str) -> None:
        network = network_of(request.META.get("REMOTE_ADDR", ""))
        name = username.strip().lower()[:150].encode().hex()
        self._cache = caches["shared"]
        self._known = f"sign-in-known:{network}:{name}"
        self._of_both = Limit(f"sign-in-failures:{network}:{name}", 5)
        self._of_network = Limit(f"sign-in-failures:network:{network}", 30)
        self._of_name = Limit(f"sign-in-failures:name:{name}", 50)

    def too_many(self) -> bool:
        """Return whether this name or network has reached a limit."""
        limits = [self._of_both, self._of_network]
        if not self._cache.get(self._known):
            limits.append(self._of_name)
        return any(self._cache.get(limit.key, 0) >= limit.most for limit in limits)

    def count(self) -> None:
        """Count one failed sign-in."""
        for limit in (self._of_both, self._of_network, self._of_name):
            if not self._cache.add(limit.key, 1, WINDOW_S):
                with suppress(ValueError):  # its window ended between the two calls
                    self._cache.incr(limit.key)

    def forget(self) -> None:
        """Reset the count of a name that has signed in from here, and remember the network."""
        self._cache.delete(self._of_both.key)
        self._cache.set(self._known, 1, KNOWN_S)
