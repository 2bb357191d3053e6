"""Tokens for the REST API: shown once, stored as a hash, scoped, expiring, revocable."""

import contextlib
import hashlib
import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.contrib.auth.models import User
from django.db import OperationalError, transaction

from scheduler.core.model.errors import NotAllowed, NotFound
from scheduler.core.spec.units import counted
from scheduler.models import ApiToken
from scheduler.selectors.visibility import Actor, is_admin
from scheduler.services.events import event_record
from scheduler.services.inputs import Problems

SCOPES = ("jobs:read", "jobs:write", "queues:admin", "whatif", "admin")
PREFIX = "cw_"
SHOWN_CHARS = 8  # of the text, to tell tokens apart
NAME_CHARS = 80
LASTS_DAYS = 90
CLOCK_SLACK = timedelta(minutes=5)  # of the caller, who counts from another clock
MOST_TOKENS = 100  # live ones of one user
# The time of last use is for people: one write a minute is enough.
USE_NOTED_EVERY = timedelta(seconds=60)


def longest() -> timedelta:
    """Return how long a token may last."""
    return timedelta(days=settings.TOKEN_MOST_DAYS)


def usual() -> timedelta:
    """Return how long a token lasts when its maker names no end."""
    return min(timedelta(days=LASTS_DAYS), longest())


def token_create(
    *, actor: Actor, name: str, scopes: Sequence[str], expires_at: datetime | None, at: datetime
) -> tuple[ApiToken, str]:
    """Return a new token of ``actor`` and its text, which is not kept.

    Args:
        scopes: Some of SCOPES, at least one.
        expires_at: From when it is refused; None: after LASTS_DAYS, or sooner where an admin allows less.

    Raises:
        NotAllowed: Not signed in, or the scope admin for a user who is no admin.
        SpecInvalid: A bad name, scope or time.
    """
    if not (isinstance(actor, User) and actor.is_active):
        raise NotAllowed("Sign in to create tokens.")
    problems = Problems()
    name = problems.text("name", name, least=1, most=NAME_CHARS)
    unknown = [scope for scope in scopes if scope not in SCOPES]
    if unknown or not scopes:
        problems.add("scopes", "unknown", f"scopes must be some of {', '.join(SCOPES)}.")
    if expires_at is not None and expires_at <= at:
        problems.add("expires_at", "range", "expires_at must lie in the future.")
    elif expires_at is not None and expires_at > at + longest() + CLOCK_SLACK:
        problems.add("expires_at", "range", f"A token may last {counted(longest().days, 'day')} at most.")
    if ApiToken.objects.filter(user=actor, revoked_at__isnull=True).count() >= MOST_TOKENS:
        problems.add("name", "count", f"You have {MOST_TOKENS} tokens. Revoke one first.")
    problems.refuse()
    if "admin" in scopes and not is_admin(actor):
        raise NotAllowed("Only an admin's token may have the scope admin.")
    text = PREFIX + secrets.token_urlsafe(32)
    with transaction.atomic():
        token = ApiToken.objects.create(
            user=actor,
            name=name,
            prefix=text[:SHOWN_CHARS],
            sha256=_digest(text),
            scopes=[scope for scope in SCOPES if scope in scopes],
            created_at=at,
            expires_at=expires_at or at + usual(),
        )
        event_record(
            kind="token",
            actor=actor,
            at=at,
            reason="create",
            data={"name": name, "prefix": token.prefix, "scopes": token.scopes},
        )
    return token, text


def token_revoke(*, actor: Actor, token: ApiToken, at: datetime) -> None:
    """End a token at once; ending it again changes nothing.

    Raises:
        NotFound: It is neither ``actor``'s own nor is ``actor`` an admin.
    """
    if not is_admin(actor) and not (actor.is_authenticated and actor.is_active and token.user_id == actor.pk):
        raise NotFound("There is no such token.")
    with transaction.atomic():
        if ApiToken.objects.filter(pk=token.pk, revoked_at__isnull=True).update(revoked_at=at):
            token.revoked_at = at
            data = {"name": token.name, "prefix": token.prefix, "user": token.user.username}
            event_record(kind="token", actor=actor, at=at, reason="revoke", data=data)


def token_user(text: str, at: datetime) -> tuple[User, ApiToken] | None:
    """Return the user of a valid token, or None: unknown, revoked, expired, or the user is no longer active.

    It is found by its SHA-256, so the time of the lookup says nothing about the text of any token.
    """
    token = ApiToken.objects.select_related("user").filter(sha256=_digest(text), revoked_at__isnull=True).first()
    if token is None or (token.expires_at is not None and token.expires_at <= at) or not token.user.is_active:
        return None
    if token.last_used_at is None or at - token.last_used_at >= USE_NOTED_EVERY:
        # A note for its owner: a database that is busy with others refuses no request for it.
        with contextlib.suppress(OperationalError), transaction.atomic():
            ApiToken.objects.filter(pk=token.pk).update(last_used_at=at)
            token.last_used_at = at
    return token.user, token


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
