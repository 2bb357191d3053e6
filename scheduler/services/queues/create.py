"""Creates queues: names, places in the tree, colours, and quotas that fit below the parent."""

import re
from datetime import datetime

from django.db import IntegrityError, transaction
from django.db.models import Count

from scheduler.models import Cluster, Queue
from scheduler.services.cluster.settings import cluster_row
from scheduler.services.inputs import Problems
from scheduler.services.permission import Doer, require_admin
from scheduler.services.queues.change import queue_record
from scheduler.services.queues.quotas import check_quota, check_sum, quota_of

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*")
NAME_CHARS = 120
# Last words of REST paths below a queue: a name with one of them below its first part would have no path of its own.
RESERVED = frozenset(
    {
        "members",
        "forecast",
        "limits",
        "usage",
        "loans",
        "preemptions",
        "idle",
        "isolation",
        "secrets",
        "files",
        "budget",
    }
)
COLOR_SLOTS = range(1, 9)


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
    _check_words(problems, name)
    check_quota(problems, quota_gpus=quota_gpus, max_gpus=max_gpus, weight=weight)
    problems.refuse()
    cluster_row()
    try:
        with transaction.atomic():
            Cluster.objects.select_for_update().get(pk=1)  # no job is submitted to the parent meanwhile
            if parent is not None:
                parent = Queue.objects.select_for_update().get(pk=parent.pk)
                _check_parent(problems, parent)
                check_sum(problems, parent, quota_gpus=quota_gpus)
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
            queue_record(queue, actor=actor, at=at, kind="queue", reason="create", data={"after": quota_of(queue)})
    except IntegrityError:
        problems.add("name", "taken", f"There is a queue {name} already.")
        problems.refuse()
    return queue


def _check_words(problems: Problems, name: str) -> None:
    """Add a problem for a name that REST could not reach, with one that it could."""
    first, *rest = name.split("/")
    taken = [part for part in rest if part in RESERVED]
    if taken:
        free = first + "".join(f"-{part}" if part in RESERVED else f"/{part}" for part in rest)
        detail = f'"{taken[0]}" cannot follow a "/" in the name of a queue: REST uses the word. Choose another, such as'
        problems.add("name", "reserved", f"{detail} {free}.")


def _check_parent(problems: Problems, parent: Queue) -> None:
    """Jobs belong to leaves: add a problem for a parent with unfinished jobs."""
    active = parent.jobs.filter(ended_at__isnull=True).count()
    if active:
        jobs = "1 job" if active == 1 else f"{active} jobs"
        problems.add(
            "parent", "not_empty", f"{parent.name} has {jobs} of its own. Jobs belong in queues without others."
        )


def _free_color_slot() -> int:
    """Return the least used colour slot, the lowest one of several."""
    used = dict(Queue.objects.order_by().values_list("color_slot").annotate(times=Count("pk")))
    return min(COLOR_SLOTS, key=lambda slot: (used.get(slot, 0), slot))
