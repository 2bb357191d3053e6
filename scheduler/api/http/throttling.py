"""How many requests a user (or a network, before sign-in) may send in a minute, to all web processes together.

The limits stop runaway loops, not a person or a page that follows live.
"""

from dataclasses import dataclass
from typing import Any

from django.core.cache import caches
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView

from scheduler.ports import live_ports
from scheduler.services.networks import network_of

WINDOW_S = 60
USER_REQUESTS = 1_800
NETWORK_REQUESTS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What is left of the present minute; shown in the ``RateLimit-*`` headers."""

    limit: int
    remaining: int
    reset_s: int

    def headers(self) -> dict[str, str]:
        """Return the headers that tell a client how far it may go."""
        return {
            "RateLimit-Limit": str(self.limit),
            "RateLimit-Remaining": str(self.remaining),
            "RateLimit-Reset": str(self.reset_s),
        }


class MinuteThrottle(BaseThrottle):
    """Counts in windows of one minute; leaves the allowance on the request."""

    def __init__(self) -> None:
        self._wait_s = 0

    def allow_request(self, request: Request, view: APIView) -> bool:
        """Count the request and return whether it is within the limit."""
        now_s = live_ports().clock.now().timestamp()
        window, reset_s = int(now_s // WINDOW_S), int(WINDOW_S - now_s % WINDOW_S) + 1
        if request.user.is_authenticated:
            who, limit = f"user.{request.user.pk}", USER_REQUESTS
        else:
            who, limit = f"network.{network_of(request.META.get('REMOTE_ADDR', ''))}", NETWORK_REQUESTS
        shared: Any = caches["shared"]  # ``clusterweb.shared_cache``, which stands above
        count: int = shared.count(f"api-rate.{who}.{window}", within_s=WINDOW_S * 2)
        request._request.allowance = Allowance(  # type: ignore[attr-defined]  # read when the answer is finished
            limit=limit, remaining=max(0, limit - count), reset_s=reset_s
        )
        self._wait_s = reset_s
        return count <= limit

    def wait(self) -> float:
        """Return the seconds until the next window."""
        return float(self._wait_s)
