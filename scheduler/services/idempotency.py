"""Repeated requests: the same key gives the first answer again."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from django.contrib.auth.models import User

from scheduler.core.errors import Conflict


class KeyReused(Conflict):
    """The key was used for another body; the API answers 422."""


class Answer(NamedTuple):
    """An answer to a POST, given now or kept from before."""

    status: int
    body: Any
    location: str
    replayed: bool


Make = Callable[[], tuple[int, Any, str]]


def idempotent(*, user: User, route: str, key: str, body_hash: str, at: datetime, make: Make) -> Answer:
    """Run ``make`` once per (user, route, key). ``make`` returns (status, body, location). Raises KeyReused, Conflict."""
    raise NotImplementedError
