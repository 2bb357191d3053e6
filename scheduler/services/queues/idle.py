"""Sets how long jobs of a queue may hold idle GPUs, and what happens to them then."""

from datetime import datetime

from scheduler.core.model.errors import NotAllowed
from scheduler.core.operations.idle import IdleAction
from scheduler.models import Queue
from scheduler.models.queue import Role
from scheduler.services.inputs import Problems
from scheduler.services.permission import Doer
from scheduler.services.queues.change import queue_access, queue_set

AFTER_S = (60, 30 * 24 * 3600)


def queue_set_idle(
    *,
    actor: Doer,
    queue: Queue,
    idle_after_s: int | None,
    idle_action: str,
    reason: str,
    expected_version: int,
    at: datetime,
) -> Queue:
    """Set the rule for idle jobs of a queue, from now on.

    Args:
        idle_after_s: Idle time allowed, seconds; None for no check.
        idle_action: A value of IdleAction.
        reason: Why, in the actor's words, at least 3 characters; kept in the event.
        expected_version: ``Queue.version`` as the actor saw it.

    Raises:
        NotFound: ``actor`` may not see the queue.
        NotAllowed: ``actor`` is neither an admin nor a lead of the queue.
        SpecInvalid: A bad value.
        Conflict: The queue changed since.
    """
    if not queue_access(actor, queue).at_least(queue.pk, Role.LEAD):
        raise NotAllowed(f"Only admins and leads of {queue.name} may say what becomes of its idle jobs.")
    problems = Problems()
    reason = problems.reason(reason)
    if idle_after_s is not None:
        problems.number("idle_after_s", idle_after_s, low=AFTER_S[0], high=AFTER_S[1])
    if idle_action not in set(IdleAction):
        problems.add("idle_action", "unknown", f"idle_action is one of {', '.join(IdleAction)}.")
    problems.refuse()
    after = {"idle_after_s": idle_after_s, "idle_action": idle_action}
    return queue_set(
        queue, after, actor=actor, kind="idle_rule", reason=reason, expected_version=expected_version, at=at
    )
