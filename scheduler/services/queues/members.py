"""Gives and takes roles in a queue.

Leads give roles below lead, admins any: no user gives, takes or changes a role as high as their own.
"""

from datetime import datetime

from django.contrib.auth.models import User
from django.db import transaction

from scheduler.core.model.errors import NotAllowed, NotFound
from scheduler.models import Membership, Queue
from scheduler.models.queue import Role
from scheduler.selectors.visibility import RANK
from scheduler.services.permission import Doer
from scheduler.services.queues.change import queue_access, queue_record


def membership_set(*, actor: Doer, queue: Queue, user: User, role: Role, at: datetime) -> Membership:
    """Give ``user`` a role in ``queue`` and all queues below it, in place of the one held there.

    A lead gives roles below lead, to people who are not leads; admins give any.

    Raises:
        NotFound: ``actor`` may not see the queue.
        NotAllowed: ``actor``'s own role is not above both the old and the new one.
    """
    role = Role(role)
    with transaction.atomic():
        Queue.objects.select_for_update().get(pk=queue.pk)
        held = Membership.objects.filter(queue=queue, user=user).first()
        before = Role(held.role) if held else None
        _require_above(actor, queue, [role, *([before] if before else [])])
        membership, _ = Membership.objects.update_or_create(queue=queue, user=user, defaults={"role": role})
        if before != role:
            data = {"user": user.username, "before": before, "after": role}
            queue_record(queue, actor=actor, at=at, kind="membership", reason="set", data=data)
    return membership


def membership_remove(*, actor: Doer, queue: Queue, user: User, at: datetime) -> None:
    """Take the role away that ``user`` holds in ``queue`` itself; roles from above stay.

    Raises:
        NotFound: ``actor`` may not see the queue, or ``user`` has no role in it.
        NotAllowed: ``actor``'s own role is not above it.
    """
    with transaction.atomic():
        Queue.objects.select_for_update().get(pk=queue.pk)
        held = Membership.objects.filter(queue=queue, user=user).first()
        _require_above(actor, queue, [Role(held.role)] if held else [Role.VIEWER])
        if held is None:
            raise NotFound(f"{user.username} has no role in {queue.name}.")
        data = {"user": user.username, "before": held.role, "after": None}
        held.delete()
        queue_record(queue, actor=actor, at=at, kind="membership", reason="remove", data=data)


def _require_above(actor: Doer, queue: Queue, roles: list[Role]) -> None:
    """Refuse to give, take or change a role as high as the actor's own; admins may change any."""
    access = queue_access(actor, queue)
    if access.is_admin:
        return
    own = access.role(queue.pk)
    if own != Role.LEAD:
        raise NotAllowed(f"Only leads of {queue.name} may change its members.")
    if any(RANK[role] >= RANK[own] for role in roles):
        raise NotAllowed(f"Only an admin may make or change a lead of {queue.name}.")
