"""Signs in users of an OpenID Connect provider: found by issuer and subject, with the roles of their groups.

Neither a name nor a mail address ever links to an existing user: anyone who can choose one at the provider could
otherwise become the local admin.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import count

from django.contrib.auth.models import User
from django.db import transaction

from scheduler.core.model.errors import NotAllowed
from scheduler.models import Identity, Membership, Queue
from scheduler.models.queue import Role
from scheduler.notify import touch_cluster, touch_queue
from scheduler.selectors.visibility import RANK
from scheduler.services.accounts.users import NAME_CHARS, RESERVED, sign_in_record
from scheduler.services.events import event_record

ADMIN = "admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class IdTokenClaims:
    """What a provider's ID token says of a user, after its signature was checked.

    Attributes:
        email: Empty unless the provider has verified it.
        grants: Role by name of the queue, and ``admin`` under the empty name, as the groups give them.
        ruled: Names of the queues, and the empty one for ``admin``, whose roles groups decide.
    """

    issuer: str
    subject: str
    name: str
    email: str
    grants: Mapping[str, str]
    ruled: Sequence[str]


def identity_sign_in(claims: IdTokenClaims, *, at: datetime) -> User:
    """Return the user of an identity, created at the first sign-in, with the roles of the groups now.

    Roles in queues that no group decides about stay as leads have given them.

    Raises:
        NotAllowed: An admin keeps the user out.
    """
    with transaction.atomic():
        identity = Identity.objects.select_related("user").filter(issuer=claims.issuer, subject=claims.subject).first()
        user = identity.user if identity else _new_user(claims, at)
        if not user.is_active:
            raise NotAllowed("An admin keeps this user out.")
        Identity.objects.filter(issuer=claims.issuer, subject=claims.subject).update(last_used_at=at)
        if claims.email and user.email != claims.email:
            user.email = claims.email
            user.save(update_fields=["email"])
        _set_admin(user, claims, at)
        for queue in Queue.objects.filter(name__in=[name for name in claims.ruled if name]):
            _set_role(user, queue, claims.grants.get(queue.name), at)
        sign_in_record(user=user, by="oidc", at=at)
    return user


def strongest(grants: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return the highest role for each queue; the empty name holds ``admin``."""
    found: dict[str, str] = {}
    for queue, role in grants:
        if queue not in found or (role != ADMIN and RANK[Role(role)] > RANK[Role(found[queue])]):
            found[queue] = role
    return found


def _new_user(claims: IdTokenClaims, at: datetime) -> User:
    base = re.sub(r"[^A-Za-z0-9.@_-]", "", claims.name.partition("@")[0]).lstrip(".@_-")[: NAME_CHARS - 10] or "user"
    if base.lower() in RESERVED:
        base = f"{base}-1"
    names = (base if number == 1 else f"{base}-{number}" for number in count(1))
    username = next(name for name in names if not User.objects.filter(username__iexact=name).exists())
    user = User(username=username, email=claims.email)
    user.set_unusable_password()
    user.save()
    Identity.objects.create(user=user, issuer=claims.issuer, subject=claims.subject, created_at=at)
    data = {"user": username, "before": None, "after": {"issuer": claims.issuer}}
    event_record(kind="user", actor=user, at=at, reason="create", data=data)
    return user


def _set_admin(user: User, claims: IdTokenClaims, at: datetime) -> None:
    wanted = "" in claims.grants
    if "" not in claims.ruled or user.is_superuser == wanted:
        return
    user.is_superuser = user.is_staff = wanted
    user.save(update_fields=["is_superuser", "is_staff"])
    data = {"user": user.username, "before": {"admin": not wanted}, "after": {"admin": wanted}}
    event_record(kind="user", actor=user, at=at, reason="by_group", data=data)
    touch_cluster()


def _set_role(user: User, queue: Queue, role: str | None, at: datetime) -> None:
    held = Membership.objects.filter(user=user, queue=queue).first()
    before = held.role if held else None
    if before == role:
        return
    if role is None:
        Membership.objects.filter(user=user, queue=queue).delete()
    else:
        Membership.objects.update_or_create(user=user, queue=queue, defaults={"role": role})
    data = {"user": user.username, "before": before, "after": role}
    event_record(kind="membership", actor=user, at=at, reason="by_group", data=data, queue=queue)
    touch_queue(queue.pk)
