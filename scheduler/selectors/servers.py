"""Reads of servers. A server's key is in none of them."""

from typing import Any

from scheduler.models import Server
from scheduler.selectors.visibility import Actor


def server_list(user: Actor) -> list[dict[str, Any]]:
    """Return every server as a row with its devices."""
    raise NotImplementedError


def server_detail(user: Actor, server_id: str) -> dict[str, Any]:
    """Return one server by id or name. Raises NotFound."""
    raise NotImplementedError
