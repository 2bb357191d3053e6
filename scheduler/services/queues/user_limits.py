"""Limits what one user may hold and have queued in a queue."""

from datetime import datetime

from scheduler.core.model.errors import NotAllowed
from scheduler.models import Queue
from scheduler.models.queue import Role
from scheduler.services.inputs import Problems
from scheduler.services.permission import Doer
from scheduler.services.queues.change import queue_access, queue_set
from scheduler.services.queues.quotas import MOST_GPUS


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
        Conflict: The queue changed since.
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
