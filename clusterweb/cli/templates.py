"""Templates of queues: list them, keep a spec as one, print one as a spec, remove one."""

import json
from argparse import Namespace

from clusterweb.cli.asked import spec_bytes
from clusterweb.cli.jobs import say, show
from clusterweb.cli.output.text import since, table
from clusterweb.client.client import Client
from clusterweb.client.errors import CommandError

ACTIONS = ("ls", "get", "add", "rm")
_MOST = 10_000


def templates(given: Namespace) -> int:
    """Do one of ACTIONS."""
    client = Client()
    if given.action == "ls":
        rows = client.all("templates", most=_MOST)
        heads = ("TEMPLATE", "NAME", "QUEUE", "OWNER", "AGE")
        cells = [(row["id"], row["name"], row["queue"], row["owner"], since(row["created_at"])) for row in rows]
        show(given, rows, table(heads, cells) if rows else "No queue of yours has a template.")
        return 0
    if given.subject is None:
        raise CommandError("Name the file." if given.action == "add" else "Name the template by its number.")
    return {"get": _get, "add": _add, "rm": _remove}[given.action](client, given)


def _get(client: Client, given: Namespace) -> int:
    """Print the spec as JSON, which ``submit`` takes once name and command are in it."""
    row = next((row for row in client.all("templates", most=_MOST) if row["id"] == given.subject), None)
    if row is None:
        raise CommandError(f"There is no template {given.subject} that you may see.")
    say(json.dumps({"apiVersion": "v1", "queue": row["queue"], **row["spec"]}, indent=2))
    return 0


def _add(client: Client, given: Namespace) -> int:
    """Keep a spec; the server reads the YAML, so that this needs no parser."""
    if not given.queue or not given.name:
        raise CommandError("Say whose template it is and what it is called: --queue and --name.")
    lines = spec_bytes(given.subject).decode(errors="replace").removeprefix("---").splitlines()
    head = [f"queue: {json.dumps(given.queue)}", f"name: {json.dumps(given.name)}", "spec:"]
    body = "\n".join([*head, *(f"  {line}" for line in lines)])
    row = client.post("templates", body.encode(), content_type="application/yaml")
    show(given, row, f"{row['id']}  {row['name']} of {row['queue']}")
    return 0


def _remove(client: Client, given: Namespace) -> int:
    client.delete(f"templates/{given.subject}")
    show(given, {"id": given.subject, "removed": True}, f"{given.subject}  removed")
    return 0
