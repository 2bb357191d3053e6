"""Verbs about many jobs at once: sweeps over values of parameters, their experiments, and arrays."""

import json
import re
import sys
from argparse import Namespace
from typing import Any

from clusterweb.cli.asked import asked_of
from clusterweb.cli.jobs import MOST_ROWS, show, tell
from clusterweb.cli.output.foretold import stored_text
from clusterweb.cli.output.text import counted, devices_named, duration, in_words, since, table
from clusterweb.client.client import ENDED, Client
from clusterweb.client.errors import CommandError
from clusterweb.client.folders.sending import folder_send

ARRAY_ACTIONS = ("get", "cancel", "retry")
EXPERIMENT_ACTIONS = ("get", "cancel")
ASKED_FROM = 20  # jobs more than which are not made without a word
_SHOWN = 1_000
ID = re.compile(r"[0-9A-Z]{26}")  # of an experiment
Json = dict[str, Any]  # an answer of the server


def sweep(given: Namespace) -> int:
    """Make a job of each combination of values, or of a sample of them."""
    client = Client()
    body = _body(given, client)
    tried: Json = client.post("experiments", json.dumps(body).encode(), dry_run="true")
    if given.dry_run:
        show(given, tried, f"{_listed(tried)}\n{stored_text(sent_folder='code' in body)}")
        return 0
    _ask(tried["count"], is_sure=given.yes)
    made: Json = client.post("experiments", json.dumps(body).encode())
    numbers = [f"J-{one['job_number']}" for one in made["members"]]
    jobs = f"{counted(made['configurations'], 'job')}, {' to '.join(dict.fromkeys((numbers[0], numbers[-1])))}"
    if len(numbers) < made["configurations"]:
        jobs += f" now, the other {made['configurations'] - len(numbers)} shortly"
    lines = [
        f"{made['name']}: {jobs}  {client.account.url}/experiments/{made['id']}",
        f"Follow them with: clusterweb experiment get {made['id']}",
    ]
    show(given, made, "\n".join(lines))
    return 0


def experiments(given: Namespace) -> int:
    """List experiments, newest first."""
    rows: list[Json] = Client().all("experiments", most=_limit(given))
    heads = ("NAME", "QUEUE", "OWNER", "STATE", "JOBS", "BEST LOSS", "AGE", "ID")
    cells = [
        (
            *(row["name"], row["queue"], row["owner"], row["state"], f"{row['submitted']} of {row['configurations']}"),
            *(_plain(row["best_loss"]), since(row["created_at"]), row["id"]),
        )
        for row in rows
    ]
    show(given, rows, table(heads, cells) if rows else "There is no experiment.")
    return 0


def experiment(given: Namespace) -> int:
    """Show an experiment with the values and losses of its jobs, best first, or cancel it."""
    client = Client()
    pk = _experiment_id(client, given.experiment)
    found: Json = client.get(f"experiments/{pk}") if given.action == "get" else client.post(f"experiments/{pk}/cancel")
    names = sorted({name for one in found["members"] for name in one["values"]})
    heads = ("JOB", *(name.upper() for name in names), "STATE", "STEP", "LOSS", "RAN")
    ranked = sorted(found["members"], key=lambda one: (one["loss"] is None, one["loss"] or 0.0, one["number"]))
    rows = [
        (
            *(f"J-{one['job_number']}", *(one["values"].get(name, "") for name in names)),
            _after(given.action, one["state"]),
            *(_plain(one["step"]), _plain(one["loss"]), duration(one["run_s"]) if one["run_s"] else ""),
        )
        for one in ranked
    ]
    head = f"{found['name']}: {found['state']}, {counted(found['submitted'], 'job')} of {found['configurations']}"
    show(given, found, f"{head}\n\n{table(heads, rows)}")
    return 0


def _experiment_id(client: Client, asked: str) -> str:
    """Return the id of an experiment, given that or its name. Raises CommandError for a name of none or several."""
    if ID.fullmatch(asked):
        return asked
    named = [str(row["id"]) for row in client.all("experiments", most=MOST_ROWS) if row["name"] == asked]
    if len(named) > 1:
        raise CommandError(f"{len(named)} experiments are named {asked}. Give the id of one: clusterweb experiments")
    if not named:
        raise CommandError(f"No experiment that you may see is named {asked}. List them: clusterweb experiments")
    return named[0]


def arrays(given: Namespace) -> int:
    """List arrays, newest first."""
    rows: list[Json] = Client().all("arrays", most=_limit(given))
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
    states = ", ".join(f"{count} {_after(given.action, state)}" for state, count in found["states"].items())
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


def _after(action: str, state: str) -> str:
    """Return a job's state after an action; a cancelled one may still save its work."""
    return f"{state} (ending)" if action == "cancel" and state not in ENDED else state


def _limit(given: Namespace) -> int:
    if not 1 <= given.limit <= MOST_ROWS:
        raise CommandError(f"--limit is 1 to {MOST_ROWS}, not {given.limit}.")
    return int(given.limit)


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
    return "\n".join([*lines, "", f"{counted(tried['count'], 'job')}. The first runs: {command}"])


def _plain(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"
