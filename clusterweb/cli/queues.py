"""Verbs about the cluster and its queues."""

import json
from argparse import Namespace

from clusterweb.cli.jobs import show
from clusterweb.cli.output.text import counted, devices_named, is_day, since, table
from clusterweb.client.client import Client
from clusterweb.client.errors import CommandError
from clusterweb.client.rest import Json

LEFT_TWICE = "--leave names a queue twice."
REQUEST_ACTIONS = ("ls", "change", "grant", "refuse", "withdraw")


def top(given: Namespace) -> int:
    """Show the cluster now."""
    now = Client().get("overview")["cluster"]
    devices = devices_named(server["device_kind"] for server in now["servers"])
    lines = [
        f"{now['allocated_gpus']} of {now['usable_gpus']} {devices} held, {now['busy_gpus']} busy, "
        + (f"{now['unknown_gpus']} not known, " if now["unknown_gpus"] else "")
        + f"{now['free_gpus']} free, "
        + (f"{now['drained_gpus']} drained, " if now["drained_gpus"] else "")
        + f"{now['broken_gpus']} broken",
        f"{counted(now['running_jobs'], 'job')} running, {now['waiting_jobs']} waiting",
        f"{now['policy']}, {now['locality']}, {now['mechanism']}; round {now['round']}, "
        f"{since(now['round_finished_at'])} ago" + ("; paused" if now["paused"] else ""),
    ]
    rows = [
        (
            server["name"],
            f"{_state(server)}, as simulated" if server["simulated"] else _state(server),
            len(server["gpus"]),
            sum(gpu["allocated"] for gpu in server["gpus"]),
        )
        for server in now["servers"]
    ]
    if rows:
        lines += ["", table(("SERVER", "STATE", devices.upper(), "HELD"), rows)]
    show(given, now, "\n".join(lines))
    return 0


def _state(server: Json) -> str:
    """Return the state as pages show it: a server that drains and holds nothing any more is drained."""
    is_empty = not any(gpu["allocated"] for gpu in server["gpus"])
    return "drained" if server["state"] == "draining" and is_empty else str(server["state"])


def quota(given: Namespace) -> int:
    """List queues, or show or change one."""
    gpus, ask = given.gpus, given.ask
    if wrong := _wrong_quota(given):
        raise CommandError("\n".join(wrong))
    client = Client()
    if given.queue is None:
        rows = client.get("queues")["results"]
        show(given, rows, _table(rows))
        return 0
    if ask is not None:
        return _ask(given, client, ask)
    path = f"queues/{given.queue}"
    queue = client.get(path)
    for address, name, value, more in (
        (path, "quota_gpus", gpus, {"moves": _moves(given.leave)}),
        (f"{path}/isolation", "isolation", given.isolation, {}),
    ):
        if value is None:
            continue
        queue = client.patch(address, {name: value, **more, "reason": given.reason}, etag=queue["etag"])
    show(given, queue, _table([queue]))
    return 0


def _wrong_quota(given: Namespace) -> list[str]:
    """Return a sentence for each argument of ``quota`` that is missing or does not go with the others."""
    changes, asks = given.gpus is not None or given.isolation is not None, given.ask is not None
    wrong = []
    if given.queue is None and (changes or asks):
        wrong.append("Name the queue that is to change.")
    if asks and changes:
        wrong.append("--ask asks others for a quota, --gpus and --isolation change the queue: give one of them.")
    if given.leave and given.gpus is None:
        wrong.append("--leave belongs to --gpus: what the queues that give up GPUs keep.")
    if len(dict(given.leave)) < len(given.leave):
        wrong.append(LEFT_TWICE)
    if given.until and not asks:
        wrong.append("--until belongs to --ask: until when the quota is needed.")
    if given.until and asks and not is_day(given.until):
        wrong.append(f"--until must be a day, such as 2030-11-30, not {given.until!r}.")
    if given.reason and not (changes or asks):
        wrong.append("--reason is of a change: say --gpus, --isolation or --ask as well.")
    if not given.reason and asks:
        wrong.append("A request needs --reason; all who see the queue can read it.")
    if not given.reason and changes:
        wrong.append("A change of a queue needs --reason; it is kept in the audit.")
    return wrong


def _moves(leave: list[tuple[str, int]]) -> dict[str, int]:
    """Return what queues keep; each may be named once."""
    moves = dict(leave)
    if len(moves) < len(leave):
        raise CommandError(LEFT_TWICE)
    return moves


def _ask(given: Namespace, client: Client, gpus: int) -> int:
    """Ask for the quota of a queue."""
    asked = {"queue": given.queue, "quota_gpus": gpus, "until": given.until, "reason": given.reason}
    row = client.post("quota-requests", json.dumps(asked).encode())
    show(given, row, f"Request {row['id']} is sent. You are told when it is answered.")
    return 0


def requests(given: Namespace) -> int:
    """List requests for quota, or change, answer or withdraw one."""
    gpus, client = given.gpus, Client()
    if given.until and given.action != "change":
        raise CommandError("--until belongs to change: until when the quota is needed.")
    if given.leave and given.action != "grant":
        raise CommandError("--leave belongs to grant: what the queues that give up GPUs keep.")
    if given.action == "ls":
        rows = client.get("quota-requests", state="" if given.all else "open")["results"]
        show(given, rows, _requests_table(rows) if rows else f"There are no {'' if given.all else 'open '}requests.")
        return 0
    if given.number is None:
        raise CommandError(f"Name the request: clusterweb quota-requests {given.action} NUMBER.")
    body: dict[str, object] = {"reason": given.reason} if given.reason else {}
    if given.action in ("change", "grant") and gpus is not None:
        body["quota_gpus"] = gpus
    if given.leave:
        body["moves"] = _moves(given.leave)
    if given.action == "change":
        return _change(given, client, body)
    if given.action == "refuse" and not given.reason:
        raise CommandError("A refusal needs --reason; the user who asked reads it.")
    row = client.post(f"quota-requests/{given.number}/{given.action}", json.dumps(body).encode())
    given_gpus = f": the quota of {row['queue']} is {row['given_gpus']}" if row["given_gpus"] is not None else ""
    show(given, row, f"Request {row['id']} is {row['state']}{given_gpus}.")
    return 0


def _change(given: Namespace, client: Client, body: dict[str, object]) -> int:
    """Ask for something else in the place of an open request."""
    if given.until:
        body["until"] = None if given.until == "none" else given.until
    if not body:
        raise CommandError("Say what changes: --gpus, --until or --reason.")
    row = client.post(f"quota-requests/{given.number}/change", json.dumps(body).encode())
    until = f" until {row['until']}" if row["until"] else ""
    show(given, row, f"Request {row['id']}, {row['quota_gpus']} for {row['queue']}{until}, replaces {given.number}.")
    return 0


def _requests_table(rows: list[Json]) -> str:
    heads = ("NUMBER", "QUEUE", "STATE", "BY", "ASKED", "UNTIL", "REASON", "ANSWER")
    lines = [
        (
            row["id"],
            row["queue"],
            row["state"],
            row["asked_by"],
            f"{row['before_gpus']} -> {row['quota_gpus']}",
            row["until"] or "",
            row["reason"],
            f"replaced by {row['replaced_by']}" if row["replaced_by"] else row["answer"],
        )
        for row in rows
    ]
    return table(heads, lines)


def _table(rows: list[Json]) -> str:
    heads = ("QUEUE", "QUOTA", "HELD", "BORROWED", "WAITING", "RUNNING")
    names = ("name", "quota_gpus", "held_gpus", "borrowed_gpus", "waiting_jobs", "running_jobs")
    return table(heads, [[row[name] for name in names] for row in rows]) if rows else "You see no queue."


def _forecast(row: Json, found: Json) -> str:
    if found["elapsed_frac"] >= 1.0:
        return "month is over"
    return "too early to tell" if row["forecast"] is None else f"{row['forecast']:.2f}"


def costs(given: Namespace) -> int:
    """Show what queues cost in a month."""
    found = Client().get("costs", month=given.month)
    rows = [
        (
            row["queue"],
            f"{row['gpu_hours']:.1f}",
            f"{row['spent']:.2f}",
            "none" if row["budget"] is None else f"{row['budget']:.2f}",
            _forecast(row, found),
        )
        for row in found["rows"]
    ]
    head = (
        f"{found['month']}, in {found['currency'] or 'no currency'}, {found['elapsed_frac']:.0%} of the month is over"
    )
    if not found["is_priced"]:
        head = "No price is set, so nothing costs anything."
    listed = ["", table(("QUEUE", "HOURS", "SPENT", "BUDGET", "FORECAST"), rows)] if rows else []
    show(given, found, "\n".join([head, *listed]))
    return 0
