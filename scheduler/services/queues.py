"""Queues, their quotas and their members."""

from datetime import datetime

from django.contrib.auth.models import User

from scheduler.models import Membership, Queue
from scheduler.models.queue import Role
from scheduler.selectors.visibility import Actor


def queue_create(
    *,
    actor: Actor,
    name: str,
    parent: Queue | None,
    quota_gpus: int,
    at: datetime,
    max_gpus: int | None = None,
    weight: float = 1.0,
    may_borrow: bool = True,
) -> Queue:
    """Create a queue. Raises NotAllowed, SpecInvalid."""
    raise NotImplementedError


def queue_change_quota(
    *,
    actor: Actor,
    queue: Queue,
    quota_gpus: int,
    max_gpus: int | None,
    weight: float,
    may_borrow: bool,
    reason: str,
    expected_version: int,
    at: datetime,
) -> Queue:
    """Change what a queue may hold. Raises NotAllowed, SpecInvalid, Conflict."""
    raise NotImplementedError


def membership_set(*, actor: Actor, queue: Queue, user: User, role: Role, at: datetime) -> Membership:
    """Give ``user`` a role in ``queue``. Raises NotAllowed."""
    raise NotImplementedError


def membership_remove(*, actor: Actor, queue: Queue, user: User, at: datetime) -> None:
    """Take a user's role in ``queue`` away. Raises NotAllowed, NotFound."""
    raise NotImplementedError
