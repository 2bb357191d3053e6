"""Creates users, and lets admins deactivate them. Their roles in queues are memberships."""

import re
import secrets
from datetime import datetime

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import IntegrityError, transaction

from scheduler.core.model.errors import Conflict
from scheduler.models import ApiToken
from scheduler.services.events import event_record
from scheduler.services.inputs import Problems
from scheduler.services.permission import Doer, require_admin

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.@_-]*")
NAME_CHARS = 150
# Actors of events that are no users; a user of such a name could hide behind it.
RESERVED = frozenset({"scheduler", "operator", "agent", "system"})


def user_create(*, actor: Doer, username: str, email: str = "", at: datetime) -> tuple[User, str]:
    """Return a new user and a password that is shown once.

    Raises:
        NotAllowed: ``actor`` is no admin.
        SpecInvalid: A bad or taken name, or no address.
    """
    require_admin(actor, "add users")
    problems = Problems()
    problems.name("username", username, pattern=NAME, most=NAME_CHARS, right="letters, digits, '.', '@', '_' and '-'")
    if username.lower() in RESERVED:
        problems.add("username", "reserved", f"{username} means something else in the list of events.")
    email = _address(problems, email)
    problems.refuse()
    password = secrets.token_urlsafe(12)
    try:
        with transaction.atomic():
            user = User.objects.create_user(username=username, email=email, password=password)
            _record(user, actor=actor, at=at, did="create", before=None, after={"email": email})
    except IntegrityError:
        problems.add("username", "taken", f"There is a user {username} already.")
        problems.refuse()
    return user, password


def user_change(*, actor: Doer, user: User, email: str, at: datetime) -> User:
    """Change the address to which mails go.

    Raises:
        NotAllowed: ``actor`` is no admin.
        SpecInvalid: No address.
    """
    require_admin(actor, "change users")
    problems = Problems()
    email = _address(problems, email)
    problems.refuse()
    if email != user.email:
        with transaction.atomic():
            before, user.email = user.email, email
            user.save(update_fields=["email"])
            _record(user, actor=actor, at=at, did="change", before={"email": before}, after={"email": email})
    return user


def user_set_active(*, actor: Doer, user: User, active: bool, at: datetime) -> User:
    """Deactivate a user, or activate one again. Sessions, tokens and live pages of an inactive user end at once.

    Raises:
        NotAllowed: ``actor`` is no admin.
        Conflict: It is the actor, or the last admin: no user could activate them again.
    """
    require_admin(actor, "keep users out")
    with transaction.atomic():
        user = User.objects.select_for_update().get(pk=user.pk)
        if user.is_active == active:
            return user
        if not active and user.username == actor.username:
            raise Conflict("You cannot keep yourself out. Another admin can.")
        others = User.objects.filter(is_superuser=True, is_active=True).exclude(pk=user.pk)
        if not active and user.is_superuser and not others.exists():
            raise Conflict(f"{user.username} is the last admin.")
        user.is_active = active
        user.save(update_fields=["is_active"])
        did = "activate" if active else "deactivate"
        _record(user, actor=actor, at=at, did=did, before={"active": not active}, after={"active": active})
    return user


def password_change(*, user: User, password: str, at: datetime) -> None:
    """Change a password; sessions and tokens made with the old one end.

    Args:
        password: Checked by the form: neither short nor common.
    """
    with transaction.atomic():
        user.set_password(password)
        user.save(update_fields=["password"])
        ended = ApiToken.objects.filter(user=user, revoked_at=None).update(revoked_at=at)
        after: dict[str, object] = {"tokens_revoked": ended}
        _record(user, actor=user, at=at, did="password", before=None, after=after)


def sign_in_record(*, user: User, by: str, at: datetime) -> None:
    """Record a sign-in and how it was made: ``password``, or the protocol of a provider."""
    event_record(kind="sign_in", actor=user, at=at, reason=by, data={"user": user.username})


def _address(problems: Problems, email: str) -> str:
    email = email.strip()
    try:
        if email:
            validate_email(email)
    except ValidationError:
        problems.add("email", "invalid", "email must be an address such as ada@example.org, or empty.")
    return email


def _record(
    user: User, *, actor: Doer, at: datetime, did: str, before: dict[str, object] | None, after: dict[str, object]
) -> None:
    data = {"user": user.username, "before": before, "after": after}
    event_record(kind="user", actor=actor, at=at, reason=did, data=data)
