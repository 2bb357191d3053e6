"""Reads of queues: the visible part of the tree, what each queue holds with everything below it, and the members."""

from collections.abc import Mapping
from dataclasses import dataclass

from django.db.models import Sum

from scheduler.core.model.errors import NotFound
from scheduler.core.model.lifecycle import HOLDING, WAITING
from scheduler.models import Lease, Membership, Queue
from scheduler.models.queue import Role
from scheduler.selectors.cluster.overview import held_by_queue, jobs_by_queue
from scheduler.selectors.queues.rows import InheritedMemberRow, MemberRow, QueueDetailRow, QueueRow, SiblingRow
from scheduler.selectors.times import iso
from scheduler.selectors.visibility import Access, Actor, access_of


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counts:
    """GPUs and jobs of each queue itself, by its id."""

    held_gpus: Mapping[int, int]
    waiting_jobs: Mapping[int, int]
    running_jobs: Mapping[int, int]


def queue_list(user: Actor) -> list[QueueRow]:
    """Return every visible queue as a row, parents before children, siblings by name."""
    access = access_of(user)
    queues = {queue.pk: queue for queue in Queue.objects.order_by("name") if access.sees(queue.pk)}
    if not queues:
        return []
    counts = _Counts(
        held_gpus=held_by_queue(),
        waiting_jobs=jobs_by_queue(sorted(WAITING)),
        running_jobs=jobs_by_queue(sorted(HOLDING)),
    )
    rows: list[QueueRow] = []
    for queue in queues.values():
        if queue.parent_id not in queues:
            rows += _branch(queue, queues, counts, access, depth=0)
    return rows


def queue_detail(user: Actor, queue: Queue) -> QueueDetailRow:
    """Return one queue with the users who have a role in it.

    Raises:
        NotFound: The reader may not see it.
    """
    row = next((row for row in queue_list(user) if row["id"] == queue.pk), None)
    if row is None:
        raise NotFound(f"There is no queue {queue.name!r} that you may see.")
    access, above = access_of(user), _names_above(queue)
    members = Membership.objects.filter(queue_id__in=above).select_related("user").order_by("user__username")
    own: list[MemberRow] = [
        {"username": member.user.username, "role": member.role} for member in members if member.queue_id == queue.pk
    ]
    inherited: list[InheritedMemberRow] = [
        {"username": member.user.username, "role": member.role, "queue": above[member.queue_id]}
        for member in members
        if member.queue_id != queue.pk and access.sees(member.queue_id)
    ]
    return {**row, "created_at": iso(queue.created_at), "members": own, "inherited_members": inherited}


def names_below(queue: Queue) -> dict[int, str]:
    """Return the names of the queue and of all queues below it, by id."""
    tree = list(Queue.objects.order_by("pk").values_list("pk", "name", "parent_id"))
    found = {queue.pk: queue.name}
    for _ in tree:
        more = {pk: name for pk, name, parent in tree if parent in found and pk not in found}
        if not more:
            break
        found |= more
    return found


def held_by_owner(queue: Queue) -> dict[str, int]:
    """Return the GPUs that each user's jobs hold now in a queue and the queues below it, by username."""
    held = Lease.objects.filter(closed_at=None, num_gpus__gte=1, attempt__job__queue_id__in=list(names_below(queue)))
    by_owner = held.values_list("attempt__job__owner__username").annotate(held=Sum("num_gpus"))
    return dict(by_owner.order_by())


def queue_siblings(user: Actor, queue: Queue) -> list[SiblingRow]:
    """Return the queues beside one, by name; none to users who may not change their quotas."""
    access = access_of(user)
    if queue.parent_id is None or not access.at_least(queue.parent_id, Role.LEAD):
        return []
    beside = Queue.objects.filter(parent_id=queue.parent_id).exclude(pk=queue.pk)
    columns = beside.values_list("pk", "name", "color_slot", "quota_gpus")
    return [{"id": pk, "name": name, "color_slot": slot, "quota_gpus": quota} for pk, name, slot, quota in columns]


def _branch(
    queue: Queue, queues: Mapping[int, Queue], counts: _Counts, access: Access, *, depth: int
) -> list[QueueRow]:
    """Return the row of a queue, then the rows below it; a user who sees a queue sees everything below it."""
    children = [child for child in queues.values() if child.parent_id == queue.pk]
    branches = [_branch(child, queues, counts, access, depth=depth + 1) for child in children]
    below = [branch[0] for branch in branches]
    parent, role = queues.get(queue.parent_id) if queue.parent_id is not None else None, access.role(queue.pk)
    assert role is not None  # only visible queues have a row
    held_gpus = counts.held_gpus.get(queue.pk, 0) + sum(row["held_gpus"] for row in below)
    row: QueueRow = {
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
        "isolation": queue.isolation,
        "keep_directories_days": queue.keep_directories_days,
        "directories_most_bytes": queue.directories_most_bytes,
        "user_directories_most_bytes": queue.user_directories_most_bytes,
        "version": queue.version,
        "role": role,
        "may_submit": access.at_least(queue.pk, Role.MEMBER),
        "may_change_quota": access.may_change_quota(queue),
        "may_limit_users": access.at_least(queue.pk, Role.LEAD),
        "may_change_members": access.at_least(queue.pk, Role.LEAD),
        "held_gpus": held_gpus,
        "waiting_jobs": counts.waiting_jobs.get(queue.pk, 0) + sum(row["waiting_jobs"] for row in below),
        "running_jobs": counts.running_jobs.get(queue.pk, 0) + sum(row["running_jobs"] for row in below),
        "parent": parent.name if parent else None,
        "is_leaf": not children,
        "borrowed_gpus": max(0, held_gpus - queue.quota_gpus),
    }
    return [row, *(row for branch in branches for row in branch)]


def _names_above(queue: Queue) -> dict[int, str]:
    """Return the names of the queue and of the queues above it, by id."""
    tree = {pk: (name, parent) for pk, name, parent in Queue.objects.values_list("pk", "name", "parent_id")}
    found: dict[int, str] = {}
    pk: int | None = queue.pk
    while pk is not None and pk in tree and pk not in found:
        found[pk], pk = tree[pk]
    return found
