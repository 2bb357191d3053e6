"""Tokens for the REST API: shown once, stored as a hash, scoped, expiring, revocable."""

from collections.abc import Sequence
from datetime import datetime

from django.contrib.auth.models import User

from scheduler.models import ApiToken
from scheduler.selectors.visibility import Actor

SCOPES = ("jobs:read", "jobs:write", "queues:admin", "admin")


def token_create(
    *, actor: Actor, name: str, scopes: Sequence[str], expires_at: datetime | None, at: datetime
) -> tuple[ApiToken, str]:
    """Return a new token of ``actor`` and its text, which is not kept. Raises NotAllowed, SpecInvalid."""
    raise NotImplementedError


def token_revoke(*, actor: Actor, token: ApiToken, at: datetime) -> None:
    """End a token at once. Raises NotFound."""
    raise NotImplementedError


def token_user(text: str, at: datetime) -> tuple[User, ApiToken] | None:
    """Return whose live token ``text`` is, or None."""
    raise NotImplementedError
