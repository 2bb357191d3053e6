"""Sets, replaces and deletes secrets. Values come in and never go out: no answer, event or log holds one."""

from datetime import datetime

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from scheduler.core.model.errors import Conflict, NotAllowed, NotFound
from scheduler.core.spec.env import SECRET_NAME
from scheduler.core.spec.reading import is_storable
from scheduler.models import Queue, Secret
from scheduler.models.queue import Role
from scheduler.selectors.visibility import Actor, access_of
from scheduler.services.events import event_record
from scheduler.services.inputs import Problems
from scheduler.services.secrets.crypt import secret_encrypt

NAME_CHARS = 63
LEAST_CHARS = 8  # a shorter value could not be found in output without hiding other words
MOST_BYTES = 8 * 1024
MOST_SECRETS = 100  # of one user or queue


def secret_set(*, actor: Actor, queue: Queue | None, name: str, value: str, at: datetime) -> tuple[Secret, bool]:
    """Keep a value under a name, in place of the one kept before; return the row and whether it is new.

    Jobs that run keep the value that they started with.

    Args:
        queue: Whose it is; None for ``actor``'s own.

    Raises:
        NotAllowed: Not signed in, or no lead of the queue.
        SpecInvalid: A bad name or value.
    """
    user = _require_right(actor, queue)
    problems = Problems()
    right = "letters, digits, '.', '_' and '-', and begins with a letter or digit"
    name = problems.name("name", name, pattern=SECRET_NAME, most=NAME_CHARS, right=right)
    _check_value(problems, value)
    mine = _of(user, queue)
    if not mine.filter(name=name).exists() and mine.count() >= MOST_SECRETS:
        problems.add("name", "count", f"There are {MOST_SECRETS} secrets here. Delete one first.")
    problems.refuse()
    try:
        with transaction.atomic():
            return _write(user, queue, name=name, value=value, at=at)
    except IntegrityError:
        raise Conflict(f"{name} was set at the same moment. Set it again.") from None


def secret_delete(*, actor: Actor, queue: Queue | None, name: str, at: datetime) -> None:
    """Delete a secret. Jobs that run keep its value; jobs that wait and name it fail when they start.

    Raises:
        NotAllowed: As ``secret_set`` does.
        NotFound: There is none of this name.
    """
    user = _require_right(actor, queue)
    with transaction.atomic():
        deleted, _ = _of(user, queue).filter(name=name[:NAME_CHARS].replace("\x00", "")).delete()
        if not deleted:
            raise NotFound(f"There is no secret {name[:NAME_CHARS]!r} here.")
        _record(user, queue, at=at, reason="delete", name=name)


def _write(user: User, queue: Queue | None, *, name: str, value: str, at: datetime) -> tuple[Secret, bool]:
    found = _of(user, queue).select_for_update().filter(name=name).first()
    secret = found or Secret(
        name=name, user=None if queue else user, queue=queue, created_at=at, created_by=user.username
    )
    secret.sealed = secret_encrypt(secret, value)
    secret.changed_at, secret.changed_by = at, user.username
    secret.save(update_fields=None if found is None else ["sealed", "changed_at", "changed_by"])
    _record(user, queue, at=at, reason="set" if found is None else "replace", name=name)
    return secret, found is None


def _check_value(problems: Problems, value: str) -> None:
    if not is_storable(value):
        problems.add("value", "characters", "value holds a NUL or another character that no variable can hold.")
    elif len(value) < LEAST_CHARS:
        detail = (
            f"value needs at least {LEAST_CHARS} characters, so that it can be hidden in logs. It has {len(value)}."
        )
        problems.add("value", "length", detail)
    elif len(value.encode()) > MOST_BYTES:
        detail = f"value may have at most {MOST_BYTES:,} bytes. It has {len(value.encode()):,}."
        problems.add("value", "length", detail)
    elif value != value.strip():
        detail = (
            "value begins or ends with a blank or a line break. Leave it out: no service takes it for part of a key."
        )
        problems.add("value", "blanks", detail)


def _require_right(actor: Actor, queue: Queue | None) -> User:
    if not (isinstance(actor, User) and actor.is_active):
        raise NotAllowed("Sign in to keep secrets.")
    if queue is not None and not access_of(actor).at_least(queue.pk, Role.LEAD):
        raise NotAllowed(f"Only a lead of {queue.name} may change its secrets.")
    return actor


def _of(user: User, queue: Queue | None) -> QuerySet[Secret]:
    return Secret.objects.filter(queue=queue) if queue is not None else Secret.objects.filter(user=user)


def _record(user: User, queue: Queue | None, *, at: datetime, reason: str, name: str) -> None:
    data = {"name": name, "of": "queue" if queue else "user"}
    event_record(kind="secret", actor=user, at=at, reason=reason, data=data, queue=queue)
