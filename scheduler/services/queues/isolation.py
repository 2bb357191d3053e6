"""Sets how far apart servers must keep jobs for those of a queue to start on them."""

from datetime import datetime

from agents.protocol.isolation import LEVEL_MEANING
from scheduler.core.model.errors import NotAllowed
from scheduler.models import Queue
from scheduler.models.queue import Role
from scheduler.services.inputs import Problems, not_one_of
from scheduler.services.permission import Doer
from scheduler.services.queues.change import queue_access, queue_set

DEMANDS = tuple(LEVEL_MEANING.items())  # each level with where jobs start then


def queue_demand_isolation(
    *, actor: Doer, queue: Queue, isolation: str, reason: str, expected_version: int, at: datetime
) -> Queue:
    """Set what the queue demands of servers, from the next round on; it holds for all queues below. Nothing is stopped.

    Args:
        isolation: One of ``LEVEL_MEANING``.
        reason: Why, in the actor's words, at least 3 characters; kept in the event.
        expected_version: ``Queue.version`` as the actor saw it.

    Raises:
        NotFound: ``actor`` may not see the queue.
        NotAllowed: ``actor`` is neither an admin nor a lead of the queue.
        SpecInvalid: A bad value.
        Conflict: The queue changed since.
    """
    if not queue_access(actor, queue).at_least(queue.pk, Role.LEAD):
        raise NotAllowed(f"Only admins and leads of {queue.name} may say how far apart its jobs are kept.")
    problems = Problems()
    reason = problems.reason(reason)
    if isolation not in LEVEL_MEANING:
        problems.add("isolation", "unknown", not_one_of(isolation, LEVEL_MEANING))
    problems.refuse()
    after = {"isolation": isolation}
    return queue_set(
        queue, after, actor=actor, kind="isolation", reason=reason, expected_version=expected_version, at=at
    )
