"""Verbs about many jobs at once: specs in one file, a sweep over values of parameters, and arrays."""

import json
import shlex
import sys
import uuid
from argparse import Namespace
from dataclasses import asdict
from typing import Any

from clusterweb.cli.asked import asked_of, no_folder_named
from clusterweb.cli.jobs import MOST_ROWS, show, tell
from clusterweb.cli.jobs import submit as submit_one
from clusterweb.cli.text import duration, since, table
from clusterweb.client.client import Client
from clusterweb.client.errors import CommandError
from clusterweb.client.folders.sending import folder_send
from clusterweb.client.many import Progress, submit_many

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
    show(given, made, f"{made['name']}: {tried['count']} jobs  {client.account.url}/experiments/{made['id']}")
    return 0


def submit(given: Namespace) -> int:
    """Submit one job, or the many that a text holds; say exactly which of them are stored."""
    asked = asked_of(given)
    if not asked.many:
        return submit_one(given, asked)
    if given.dry_run or given.wait or given.file:
        raise CommandError(f"--dry-run, --wait and --file are of one job, and {given.spec} holds {len(asked.many)}.")
    no_folder_named(asked.many)
    key = given.key or uuid.uuid4().hex
    done = submit_many(Client(), asked.many, key=key)
    told = {
        "results": done.jobs,
        "accepted": done.accepted,
        "sent": done.sent,
        "specs": len(asked.many),
        "is_unknown": done.is_unknown,
        "problem": done.problem,
        "key": key,
        "errors": [asdict(error) for error in done.errors],
    }
    lines = [f"J-{job['number']}  {job['id']}  {job['name']}" for job in done.jobs]
    if lines or given.output == "json":
        show(given, told, "\n".join(lines))
    print(_many_told(given.spec, len(asked.many), done, key), file=sys.stderr)
    return 1 if done.problem else 0


def _many_told(name: str, count: int, done: Progress, key: str) -> str:
    """Return what became of all specs: stored, refused with each error, not known, or not sent."""
    stored = f"{done.accepted} of {count} are submitted"
    if done.jobs:
        stored += f", J-{done.jobs[0]['number']} to J-{done.jobs[-1]['number']}"
    if not done.problem:
        return f"{stored}."
    lines = [done.problem]
    for error in done.errors:
        lines.append(f"  {f'spec {error.spec} ' if error.spec else ''}{error.pointer}: {error.detail}")
    lines.append(f"{stored}.")
    which = _span(done.accepted + 1, done.sent)
    lines.append(f"Whether {which} got there is not known." if done.is_unknown else f"Nothing of {which} is stored.")
    if done.sent < count:
        lines.append(f"Not sent: {_span(done.sent + 1, count)}.")
    if done.is_unknown or done.accepted:
        lines.append(f"To send the rest, and nothing twice: clusterweb submit {shlex.quote(name)} --key {key}")
    return "\n".join(lines)


def _span(first: int, last: int) -> str:
    return f"spec {first}" if first == last else f"specs {first} to {last}"


def arrays(given: Namespace) -> int:
    """List arrays, newest first."""
    if not 1 <= given.limit <= MOST_ROWS:
        raise CommandError(f"--limit is 1 to {MOST_ROWS}.")
    rows: list[Json] = Client().all("arrays", most=given.limit)
    heads = ("ARRAY", "NAME", "QUEUE", "OWNER", "JOBS", "WAITING", "AT WORK", "COMPLETED", "FAILED", "CANCELLED", "FOR")
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
    heads = ("INDEX", "JOB", "STATE", "LOSS", "STEP", "RAN", "WHY")
    rows = [
        (
            *(one["index"], f"J-{one['number']}", one["state"], _plain(one["loss"]), _plain(one["step"])),
            *(duration(one["run_s"]) if one["run_s"] else "", one["wait_sentence"] or one["end_detail"]),
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
        raise CommandError(f"This makes {count} jobs. Add --yes to make them, or --dry-run to see them.")
    if input(f"This makes {count} jobs. Go on? [y/N] ").strip().lower() not in {"y", "yes"}:
        raise CommandError("Nothing is submitted.")


def _listed(tried: Json) -> str:
    """Return the configurations as a table, and how many there are."""
    rows = tried["configurations"][:_SHOWN]
    heads = ("#", *(name.upper() for name in rows[0]))
    lines = [table(heads, [(place, *one.values()) for place, one in enumerate(rows, start=1)])]
    if len(rows) < tried["count"]:
        lines.append(f"... and {tried['count'] - len(rows)} more")
    command = " ".join(tried["command"])
    return "\n".join([*lines, "", f"{tried['count']} jobs. The first runs: {command}", "Nothing is stored."])


def _plain(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"
