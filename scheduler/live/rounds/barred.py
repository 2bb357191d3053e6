"""Reads on which servers jobs of a queue may not start, because these do not keep jobs apart well enough.

A server is barred to a queue that demands more, and to all queues when its agent refuses jobs. One that keeps nothing
apart takes the jobs of one queue alone until an admin lets queues mix there: of the queue that it had last, else of the
queue whose job has waited longest. The rule that uses it is ``scheduler.core.model.barred``.
"""

from collections.abc import Sequence

from django.db.models import OuterRef, Subquery

from scheduler.core.model.lifecycle import JobState
from scheduler.models import Job, Lease, Server
from scheduler.models.server import ServerState
from scheduler.selectors.queues.isolation import level_given, queue_demands


def barred_read() -> tuple[tuple[int, int], ...]:
    """Return pairs of queue and number of a server that is up."""
    demands = queue_demands()
    most = max(demands.values(), default=0)
    barred: list[tuple[int, int]] = []
    servers = list(
        Server.objects.filter(state=ServerState.UP)
        .order_by("number")
        .only("number", "isolation", "may_mix_queues", "agent_version")
    )
    levels = {server.pk: level_given(server) for server in servers}
    only = _only_queues([server.pk for server in servers if levels[server.pk] == 0 and not server.may_mix_queues])
    for server in servers:
        level, alone = levels[server.pk], only.get(server.pk)
        if level >= most and alone is None:
            continue
        barred += [
            (queue, server.number)
            for queue, demand in sorted(demands.items())
            if level < demand or alone not in (None, queue)
        ]
    return tuple(barred)


def _only_queues(server_ids: Sequence[str]) -> dict[str, int | None]:
    """Return the queue whose jobs alone each of these servers takes; None where none has a job."""
    if not server_ids:
        return {}
    newest = Lease.objects.filter(server=OuterRef("pk")).order_by("-pk").values("attempt__job__queue")[:1]
    had = Server.objects.filter(pk__in=server_ids).values_list("pk", Subquery(newest))
    waiting = Job.objects.filter(state=JobState.QUEUED).order_by("number").values_list("queue", flat=True).first()
    return {pk: queue or waiting for pk, queue in had}
