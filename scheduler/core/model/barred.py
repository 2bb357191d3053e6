"""Servers on which jobs of a queue may not start, because these do not keep jobs apart as the queue demands.

Jobs that run there already stay.
"""

from collections.abc import Mapping

from scheduler.core.model.tables import Snapshot

# Rows of servers by the row of a queue; queues that may use all servers are not in it.
Barred = Mapping[int, frozenset[int]]

NONE_BARRED: Barred = {}
NO_SERVERS: frozenset[int] = frozenset()


def barred_rows(snapshot: Snapshot) -> Barred:
    """Return ``Snapshot.barred`` by rows; queues and servers outside the snapshot are left out."""
    if not snapshot.barred:
        return NONE_BARRED
    queue_row = {queue: row for row, queue in enumerate(snapshot.queues.queue_id.tolist())}
    server_row = {server: row for row, server in enumerate(snapshot.servers.server_id.tolist())}
    found: dict[int, frozenset[int]] = {}
    for queue, server in snapshot.barred:
        if queue in queue_row and server in server_row:
            found[queue_row[queue]] = found.get(queue_row[queue], NO_SERVERS) | {server_row[server]}
    return found
