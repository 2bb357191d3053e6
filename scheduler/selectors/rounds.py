"""Past rounds and what they decided, as far as the reader may see."""

from typing import Any

from django.db.models import QuerySet

from scheduler.models import Round
from scheduler.selectors.visibility import Actor


def round_list(user: Actor) -> QuerySet[Round]:
    """Return rounds, newest first, without their decisions; the caller slices it."""
    raise NotImplementedError


def round_row(round_: Round) -> dict[str, Any]:
    """Return one line of the list as plain JSON data."""
    raise NotImplementedError


def round_detail(user: Actor, number: int) -> dict[str, Any]:
    """Return one round; decisions about jobs of other queues are anonymised. Raises NotFound."""
    raise NotImplementedError
