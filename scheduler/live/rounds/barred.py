"""Reads on which servers jobs of a queue may not start, because these do not keep jobs apart well enough.

A server is barred to a queue that demands more, and to all queues when its agent refuses jobs. One that keeps nothing
apart takes the jobs of one queue alone until an admin lets queues mix there: of the queue that it had last, else of the
queue whose job has waited longest. The rule that uses it is ``scheduler.core.model.barred``.
"""

from agents.protocol.isolation import LEVELS, isolation_level
from scheduler.core.model.lifecycle import JobState
from scheduler.models import Job, Lease, Queue, Server
from scheduler.models.server import ServerState


def barred_read() -> tuple[tuple[int, int], ...]:
    """Return pairs of queue and number of a server that is up."""
    demands = _demands()
    most = max(demands.values(), default=0)
    barred: list[tuple[int, int]] = []
    servers = Server.objects.filter(state=ServerState.UP).order_by("number")
    for server in servers.only("number", "isolation", "may_mix_queues", "agent_version"):
        level = len(LEVELS) if server.is_simulated else isolation_level(server.isolation)  # nothing runs on a simulated
        alone = _only_queue(server) if level == 0 and not server.may_mix_queues else None
        if level >= most and alone is None:
            continue
        barred += [
            (queue, server.number)
            for queue, demand in sorted(demands.items())
            if level < demand or alone not in (None, queue)
        ]
    return tuple(barred)


def _demands() -> dict[int, int]:
    """Return what each queue demands, as a place in ``LEVELS``: the most of its own and those above it."""
    rows = Queue.objects.values_list("pk", "parent", "isolation")
    own = {pk: (parent, LEVELS.index(asked)) for pk, parent, asked in rows}
    found: dict[int, int] = {}
    for queue in own:
        above, found[queue] = own[queue]
        while above is not None:
            above, asked = own[above]
            found[queue] = max(found[queue], asked)
    return found


def _only_queue(server: Server) -> int | None:
    """Return the queue whose jobs alone it takes; None where none has a job."""
    newest = Lease.objects.filter(server=server).order_by("-pk").values_list("attempt__job__queue", flat=True)
    waiting = Job.objects.filter(state=JobState.QUEUED).order_by("number").values_list("queue", flat=True)
    return newest.first() or waiting.first()
