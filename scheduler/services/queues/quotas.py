"""Changes what queues may hold, and checks that quotas add up.

Admins set quotas everywhere; the lead of a queue sets the quotas of the queues right below it. The quotas of the queues
below one queue never sum to more than its own, so that every quota is a guarantee. Held right by
``tests/integration/services/test_races.py``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F, Q, Sum

from scheduler.core.model.errors import Conflict, NotAllowed
from scheduler.core.spec.units import counted
from scheduler.models import Queue
from scheduler.selectors.cluster.servers import gpu_count
from scheduler.services.inputs import Problems
from scheduler.services.permission import Doer
from scheduler.services.queues.change import changed_by, queue_access, queue_record, queue_set

MOST_GPUS = 1_000_000
WEIGHTS = (0.01, 1000.0)
HOLDERS_NAMED = 5
TAKEN = "To take GPUs from them in the same step: moves by REST, --leave of the command."
QUOTA_FIELDS = ("quota_gpus", "max_gpus", "weight", "may_borrow")


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """What a queue may hold: the columns of ``Queue`` of the same names."""

    quota_gpus: int
    max_gpus: int | None
    weight: float
    may_borrow: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SiblingQuota:
    """A new quota of a sibling of the changed queue, in the same step.

    Attributes:
        queue: It has the same parent.
        quota_gpus: Its new quota.
        seen_gpus: Its quota as the actor saw it; None for no check.
    """

    queue: Queue
    quota_gpus: int
    seen_gpus: int | None = None


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
    moves: Sequence[SiblingQuota] = (),
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
        Conflict: The quota changed since.
    """
    _require_quota_right(actor, queue)
    problems = Problems()
    reason = problems.reason(reason)
    after = Quota(quota_gpus=quota_gpus, max_gpus=max_gpus, weight=weight, may_borrow=may_borrow)
    with transaction.atomic():
        _lock_family(queue)
        queue = Queue.objects.select_related("parent").get(pk=queue.pk)
        if queue.version != expected_version:
            raise Conflict(changed_by(queue, at))
        problems.errors += quota_problems(queue, after, moves, may_save=True).errors
        problems.refuse()
        for move in moves:
            _move(move, queue, actor=actor, reason=reason, at=at)
        return queue_set(
            queue, asdict(after), actor=actor, kind="quota", reason=reason, expected_version=expected_version, at=at
        )


def quota_problems(queue: Queue, after: Quota, moves: Sequence[SiblingQuota] = (), *, may_save: bool) -> Problems:
    """Return the problems of a new quota and of the new quotas of its siblings: one rule for preview and save.

    Args:
        may_save: Whether the reader may save it. Then it may be more than the cluster has, as servers may follow, and
            the problem of a sum says which siblings hold how much. Others ask for it, at most for what the cluster has;
            what of it can be granted is said by ``sums_to_ask``.
    """
    problems = Problems()
    check_quota(problems, quota_gpus=after.quota_gpus, max_gpus=after.max_gpus, weight=after.weight)
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
    if not may_save:
        check_cluster(problems, queue, quota_gpus=after.quota_gpus)
        return problems
    if queue.parent is not None:
        check_sum(
            problems,
            queue.parent,
            quota_gpus=after.quota_gpus,
            besides=queue,
            moves=moves,
            names_holders=True,
        )
    _check_children(problems, queue, quota_gpus=after.quota_gpus)
    return problems


def _move(move: SiblingQuota, queue: Queue, *, actor: Doer, reason: str, at: datetime) -> None:
    """Give a sibling of ``queue`` another quota."""
    sibling = Queue.objects.get(pk=move.queue.pk)
    if move.seen_gpus is not None and sibling.quota_gpus != move.seen_gpus:
        raise Conflict(changed_by(sibling, at))
    if sibling.quota_gpus == move.quota_gpus:
        return
    before = quota_of(sibling)
    Queue.objects.filter(pk=sibling.pk).update(version=F("version") + 1, quota_gpus=move.quota_gpus)
    data = {"before": before, "after": {**before, "quota_gpus": move.quota_gpus}, "reason": reason}
    queue_record(sibling, actor=actor, at=at, kind="quota", reason="change", data=data)


def _require_quota_right(actor: Doer, queue: Queue) -> None:
    access = queue_access(actor, queue)
    if access.may_change_quota(queue):
        return
    above = f" and leads of {queue.parent.name}" if queue.parent is not None and access.sees(queue.parent_id) else ""
    raise NotAllowed(f"Only admins{above} may change the quota of {queue.name}.")


def check_quota(problems: Problems, *, quota_gpus: int, max_gpus: int | None, weight: float) -> None:
    """Add a problem for each number that is out of range."""
    problems.number("quota_gpus", quota_gpus, low=0, high=MOST_GPUS, label="quota")
    problems.number("weight", weight, low=WEIGHTS[0], high=WEIGHTS[1])
    if max_gpus is not None and not problems.errors:
        problems.number("max_gpus", max_gpus, low=quota_gpus, high=MOST_GPUS, label="most GPUs")


def check_cluster(problems: Problems, queue: Queue, *, quota_gpus: int) -> None:
    """Add a problem where a larger quota is more than the whole cluster; without a server its size is unknown."""
    most = gpu_count()
    if 0 < most < quota_gpus > queue.quota_gpus:
        right = f"may be at most {most}" if most > queue.quota_gpus else f"is {queue.quota_gpus} already"
        has = counted(most, "GPU")
        problems.add("quota_gpus", "range", f"quota {right}: the whole cluster has {has}. You asked for {quota_gpus}.")


def sums_to_ask(queue: Queue, quota_gpus: int, moves: Sequence[SiblingQuota] = ()) -> list[str]:
    """Return what stands against granting a quota, for readers who may only ask for it; empty where nothing does."""
    problems = Problems()
    _check_children(problems, queue, quota_gpus=quota_gpus)
    said = [error.detail for error in problems.errors]
    if queue.parent is None:
        return said
    above, has = queue.parent.name, counted(queue.parent.quota_gpus, "GPU")
    given = sum(_held_beside(queue.parent, besides=queue, moves=moves).values())
    left = queue.parent.quota_gpus - given
    if quota_gpus > queue.parent.quota_gpus:
        said.append(
            f"{above} has {has}, fewer than {quota_gpus}. You may request them; an admin has to give {above} more "
            "first."
        )
    elif quota_gpus > left:
        said.append(
            f"{above} has {has}, {given} of them in its other queues: {max(0, left)} can be granted while those keep "
            f"theirs. You may request {quota_gpus}; leads of {above} and admins can take the rest from them."
        )
    return said


def check_sum(
    problems: Problems,
    parent: Queue,
    *,
    quota_gpus: int,
    besides: Queue | None = None,
    moves: Sequence[SiblingQuota] = (),
    names_holders: bool = False,
) -> None:
    """Add a problem where the quotas below ``parent`` would exceed its own, and which queues could give up the rest."""
    held_gpus = _held_beside(parent, besides=besides, moves=moves)
    given = sum(held_gpus.values())
    left = parent.quota_gpus - given
    if quota_gpus <= left:
        return
    has, are = counted(parent.quota_gpus, "GPU"), "is" if given == 1 else "are"
    detail = f"quota may be at most {max(0, left)}: {parent.name} has {has} and {given} {are} given."
    instead = f" Give {parent.name} a larger quota first." if quota_gpus > parent.quota_gpus else ""
    problems.add("quota_gpus", "sum", f"{detail} You asked for {quota_gpus}.{instead}")
    if names_holders and not instead:
        problems.add("moves", "sum", f"{_holders(held_gpus)} {TAKEN}")


def largest_holders(held_gpus: Mapping[str, int]) -> tuple[list[str], int]:
    """Return the names of the queues that hold most, the largest first, and how many more hold some."""
    ordered = sorted((name for name, gpus in held_gpus.items() if gpus), key=lambda name: (-held_gpus[name], name))
    return ordered[:HOLDERS_NAMED], len(ordered[HOLDERS_NAMED:])


def _holders(held_gpus: Mapping[str, int]) -> str:
    """Return the sentence that says which queues hold how much, the largest first."""
    largest, more = largest_holders(held_gpus)
    named = [f"{name} has {held_gpus[name]}" for name in largest]
    rest = f" and {more} {'other has' if more == 1 else 'others have'} the rest" if more else ""
    return f"{', '.join(named)}{rest}."


def given_beside(parent: Queue, *, besides: Queue) -> int:
    """Return how many GPUs the quotas below ``parent`` take, that of ``besides`` left out."""
    return sum(_held_beside(parent, besides=besides).values())


def _held_beside(parent: Queue, *, besides: Queue | None, moves: Sequence[SiblingQuota] = ()) -> dict[str, int]:
    """Return the quotas of the queues below ``parent`` but ``besides``, by name, as they are after ``moves``."""
    siblings = parent.children.all() if besides is None else parent.children.exclude(pk=besides.pk)
    moved = {move.queue.pk: move.quota_gpus for move in moves}
    return {name: moved.get(pk, gpus) for pk, name, gpus in siblings.values_list("pk", "name", "quota_gpus")}


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


def quota_of(queue: Queue) -> dict[str, Any]:  # JSON of an event
    """Return the quota of a queue as its events keep it."""
    return {field: getattr(queue, field) for field in QUOTA_FIELDS}
