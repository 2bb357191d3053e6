"""Reads of queues and their members."""

from typing import Any

from scheduler.models import Queue
from scheduler.selectors.visibility import Actor


def queue_list(user: Actor) -> list[dict[str, Any]]:
    """Return every visible queue as a row, parents before children."""
    raise NotImplementedError


def queue_detail(user: Actor, queue: Queue) -> dict[str, Any]:
    """Return one queue with its members and what the reader may do. Raises NotFound."""
    raise NotImplementedError
