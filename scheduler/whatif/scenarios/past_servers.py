"""Which servers took jobs in a past window, by the events of their states."""

from collections import defaultdict
from datetime import datetime, timedelta

from scheduler.core.model.tables import ServerTable
from scheduler.live.rounds.snapshot import server_table_read
from scheduler.models import Event, Server
from scheduler.models.server import ServerState

# A replay has one set of servers from its first to its last moment: those that took jobs for this part of the window,
# from when the first of them was there.
_LEAST_FRAC = 0.5


def servers_then(*, since: datetime, until: datetime) -> ServerTable:
    """Return the servers that took jobs for at least half of a window, also removed ones; empty where none is known.

    Their GPUs are those that work now; which ones were broken then is not kept by server.
    """
    there = Server.with_removed.filter(created_at__lt=until).exclude(removed_at__lte=since)
    since = max([since, *there.order_by("created_at").values_list("created_at", flat=True)[:1]])
    changes: dict[str, list[tuple[datetime, str, str]]] = defaultdict(list)
    events = Event.objects.filter(kind="server_state", server__in=there, at__gte=since).order_by("at", "pk")
    for server, at, before, after in events.values_list("server_id", "at", "old_state", "new_state"):
        changes[server].append((at, before, after))
    took = [
        server.pk
        for server in there
        if _up_for(server, changes[server.pk], since=since, until=until) >= _LEAST_FRAC * (until - since)
    ]
    return server_table_read(Server.with_removed.filter(pk__in=took))[0]


def _up_for(server: Server, changes: list[tuple[datetime, str, str]], *, since: datetime, until: datetime) -> timedelta:
    """Return for how long a server was up in a window; ``changes`` are all since its begin: when, from, to."""
    state, begin = changes[0][1] if changes else server.state, max(since, server.created_at)
    up_for = timedelta()
    for at, _, after in [*changes, (until, "", "")]:
        end = min(max(at, begin), until)
        if state == ServerState.UP:
            up_for += end - begin
        begin, state = end, after
    return up_for
