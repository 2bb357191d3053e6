"""Servers on which jobs may not start: these do not keep jobs apart as a queue demands, or lack a job's environment.

Jobs that run there already stay.
"""

from collections.abc import Mapping

from scheduler.core.model.tables import Snapshot

# Rows of servers by the row of a job; jobs that may use all servers are not in it.
Barred = Mapping[int, frozenset[int]]

NONE_BARRED: Barred = {}
NO_SERVERS: frozenset[int] = frozenset()


def barred_rows(snapshot: Snapshot) -> Barred:
    """Return ``Snapshot.barred`` and ``Snapshot.prepared`` by rows; what is outside the snapshot is left out.

    No server is barred to a job that runs there: a share, a loan or a quota looks for its seats anew, and finds them.
    """
    if not snapshot.barred and not snapshot.prepared:
        return NONE_BARRED
    found: dict[int, frozenset[int]] = {}
    if by_queue := queue_barred_rows(snapshot):
        queues = snapshot.jobs.queue.tolist()
        found = {row: by_queue[queue] for row, queue in enumerate(queues) if queue in by_queue}
    for row, servers in unprepared_rows(snapshot).items():
        found[row] = found.get(row, NO_SERVERS) | servers
    for row, server in zip(snapshot.held.job.tolist(), snapshot.held.server.tolist(), strict=True):
        if row in found:
            found[row] -= {server}
    return {row: servers for row, servers in found.items() if servers}


def queue_barred_rows(snapshot: Snapshot) -> Barred:
    """Return ``Snapshot.barred`` as rows of servers by the row of a queue."""
    if not snapshot.barred:
        return NONE_BARRED
    queue_row = {queue: row for row, queue in enumerate(snapshot.queues.queue_id.tolist())}
    server_row = {server: row for row, server in enumerate(snapshot.servers.server_id.tolist())}
    found: dict[int, frozenset[int]] = {}
    for queue, server in snapshot.barred:
        if queue in queue_row and server in server_row:
            found[queue_row[queue]] = found.get(queue_row[queue], NO_SERVERS) | {server_row[server]}
    return found


def unprepared_rows(snapshot: Snapshot) -> Barred:
    """Return the servers without its environment by the row of a job; jobs that lack it nowhere are left out."""
    if not snapshot.prepared:
        return NONE_BARRED
    job_row = {job: row for row, job in enumerate(snapshot.jobs.job_id.tolist())}
    server_row = {server: row for row, server in enumerate(snapshot.servers.server_id.tolist())}
    every = frozenset(server_row.values())
    lacking: dict[tuple[int, ...], frozenset[int]] = {}  # many jobs have the same environment
    found: dict[int, frozenset[int]] = {}
    for job, ready in snapshot.prepared:
        if ready not in lacking:
            lacking[ready] = every - {server_row[server] for server in ready if server in server_row}
        if job in job_row and lacking[ready]:
            found[job_row[job]] = lacking[ready]
    return found
