"""Verbs about many jobs at once: a sweep over values of parameters, and arrays."""

import json
import sys
from argparse import Namespace
from typing import Any

from clusterweb.cli.asked import asked_of
from clusterweb.cli.jobs import MOST_ROWS, show, tell
from clusterweb.cli.text import counted, devices_named, duration, in_words, since, table
from clusterweb.client.client import Client
from clusterweb.client.errors import CommandError
from clusterweb.client.folders.sending import folder_send

ARRAY_ACTIONS = ("get", "cancel", "retry")
ASKED_FROM = 20  # jobs more than which are not made without a word
_SHOWN = 1_000
Json = dict[str, Any]  # an answer of the server


def sweep(given: Namespace) -> int:
    """Make a job of each combination of values, or of a sample of them."""
    client = Client()
    body = _body(given, client)
    tried: Json = client.post("experiments", json.dumps(body).encode(), dry_run="true")
    if given.dry_run:
        show(given, tried, _listed(tried))
        return 0
    _ask(tried["count"], is_sure=given.yes)
    made: Json = client.post("experiments", json.dumps(body).encode())
    jobs = counted(tried["count"], "job")
    show(given, made, f"{made['name']}: {jobs}  {client.account.url}/experiments/{made['id']}")
    return 0


def arrays(given: Namespace) -> int:
    """List arrays, newest first."""
    if not 1 <= given.limit <= MOST_ROWS:
        raise CommandError(f"--limit is 1 to {MOST_ROWS}, not {given.limit}.")
    rows: list[Json] = Client().all("arrays", most=given.limit)
    heads = ("ARRAY", "NAME", "QUEUE", "OWNER", "JOBS", "WAITING", "AT WORK", "COMPLETED", "FAILED", "CANCELLED", "AGE")
    cells = []
    for row in rows:
        counts = row["states"]
        waiting = counts.get("queued", 0) + counts.get("suspended", 0)
        ended = [counts.get(state, 0) for state in ("completed", "failed", "cancelled")]
        sums = (row["num_jobs"], waiting, row["num_jobs"] - waiting - sum(ended), *ended)
        cells.append((row["key"], row["name"], row["queue"], row["owner"], *sums, since(row["submitted_at"])))
    show(given, rows, table(heads, cells) if rows else "There is no array.")
    return 0


def array(given: Namespace) -> int:
    """Show an array, cancel its jobs, or submit those that failed once more."""
    client = Client()
    found: Json = client.get(f"arrays/{given.array}") if given.action == "get" else _acted(client, given)
    states = ", ".join(f"{count} {state}" for state, count in found["states"].items())
    devices = devices_named(client.device_kinds)
    heads = ("INDEX", "JOB", "STATE", "LOSS", "STEP", "RAN", "WHY")
    rows = [
        (
            *(one["index"], f"J-{one['number']}", one["state"], _plain(one["loss"]), _plain(one["step"])),
            *(
                duration(one["run_s"]) if one["run_s"] else "",
                in_words(one["wait_sentence"], devices) or one["end_detail"],
            ),
        )
        for one in found["jobs"]
    ]
    show(given, found, f"{found['key']} {found['name']}: {states}\n\n{table(heads, rows)}")
    return 0


def _acted(client: Client, given: Namespace) -> Json:
    answer: Json = client.post(f"arrays/{given.array}/{given.action}")
    return answer


def _body(given: Namespace, client: Client) -> Json:
    """Return what is asked of the server, which reads the values and says what is wrong with them."""
    space: dict[str, str] = {}
    for text in given.grid:
        name, equals, values = text.partition("=")
        if not equals or not name:
            raise CommandError(f"--grid {text}: write a name and its values, such as lr=0.1,0.01 or seed=1..5.")
        if name in space:
            raise CommandError(f"--grid gives {name} twice: write all its values after one.")
        space[name] = values
    asked = asked_of(given)
    body: Json = {"spec": asked.spec.decode("utf-8", errors="replace"), "space": space, "seed": given.seed}
    body |= {"sampler": "grid"} if given.random is None else {"sampler": "random", "configurations": given.random}
    if asked.folder is not None:
        body["code"] = folder_send(client, asked.folder, tell=tell)["manifest"]
    return body


def _ask(count: int, *, is_sure: bool) -> None:
    """Ask before so many jobs are made; without a terminal, want to be told so."""
    if count <= ASKED_FROM or is_sure:
        return
    if not sys.stdin.isatty():
        raise CommandError(f"This makes {counted(count, 'job')}. Add --yes to make them, or --dry-run to see them.")
    if input(f"This makes {counted(count, 'job')}. Go on? [y/N] ").strip().lower() not in {"y", "yes"}:
        raise CommandError("Nothing is submitted.")


def _listed(tried: Json) -> str:
    """Return the configurations as a table, and how many there are."""
    rows = tried["configurations"][:_SHOWN]
    heads = ("#", *(name.upper() for name in rows[0]))
    lines = [table(heads, [(place, *one.values()) for place, one in enumerate(rows, start=1)])]
    if len(rows) < tried["count"]:
        lines.append(f"... and {tried['count'] - len(rows)} more")
    command = " ".join(tried["command"])
    return "\n".join([*lines, "", f"{counted(tried['count'], 'job')}. The first runs: {command}", "Nothing is stored."])


def _plain(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"
