"""Records events of queues, servers, settings, members and tokens; those of jobs are in ``jobs/state.py``."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from scheduler.models import Event, Queue, Server
from scheduler.models.event import present_request_id
from scheduler.services.permission import Doer, Operator, actor_name

BY_COMMAND = "command"  # in place of a request id: an operator did it on the machine itself


def event_record(
    *,
    kind: str,
    actor: Doer,
    at: datetime,
    reason: str,
    data: Mapping[str, Any],  # JSON
    queue: Queue | None = None,
    server: Server | None = None,
    old_state: str = "",
    new_state: str = "",
) -> Event:
    """Record an action of ``actor``; ``data`` holds the values before and after."""
    return Event.objects.create(
        at=at,
        kind=kind,
        actor=actor_name(actor),
        queue=queue,
        server=server,
        old_state=old_state,
        new_state=new_state,
        reason=reason,
        data=dict(data),
        request_id=BY_COMMAND if isinstance(actor, Operator) else present_request_id(),
    )
