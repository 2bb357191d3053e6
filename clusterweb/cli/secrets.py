"""Verbs about secrets. A value is typed or piped in, never an argument: arguments stand in the list of processes."""

import getpass
import sys
from argparse import Namespace

from clusterweb.cli.jobs import show
from clusterweb.cli.output.text import since, table
from clusterweb.client.client import Client
from clusterweb.client.errors import CommandError

ACTIONS = ("set", "ls", "delete")


def secret(given: Namespace) -> int:
    """Set, list or delete secrets, of one's own or of a queue."""
    client = Client()
    path = f"queues/{given.queue}/secrets" if given.queue else "secrets"
    if given.action == "ls":
        rows = client.get(path)["results"]
        show(given, rows, _table(rows) if rows else "There is no secret here.")
        return 0
    if not given.name:
        raise CommandError(f"Name the secret: clusterweb secret {given.action} NAME.")
    if "/" in given.name:
        raise CommandError("The name of a secret holds no slash.")
    address, owner = f"{path}/{given.name}", given.queue or "you"
    if given.action == "delete":
        client.delete(address)
        print(f"{given.name} is deleted. Jobs that wait and name it fail when they start.")
        return 0
    row = client.put(address, {"value": _value(given.name)})
    show(given, row, f"{given.name} of {owner} is set. Name it in a spec: env: {{VARIABLE: {{secret: {given.name}}}}}")
    return 0


def _value(name: str) -> str:
    """Return what is typed without being shown, or piped in; the line break at its end is left out."""
    if sys.stdin.isatty():
        return getpass.getpass(f"Value of {name} (not shown): ")
    return sys.stdin.read().removesuffix("\n").removesuffix("\r")


def _table(rows: list[dict[str, str]]) -> str:
    heads = ("NAME", "CHANGED", "BY", "LAST USED", "BY")
    lines = [
        (
            row["name"],
            f"{since(row['changed_at'])} ago",
            row["changed_by"],
            f"{since(row['last_used_at'])} ago" if row["last_used_at"] else "never",
            row["last_used_by"] or "",
        )
        for row in rows
    ]
    return table(heads, lines)
