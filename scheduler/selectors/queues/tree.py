"""Reads of queues: the visible part of the tree, what each holds with everything below it, and the members."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import Sum

from scheduler.core.model.errors import NotFound
from scheduler.core.model.lifecycle import HOLDING, JobState
from scheduler.models import Lease, Membership, Queue
from scheduler.models.queue import Role
from scheduler.selectors.cluster.overview import held_by_queue, jobs_by_queue
from scheduler.selectors.times import iso
from scheduler.selectors.visibility import Access, Actor, access_of

Row = dict[str, Any]  # JSON


def queue_list(user: Actor) -> list[Row]:
    """Return every visible queue as a row, parents before children, siblings by name.

    Counts are of the queue with everything below it.
    """
    access = access_of(user)
    queues = {queue.pk: queue for queue in Queue.objects.order_by("name") if access.sees(queue.pk)}
    if not queues:
        return []
    counts = {
        "held_gpus": held_by_queue(),
        "waiting_jobs": jobs_by_queue([JobState.QUEUED]),
        "running_jobs": jobs_by_queue(sorted(HOLDING)),
    }
    rows: list[Row] = []
    for queue in queues.values():
        if queue.parent_id not in queues:
            _add(queue, queues, counts, access, rows, depth=0)
    return rows


def queue_detail(user: Actor, queue: Queue) -> Row:
    """Return one queue with those who have a role in it.

    Raises:
        NotFound: The reader may not see it.
    """
    row = next((row for row in queue_list(user) if row["id"] == queue.pk), None)
    if row is None:
        raise NotFound(f"There is no queue {queue.name!r} that you may see.")
    access, above = access_of(user), _names_above(queue)
    members = Membership.objects.filter(queue_id__in=above).select_related("user").order_by("user__username")
    return {
        **row,
        "created_at": iso(queue.created_at),
        "members": [
            {"username": member.user.username, "role": member.role} for member in members if member.queue_id == queue.pk
        ],
        "inherited_members": [
            {"username": member.user.username, "role": member.role, "queue": above[member.queue_id]}
            for member in members
            if member.queue_id != queue.pk and access.sees(member.queue_id)
        ],
    }


def names_below(queue: Queue) -> dict[int, str]:
    """Return the queue and all below it, names by row."""
    tree = list(Queue.objects.order_by("pk").values_list("pk", "name", "parent_id"))
    found = {queue.pk: queue.name}
    for _ in tree:
        more = {pk: name for pk, name, parent in tree if parent in found and pk not in found}
        if not more:
            break
        found |= more
    return found


def held_by_owner(queue: Queue) -> dict[str, int]:
    """Return the GPUs that each user's jobs hold now in a queue and those below it."""
    held = Lease.objects.filter(closed_at=None, num_gpus__gte=1, attempt__job__queue_id__in=list(names_below(queue)))
    by_owner = held.values_list("attempt__job__owner__username").annotate(held=Sum("num_gpus"))
    return dict(by_owner.order_by())


def queue_siblings(user: Actor, queue: Queue) -> list[Row]:
    """Return the queues beside one, by name, for those who may change their quotas together with its own."""
    access = access_of(user)
    if queue.parent_id is None or not access.at_least(queue.parent_id, Role.LEAD):
        return []
    beside = Queue.objects.filter(parent_id=queue.parent_id).exclude(pk=queue.pk)
    return [{**row} for row in beside.values("id", "name", "color_slot", "quota_gpus")]


def _add(
    queue: Queue,
    queues: Mapping[int, Queue],
    counts: Mapping[str, Mapping[int, int]],
    access: Access,
    rows: list[Row],
    *,
    depth: int,
) -> Row:
    """Append the row of a queue and of those below it; whoever sees a queue sees everything below it."""
    row = _row(queue, access, depth=depth)
    rows.append(row)
    children: Sequence[Queue] = [child for child in queues.values() if child.parent_id == queue.pk]
    totals = {name: of_queue.get(queue.pk, 0) for name, of_queue in counts.items()}
    for child in children:
        below = _add(child, queues, counts, access, rows, depth=depth + 1)
        totals = {name: total + below[name] for name, total in totals.items()}
    parent = queues.get(queue.parent_id) if queue.parent_id is not None else None
    row |= totals
    row |= {
        "parent": parent.name if parent else None,
        "is_leaf": not children,
        "borrowed_gpus": max(0, totals["held_gpus"] - queue.quota_gpus),
    }
    return row


def _row(queue: Queue, access: Access, *, depth: int) -> Row:
    above = queue.parent_id
    return {
        "id": queue.pk,
        "name": queue.name,
        "depth": depth,
        "color_slot": queue.color_slot,
        "quota_gpus": queue.quota_gpus,
        "max_gpus": queue.max_gpus,
        "weight": queue.weight,
        "may_borrow": queue.may_borrow,
        "user_max_gpus": queue.user_max_gpus,
        "user_max_queued": queue.user_max_queued,
        "idle_after_s": queue.idle_after_s,
        "idle_action": queue.idle_action,
        "version": queue.version,
        "role": access.role(queue.pk),
        "may_submit": access.at_least(queue.pk, Role.MEMBER),
        "may_change_quota": access.is_admin or (above is not None and access.at_least(above, Role.LEAD)),
        "may_limit_users": access.at_least(queue.pk, Role.LEAD),
        "may_change_members": access.at_least(queue.pk, Role.LEAD),
    }


def _names_above(queue: Queue) -> dict[int, str]:
    """Return the queue and those above it, by row."""
    tree = {pk: (name, parent) for pk, name, parent in Queue.objects.values_list("pk", "name", "parent_id")}
    found: dict[int, str] = {}
    pk: int | None = queue.pk
    while pk is not None and pk in tree and pk not in found:
        found[pk], pk = tree[pk]
    return found
