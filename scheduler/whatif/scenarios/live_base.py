"""The live cluster now as a starting point: the snapshot that a round would read, and the jobs that ended before."""

from datetime import datetime

from scheduler.core.model.tables import QueueTable, ServerTable
from scheduler.live.rounds.snapshot import LiveSnapshot, snapshot_read
from scheduler.models import Job, Queue, Server
from scheduler.selectors.cluster.capacity import capacity_words
from scheduler.selectors.jobs.estimates import MOST_ENDED, jobs_with_run_time
from scheduler.selectors.rows import Json
from scheduler.services.cluster.settings import cluster_row
from scheduler.simulator.errors import BadInput
from scheduler.simulator.report.narrowed import unnamed
from scheduler.simulator.study.starting_points import columns_to_json, snapshot_to_json

# Rounds that no arrival or end causes are replayed no more often. Under policies whose order drifts, 10 s between
# them cost a hundred times as long as all other rounds, and change no wait by more than this.
LEAST_BEAT_S = 60.0


def live_base(*, at: datetime, for_queue: Queue | None = None) -> tuple[Json, str]:
    """Return the starting point, and its description.

    Args:
        at: Now.
        for_queue: The queue of the lead who asks; None for an admin. A lead sees no single job or queue outside that
            subtree: names are left out here, their bars and shares in the process of the run.

    Raises:
        BadInput: If no server is up, or no job runs or waits.
    """
    live = snapshot_read(cluster_row(), at=at)
    tables = live.tables
    if not len(tables.servers):
        raise BadInput("No server of this cluster is up.")
    if not len(tables.jobs):
        raise BadInput("No job runs or waits now, so there is nothing to replay.")
    jobs, servers = len(tables.jobs), len(tables.servers)
    on = f"{servers:,} server{'' if servers == 1 else 's'}, {capacity_words()}"
    text = f"{jobs:,} job{'' if jobs == 1 else 's'} at {at:%H:%M} UTC on {on}"
    names = dict(Job.objects.filter(pk__in=live.job_pks).values_list("pk", "name"))
    content: Json = {
        "servers": servers_json(tables.servers),
        "queues": queues_json(tables.queues),
        "round_s": None,
        "beat_s": max(tables.round_s, LEAST_BEAT_S),
        "source": {
            "kind": "snapshot",
            "text": text,
            **snapshot_to_json(tables),
            "names": [names[pk] for pk in live.job_pks],
            "owners": owners_of(live),
            "ended": ended_rows(tables.queues),
        },
    }
    return content if for_queue is None else _for_lead(content, for_queue), text


def _for_lead(content: Json, queue: Queue) -> Json:
    names, source = content["queues"]["names"], content["source"]
    own = [row for row, name in enumerate(names) if f"{name}/".startswith(f"{queue.name}/")]
    jobs = zip(source["names"], source["jobs"]["queue"], strict=True)
    source["names"] = [name if row in own else "" for name, row in jobs]
    content["queues"]["names"] = unnamed(names, own)
    return content | {"own_queues": own}


def servers_json(servers: ServerTable) -> Json:
    """Return the servers with their names."""
    names = dict(Server.with_removed.values_list("number", "name"))
    return columns_to_json(servers) | {"names": [names[number] for number in servers.server_id.tolist()]}


def queues_json(queues: QueueTable) -> Json:
    """Return the queues with their names."""
    names = dict(Queue.objects.values_list("pk", "name"))
    return columns_to_json(queues) | {"names": [names[pk] for pk in queues.queue_id.tolist()]}


def owners_of(live: LiveSnapshot) -> list[int]:
    """Return the number of the owner of each job of a snapshot."""
    owners = dict(Job.objects.filter(pk__in=live.job_pks).values_list("pk", "owner_id"))
    return [owners[pk] for pk in live.job_pks]


def ended_rows(queues: QueueTable) -> list[tuple[int, int, float]]:
    """Return (queue row, owner, run time) of the jobs that ended last, newest first."""
    row_of = {pk: row for row, pk in enumerate(queues.queue_id.tolist())}
    ended = jobs_with_run_time().order_by("-ended_at", "-number")
    rows = ended.values_list("queue_id", "owner_id", "executed_s")[:MOST_ENDED]
    return [(row_of[queue], owner, run_s) for queue, owner, run_s in rows if queue in row_of]
