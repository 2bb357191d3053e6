"""Verbs about servers, for admins."""

import json
from argparse import Namespace

from clusterweb.cli.jobs import show
from clusterweb.client.client import Client
from clusterweb.client.errors import CommandError

ACTIONS = ("rename", "label", "drain", "undrain", "remove")

# What is said of a server once it is done.
DONE = {
    "drain": "takes no more jobs; those on it are asked to save and to leave.",
    "undrain": "takes jobs again.",
    "remove": "is removed. What ran on it keeps its name.",
}
NONE_LEFT = "No other server takes jobs: no job starts anywhere until one is undrained or joins."


def server(given: Namespace) -> int:
    """Rename, label, drain, undrain or remove a server."""
    if not given.reason:
        raise CommandError("A change of a server needs --reason; it is kept in the audit.")
    client, path = Client(), f"servers/{given.server}"
    if given.action in DONE:
        if given.to:
            raise CommandError(f"Name one server: clusterweb server {given.action} NAME --reason WHY.")
        row = client.post(f"{path}/{given.action}", json.dumps({"reason": given.reason}).encode())
        print(f"{given.server} {DONE[given.action]}")
        if given.action == "drain" and row.get("other_servers_up") == 0:  # an older server does not say it
            print(NONE_LEFT)
        return 0
    if given.action == "rename" and len(given.to) != 1:
        raise CommandError("Give one new name: clusterweb server rename OLD NEW --reason WHY.")
    change = {"name": given.to[0]} if given.action == "rename" else {"labels": given.to}
    row = client.put(path, {**change, "reason": given.reason})
    labels = f", labelled {', '.join(row['labels'])}" if row["labels"] else ""
    show(given, row, f"The server is called {row['name']}{labels}.")
    return 0
