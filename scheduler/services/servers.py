"""Servers: join, drain, come back."""

from datetime import datetime
from pathlib import Path
from typing import Any

from scheduler.models import Server
from scheduler.selectors.visibility import Actor


def server_register(*, actor: Actor, name: str, rack: str = "", at: datetime) -> Server:
    """Make a server known; its agent joins with the key. Raises NotAllowed, SpecInvalid."""
    raise NotImplementedError


def server_drain(*, actor: Actor, server: Server, reason: str, at: datetime) -> Server:
    """Move the server's jobs away and start nothing new on it. Raises NotAllowed, SpecInvalid, Conflict."""
    raise NotImplementedError


def server_undrain(*, actor: Actor, server: Server, at: datetime) -> Server:
    """Offer a drained server to rounds again. Raises NotAllowed, Conflict."""
    raise NotImplementedError


def agent_config(
    server: Server,
    *,
    redis_url: str,
    shared_dir: Path,
    state_dir: Path,
    cpu_slots: int | None = None,
    cpu_ids: list[int] | None = None,
    memory_bytes: int | None = None,
) -> dict[str, Any]:
    """Return the content of the agent's configuration file; it holds the key, so mode 0600."""
    raise NotImplementedError
