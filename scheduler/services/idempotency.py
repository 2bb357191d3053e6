"""Idempotency keys: a repeated request gets the first answer again, and its effect happens once.

The answer is stored in the transaction of the effect; the unique constraint decides a race. Held right by
``tests/integration/services/test_idempotency.py``.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from scheduler.core.model.errors import Conflict
from scheduler.models import IdempotencyKey

KEPT = timedelta(hours=24)
FORGOTTEN_AT_ONCE = 100  # old keys that one request clears away


class KeyReused(Conflict):
    """The key was used for another body; the API answers 422."""


class Answer(NamedTuple):
    """An answer to a POST, new or kept.

    Attributes:
        status: HTTP status.
        body: JSON data.
        location: Of what was created; empty for none.
        replayed: Whether it is the kept answer of an earlier request.
    """

    status: int
    body: Any
    location: str
    replayed: bool


Make = Callable[[], tuple[int, Any, str]]


class _Raced(Exception):
    """Another request with the key was committed first; this one is rolled back."""


def idempotent(*, user: User, route: str, key: str, body_hash: str, at: datetime, make: Make) -> Answer:
    """Return the answer of ``make``, run once for each (user, route, key) within 24 hours.

    Args:
        route: Name of the operation, at most 80 characters.
        key: What the client chose, at most 200 characters.
        body_hash: Hash of the request's body; a key may not be used for two bodies.
        make: Does the work and returns (status, JSON body, location). Errors are not kept.

    Raises:
        KeyReused: The key belongs to another body.
        Conflict: The first request was rolled back meanwhile; the client tries again.
    """
    try:
        return _first_or_kept(user, route, key, body_hash, at, make)
    except _Raced:
        kept = _kept(user, route, key, body_hash, at)
        if kept is None:
            raise Conflict("A request with the same Idempotency-Key was undone a moment ago. Send it again.") from None
        return kept


@transaction.atomic
def _first_or_kept(user: User, route: str, key: str, body_hash: str, at: datetime, make: Make) -> Answer:
    kept = _kept(user, route, key, body_hash, at)
    if kept is not None:
        return kept
    _forget_old(at)
    IdempotencyKey.objects.filter(user=user, route=route, key=key).delete()  # only an expired one can be left
    status, body, location = make()
    row = IdempotencyKey(
        user=user,
        route=route,
        key=key,
        body_hash=body_hash,
        status=status,
        body=body,
        location=location,
        created_at=at,
    )
    try:
        with transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError:
        raise _Raced from None
    return Answer(status=status, body=body, location=location, replayed=False)


def _kept(user: User, route: str, key: str, body_hash: str, at: datetime) -> Answer | None:
    row = IdempotencyKey.objects.filter(user=user, route=route, key=key, created_at__gt=at - KEPT).first()
    if row is None:
        return None
    if row.body_hash != body_hash:
        raise KeyReused("This Idempotency-Key was used for another request. Choose a new one.")
    return Answer(status=row.status, body=row.body, location=row.location, replayed=True)


def _forget_old(at: datetime) -> None:
    old = IdempotencyKey.objects.filter(created_at__lte=at - KEPT).order_by("created_at")
    IdempotencyKey.objects.filter(pk__in=list(old.values_list("pk", flat=True)[:FORGOTTEN_AT_ONCE])).delete()
