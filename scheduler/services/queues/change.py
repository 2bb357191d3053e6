"""Shared by every change of a queue: visibility, the version that guards the row, and the event."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F

from scheduler.core.model.errors import Conflict, NotFound
from scheduler.models import Event, Queue
from scheduler.notify import request_round, touch_cluster, touch_queue
from scheduler.selectors.visibility import Access, access_of
from scheduler.services.events import event_record
from scheduler.services.permission import Doer, Operator

# What a queue's version guards: kind of event, and its name in a message.
CHANGES = {
    "quota": "The quota",
    "user_limits": "The limit for users",
    "idle_rule": "The rule for idle jobs",
    "isolation": "The demand on servers",
    "kept_files": "How long files are kept",
}


def queue_set(
    queue: Queue,
    after: Mapping[str, object],
    *,
    actor: Doer,
    kind: str,
    reason: str,
    expected_version: int,
    at: datetime,
) -> Queue:
    """Write checked columns of one queue, with the event that says who changed what.

    Raises:
        Conflict: The queue changed since.
    """
    with transaction.atomic():
        queue = Queue.objects.select_for_update().get(pk=queue.pk)
        before = {field: getattr(queue, field) for field in after}
        changed = Queue.objects.filter(pk=queue.pk, version=expected_version)
        if changed.update(version=F("version") + 1, **after) != 1:
            raise Conflict(changed_by(queue, at, kind=kind))
        queue.refresh_from_db()
        data = {"before": before, "after": dict(after), "reason": reason}
        queue_record(queue, actor=actor, at=at, kind=kind, reason="change", data=data)
    return queue


def queue_access(actor: Doer, queue: Queue) -> Access:
    """Return the roles of ``actor`` if the queue is visible. Raises NotFound."""
    access = Access(is_admin=True, roles={}) if isinstance(actor, Operator) else access_of(actor)
    if not access.sees(queue.pk):
        raise NotFound(f"There is no queue {queue.name} that you may see.")
    return access


def changed_by(queue: Queue, at: datetime, *, kind: str = "quota") -> str:
    """Return the sentence for a user whose change was based on an older version of the queue."""
    last = Event.objects.filter(queue=queue, kind__in=tuple(CHANGES)).order_by("-id").first()
    who = f"{last.actor} changed it {max(0, round((at - last.at).total_seconds()))} s ago" if last else "it was changed"
    return f"{CHANGES[kind]} of {queue.name} was not saved: {who}."


def queue_record(
    queue: Queue, *, actor: Doer, at: datetime, kind: str, reason: str, data: dict[str, Any]
) -> None:  # JSON
    """Record a change of a queue as an event, refresh its pages and ask for a round.

    A change of its members asks for none: rounds do not look at members.
    """
    event_record(kind=kind, actor=actor, at=at, reason=reason, data=data, queue=queue)
    touch_queue(queue.pk)
    if kind != "membership":
        touch_cluster()
        request_round("quota")
