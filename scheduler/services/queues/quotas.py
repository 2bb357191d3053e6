"""Queues, their quotas and their members: who may change what, and what must add up.

Admins create queues and set quotas everywhere; the lead of a queue sets the quotas of the queues right below it. The
quotas of the queues below one queue never sum up to more than its own, so that every quota is a guarantee.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import Count, F, Q, Sum

from scheduler.core.model.errors import Conflict, NotAllowed, NotFound
from scheduler.models import Cluster, Event, Membership, Queue
from scheduler.models.queue import Role
from scheduler.notify import request_round, touch_cluster, touch_queue
from scheduler.selectors.visibility import RANK, Access, access_of
from scheduler.services.cluster.settings import cluster_row
from scheduler.services.events import event_record
from scheduler.services.inputs import Problems
from scheduler.services.permission import Doer, Operator, require_admin

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*")
NAME_CHARS = 120
MOST_GPUS = 1_000_000
WEIGHTS = (0.01, 1000.0)
COLOR_SLOTS = range(1, 9)
# What a version of a queue guards: the kind of its event, and what it is called.
CHANGES = {"quota": "The quota", "user_limits": "The limit for users", "idle_rule": "The rule for idle jobs"}
QUOTA_FIELDS = ("quota_gpus", "max_gpus", "weight", "may_borrow")


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """What a queue may hold: the columns of ``Queue`` of the same names."""

    quota_gpus: int
    max_gpus: int | None
    weight: float
    may_borrow: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Another quota of a queue beside the one that is changed, in the same step.

    Attributes:
        queue: It has the same parent.
        quota_gpus: Its quota afterwards.
        seen_gpus: Its quota as the actor saw it; None for whatever it is.
    """

    queue: Queue
    quota_gpus: int
    seen_gpus: int | None = None


def queue_create(
    *,
    actor: Doer,
    name: str,
    parent: Queue | None,
    quota_gpus: int,
    at: datetime,
    max_gpus: int | None = None,
    weight: float = 1.0,
    may_borrow: bool = True,
) -> Queue:
    """Create a queue below ``parent``, or a root for None.

    Raises:
        NotAllowed: ``actor`` is no admin.
        SpecInvalid: A bad or taken name, quotas that do not add up, or a parent that has jobs of its own.
    """
    require_admin(actor, "create queues")
    problems = Problems()
    right = "letters, digits, '.', '_', '-' and single '/'"
    problems.name("name", name, pattern=NAME, most=NAME_CHARS, right=right)
    _check_quota(problems, quota_gpus=quota_gpus, max_gpus=max_gpus, weight=weight)
    problems.refuse()
    cluster_row()
    try:
        with transaction.atomic():
            Cluster.objects.select_for_update().get(pk=1)  # no job is submitted to the parent meanwhile
            if parent is not None:
                parent = Queue.objects.select_for_update().get(pk=parent.pk)
                _check_parent(problems, parent)
                _check_sum(problems, parent, quota_gpus=quota_gpus, besides=None)
                problems.refuse()
            queue = Queue.objects.create(
                name=name,
                parent=parent,
                quota_gpus=quota_gpus,
                max_gpus=max_gpus,
                weight=weight,
                may_borrow=may_borrow,
                color_slot=_free_color_slot(),
                created_at=at,
            )
            _record(queue, actor=actor, at=at, kind="queue", reason="create", data={"after": _quota(queue)})
    except IntegrityError:
        problems.add("name", "taken", f"There is a queue {name} already.")
        problems.refuse()
    return queue


def queue_change_quota(
    *,
    actor: Doer,
    queue: Queue,
    quota_gpus: int,
    max_gpus: int | None,
    weight: float,
    may_borrow: bool,
    reason: str,
    expected_version: int,
    at: datetime,
    moves: Sequence[Move] = (),
) -> Queue:
    """Change what a queue may hold, from the next round on.

    Args:
        reason: Why, in the actor's words, at least 3 characters; kept in the event.
        expected_version: ``Queue.version`` as the actor saw it.
        moves: Quotas of its siblings that change in the same step, so that GPUs can move from one to the other.

    Raises:
        NotFound: ``actor`` may not see the queue.
        NotAllowed: ``actor`` is neither an admin nor a lead above the queue.
        SpecInvalid: A bad number, or quotas that do not add up.
        Conflict: Somebody changed the quota since.
    """
    _require_quota_right(actor, queue)
    problems = Problems()
    reason = problems.reason(reason)
    after = Quota(quota_gpus=quota_gpus, max_gpus=max_gpus, weight=weight, may_borrow=may_borrow)
    with transaction.atomic():
        _lock_family(queue)
        queue = Queue.objects.select_related("parent").get(pk=queue.pk)
        if queue.version != expected_version:
            raise Conflict(_changed_by(queue, at))
        problems.errors += quota_problems(queue, after, moves).errors
        problems.refuse()
        for move in moves:
            _move(move, queue, actor=actor, reason=reason, at=at)
        before = _quota(queue)
        changed = Queue.objects.filter(pk=queue.pk, version=expected_version)
        if changed.update(version=F("version") + 1, **asdict(after)) != 1:
            raise Conflict(_changed_by(queue, at))
        queue.refresh_from_db()
        data = {"before": before, "after": asdict(after), "reason": reason}
        _record(queue, actor=actor, at=at, kind="quota", reason="change", data=data)
    return queue


def quota_problems(queue: Queue, after: Quota, moves: Sequence[Move] = ()) -> Problems:
    """Return what is wrong with a quota that a queue may get, and with those that its siblings get with it."""
    problems = Problems()
    _check_quota(problems, quota_gpus=after.quota_gpus, max_gpus=after.max_gpus, weight=after.weight)
    for move in moves:
        if move.queue.pk == queue.pk or move.queue.parent_id != queue.parent_id:
            problems.add(
                f"moves/{move.queue.name}", "sibling", f"{move.queue.name} does not stand beside {queue.name}."
            )
            continue
        most = MOST_GPUS if move.queue.max_gpus is None else move.queue.max_gpus
        problems.number(
            f"moves/{move.queue.name}", move.quota_gpus, low=0, high=most, label=f"quota of {move.queue.name}"
        )
        _check_children(problems, move.queue, quota_gpus=move.quota_gpus, field=f"moves/{move.queue.name}")
    if problems.errors:
        return problems
    if queue.parent is not None:
        _check_sum(problems, queue.parent, quota_gpus=after.quota_gpus, besides=queue, moves=moves)
    _check_children(problems, queue, quota_gpus=after.quota_gpus)
    return problems


def _move(move: Move, queue: Queue, *, actor: Doer, reason: str, at: datetime) -> None:
    """Give a sibling of ``queue`` another quota."""
    sibling = Queue.objects.get(pk=move.queue.pk)
    if move.seen_gpus is not None and sibling.quota_gpus != move.seen_gpus:
        raise Conflict(_changed_by(sibling, at))
    if sibling.quota_gpus == move.quota_gpus:
        return
    before = _quota(sibling)
    Queue.objects.filter(pk=sibling.pk).update(version=F("version") + 1, quota_gpus=move.quota_gpus)
    data = {"before": before, "after": {**before, "quota_gpus": move.quota_gpus}, "reason": reason}
    _record(sibling, actor=actor, at=at, kind="quota", reason="change", data=data)


def queue_limit_users(
    *,
    actor: Doer,
    queue: Queue,
    user_max_gpus: int | None,
    user_max_queued: int | None,
    reason: str,
    expected_version: int,
    at: datetime,
) -> Queue:
    """Limit what each user may have in a queue, from the next round on; None for no limit. Nothing is stopped for it.

    Args:
        user_max_gpus: GPUs that the jobs of one user may hold at once.
        user_max_queued: Jobs of one user that may be queued; the submission of more is refused.
        reason: Why, in the actor's words, at least 3 characters; kept in the event.
        expected_version: ``Queue.version`` as the actor saw it.

    Raises:
        NotFound: ``actor`` may not see the queue.
        NotAllowed: ``actor`` is neither an admin nor a lead of the queue.
        SpecInvalid: A bad number.
        Conflict: Somebody changed the queue since.
    """
    access = queue_access(actor, queue)
    if not access.at_least(queue.pk, Role.LEAD):
        raise NotAllowed(f"Only admins and leads of {queue.name} may limit its users.")
    problems = Problems()
    reason = problems.reason(reason)
    for field, value in (("user_max_gpus", user_max_gpus), ("user_max_queued", user_max_queued)):
        if value is not None:
            problems.number(field, value, low=1, high=MOST_GPUS)
    problems.refuse()
    after = {"user_max_gpus": user_max_gpus, "user_max_queued": user_max_queued}
    return queue_set(
        queue, after, actor=actor, kind="user_limits", reason=reason, expected_version=expected_version, at=at
    )


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
        Conflict: Somebody changed the queue since.
    """
    with transaction.atomic():
        queue = Queue.objects.select_for_update().get(pk=queue.pk)
        before = {field: getattr(queue, field) for field in after}
        changed = Queue.objects.filter(pk=queue.pk, version=expected_version)
        if changed.update(version=F("version") + 1, **after) != 1:
            raise Conflict(_changed_by(queue, at, kind=kind))
        queue.refresh_from_db()
        data = {"before": before, "after": dict(after), "reason": reason}
        _record(queue, actor=actor, at=at, kind=kind, reason="change", data=data)
    return queue


def membership_set(*, actor: Doer, queue: Queue, user: User, role: Role, at: datetime) -> Membership:
    """Give ``user`` a role in ``queue`` and everything below it, in place of the one held there.

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
            _record(queue, actor=actor, at=at, kind="membership", reason="set", data=data)
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
        _record(queue, actor=actor, at=at, kind="membership", reason="remove", data=data)


def queue_access(actor: Doer, queue: Queue) -> Access:
    """Return the roles of ``actor`` if the queue is visible. Raises NotFound."""
    access = Access(is_admin=True, roles={}) if isinstance(actor, Operator) else access_of(actor)
    if not access.sees(queue.pk):
        raise NotFound(f"There is no queue {queue.name} that you may see.")
    return access


def _require_quota_right(actor: Doer, queue: Queue) -> None:
    access = queue_access(actor, queue)
    if access.is_admin or (queue.parent_id is not None and access.at_least(queue.parent_id, Role.LEAD)):
        return
    above = f" and leads of {queue.parent.name}" if queue.parent is not None and access.sees(queue.parent_id) else ""
    raise NotAllowed(f"Only admins{above} may change the quota of {queue.name}.")


def _require_above(actor: Doer, queue: Queue, roles: list[Role]) -> None:
    """Nobody gives, takes or changes a role as high as the own one; admins stand above all."""
    access = queue_access(actor, queue)
    if access.is_admin:
        return
    own = access.role(queue.pk)
    if own != Role.LEAD:
        raise NotAllowed(f"Only leads of {queue.name} may change its members.")
    if any(RANK[role] >= RANK[own] for role in roles):
        raise NotAllowed(f"Only an admin may make or change a lead of {queue.name}.")


def _check_quota(problems: Problems, *, quota_gpus: int, max_gpus: int | None, weight: float) -> None:
    problems.number("quota_gpus", quota_gpus, low=0, high=MOST_GPUS, label="quota")
    problems.number("weight", weight, low=WEIGHTS[0], high=WEIGHTS[1])
    if max_gpus is not None and not problems.errors:
        problems.number("max_gpus", max_gpus, low=quota_gpus, high=MOST_GPUS, label="most GPUs")


def _check_parent(problems: Problems, parent: Queue) -> None:
    """Jobs live in leaves: a queue with unfinished jobs cannot become a branch."""
    active = parent.jobs.filter(ended_at__isnull=True).count()
    if active:
        jobs = "1 job" if active == 1 else f"{active} jobs"
        problems.add(
            "parent", "not_empty", f"{parent.name} has {jobs} of its own. Jobs belong in queues without others."
        )


def _check_sum(
    problems: Problems, parent: Queue, *, quota_gpus: int, besides: Queue | None, moves: Sequence[Move] = ()
) -> None:
    """The quotas below ``parent`` may not exceed its own."""
    siblings = parent.children.all() if besides is None else parent.children.exclude(pk=besides.pk)
    moved = {move.queue.pk: move.quota_gpus for move in moves}
    others = sum(moved.get(pk, gpus) for pk, gpus in siblings.values_list("pk", "quota_gpus"))
    left = parent.quota_gpus - others
    if quota_gpus > left:
        detail = (
            f"quota may be at most {max(0, left)}: {parent.name} has {parent.quota_gpus} GPUs and {others} are given."
        )
        problems.add("quota_gpus", "sum", f"{detail} You asked for {quota_gpus}.")


def _check_children(problems: Problems, queue: Queue, *, quota_gpus: int, field: str = "quota_gpus") -> None:
    given = queue.children.aggregate(total=Sum("quota_gpus"))["total"] or 0
    if given > quota_gpus:
        detail = f"quota must be at least {given}: so many GPUs are given to the queues below {queue.name}."
        problems.add(field, "sum", f"{detail} You asked for {quota_gpus}.")


def _lock_family(queue: Queue) -> None:
    """Lock the queue, its siblings and its parent, always in one order: two changes must see each other's sum."""
    family = Q(pk=queue.pk)
    if queue.parent_id is not None:
        family |= Q(pk=queue.parent_id) | Q(parent_id=queue.parent_id)
    list(Queue.objects.select_for_update().filter(family).order_by("pk").values_list("pk"))


def _free_color_slot() -> int:
    """Return the slot that the fewest queues have, the lowest of those."""
    used = dict(Queue.objects.order_by().values_list("color_slot").annotate(times=Count("pk")))
    return min(COLOR_SLOTS, key=lambda slot: (used.get(slot, 0), slot))


def _changed_by(queue: Queue, at: datetime, *, kind: str = "quota") -> str:
    """Return the sentence for whoever saw an older version of the queue."""
    last = Event.objects.filter(queue=queue, kind__in=tuple(CHANGES)).order_by("-id").first()
    who = f"{last.actor} changed it {max(0, round((at - last.at).total_seconds()))} s ago" if last else "it was changed"
    return f"{CHANGES[kind]} of {queue.name} was not saved: {who}."


def _quota(queue: Queue) -> dict[str, Any]:  # JSON of an event
    return {field: getattr(queue, field) for field in QUOTA_FIELDS}


def _record(queue: Queue, *, actor: Doer, at: datetime, kind: str, reason: str, data: dict[str, Any]) -> None:
    event_record(kind=kind, actor=actor, at=at, reason=reason, data=data, queue=queue)
    touch_queue(queue.pk)
    if kind != "membership":
        touch_cluster()
        request_round("quota")
