"""Verbs about the cluster and its queues."""

from argparse import Namespace

from clusterweb.cli.jobs import show
from clusterweb.cli.text import since, table
from clusterweb.client.client import Client
from clusterweb.client.errors import CommandError
from clusterweb.client.rest import Json


def top(given: Namespace) -> int:
    """Show the cluster now."""
    now = Client().get("overview")["cluster"]
    lines = [
        f"{now['allocated_gpus']} of {now['num_gpus']} GPUs held, {now['busy_gpus']} busy, {now['free_gpus']} free, "
        f"{now['broken_gpus']} broken",
        f"{now['running_jobs']} jobs run, {now['waiting_jobs']} wait",
        f"{now['policy']}, {now['locality']}, {now['mechanism']}; round {now['round']}, "
        f"{since(now['round_finished_at'])} ago" + ("; paused" if now["paused"] else ""),
    ]
    rows = [
        (
            server["name"],
            f"{server['state']}, as simulated" if server["simulated"] else server["state"],
            len(server["gpus"]),
            sum(gpu["allocated"] for gpu in server["gpus"]),
        )
        for server in now["servers"]
    ]
    if rows:
        lines += ["", table(("SERVER", "STATE", "GPUS", "HELD"), rows)]
    show(given, now, "\n".join(lines))
    return 0


def quota(given: Namespace) -> int:
    """List queues, or show or change one."""
    client = Client()
    if given.queue is None:
        if given.gpus is not None or given.isolation is not None:
            raise CommandError("Name the queue that is to change.")
        rows = client.get("queues")["results"]
        show(given, rows, _table(rows))
        return 0
    path = f"queues/{given.queue}"
    queue = client.get(path)
    for address, name, value in ((path, "quota_gpus", given.gpus), (f"{path}/isolation", "isolation", given.isolation)):
        if value is None:
            continue
        if not given.reason:
            raise CommandError("A change of a queue needs --reason; it is kept in the audit.")
        queue = client.patch(address, {name: value, "reason": given.reason}, etag=queue["etag"])
    show(given, queue, _table([queue]))
    return 0


def _table(rows: list[Json]) -> str:
    heads = ("QUEUE", "QUOTA", "HELD", "BORROWED", "WAITING", "RUNNING")
    names = ("name", "quota_gpus", "held_gpus", "borrowed_gpus", "waiting_jobs", "running_jobs")
    return table(heads, [[row[name] for name in names] for row in rows]) if rows else "You see no queue."
