"""The verb ``whatif``: ask what would happen, follow it, compare the variants."""

import json
import mmap
import sys
import time
from argparse import Namespace
from collections.abc import Collection, Sequence
from pathlib import Path

from clusterweb.cli.jobs import show
from clusterweb.cli.output.text import duration, since, table
from clusterweb.client.client import Client
from clusterweb.client.errors import CommandError
from clusterweb.client.rest import Json

POLL_S = 0.5
SHOWN = (
    ("avg_jct_s", "MEAN JCT"),
    ("p50_jct_s", "P50 JCT"),
    ("p99_jct_s", "P99 JCT"),
    ("avg_queueing_s", "MEAN WAIT"),
    ("makespan_s", "MAKESPAN"),
    ("avg_useful_gpu", "USEFUL"),
    ("preemptions", "PREEMPTED"),
    ("max_rho", "WORST RHO"),
)

# The same as on pages (frontend/pages/whatif/words.py), held so by a test.
FIGURES = {
    "avg_jct_s": "Mean JCT",
    "p99_jct_s": "p99 JCT",
    "avg_queueing_s": "Mean wait",
    "makespan_s": "Makespan",
    "avg_allocated_gpus": "Allocated",
}


def whatif(given: Namespace) -> int:
    """Do what ``given.action`` says."""
    return ACTIONS[given.action](Client(), given)


def _subject(given: Namespace, what: str) -> str:
    if not given.subject:
        raise CommandError(f"whatif {given.action} needs {what}.")
    return str(given.subject)


def _run(client: Client, given: Namespace) -> int:
    """Ask the question in a JSON file; wait for its answer unless told otherwise."""
    path = _subject(given, "a JSON file with the scenario")
    try:
        body = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
        json.loads(body)
    except (OSError, ValueError) as error:
        raise CommandError(f"{path} is no JSON file that can be read: {error}") from None
    scenario = client.post("whatif", body.encode())
    if given.no_wait:
        show(given, scenario, f"{scenario['id']}  {scenario['name']}")
        return 0
    return _followed(client, given, scenario["id"])


def _followed(client: Client, given: Namespace, scenario_id: str) -> int:
    while True:
        scenario = client.get(f"whatif/{scenario_id}")
        progress = scenario["progress"]
        if given.output == "text" and sys.stderr.isatty():
            done = f"{progress['runs_done']} of {progress['num_runs']} runs, {100 * progress['frac']:.0f} %"
            print(f"\r{done}   ", end="", file=sys.stderr, flush=True)
        if scenario["state"] not in ("queued", "running"):
            break
        time.sleep(POLL_S)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    return _shown(given, scenario)


def _compare(client: Client, given: Namespace) -> int:
    """Show what a scenario found."""
    return _shown(given, client.get(f"whatif/{_subject(given, 'the id of a scenario')}"))


def _shown(given: Namespace, scenario: Json) -> int:
    lines = [f"{scenario['name']}: {scenario['about']}; {scenario['state']}"]
    lines += [f"{warning}." for warning in scenario["warnings"]]
    if scenario["error"]:
        lines.append(scenario["error"])
    metrics = {metric["key"]: metric for metric in scenario["metrics"]}
    fidelity = scenario["fidelity"] or []
    if any(cell["seeds"] for cell in metrics["avg_jct_s"]["variants"]):
        lines[:0] = _doubt_lines(fidelity, scenario.get("doubts") or ())  # an older server does not send doubts
        rows = [
            (variant["name"], *(_cell(metrics[key], at) for key, _ in SHOWN))
            for at, variant in enumerate(scenario["variants"])
        ]
        lines += [
            "",
            table(("VARIANT", *(title for _, title in SHOWN)), rows),
            "",
            "* best; +- half of the 95 % interval, from three seeds on; in brackets the draws of two",
        ]
    for row in fidelity:
        happened, replayed = (_text(row["kind"], row[name]) for name in ("happened", "replayed"))
        lines.append(f"{_figure(row)}: happened {happened}, replayed {replayed}")
    show(given, scenario, "\n".join(lines))
    return 0 if scenario["state"] != "failed" else 1


def _doubt_lines(fidelity: Sequence[Json], doubts: Collection[str]) -> list[str]:
    """Return the line that says why the answer is not to be trusted; none where it is."""
    off = [
        f"{_figure(row)[0].lower()}{_figure(row)[1:]} was really {_text(row['kind'], row['happened'])}, "
        f"replayed {_text(row['kind'], row['replayed'])}"
        for row in fidelity
        if row["key"] in doubts
    ]
    if not off:
        return []
    why = f"replayed under the settings that held then, {'; '.join(off)}"
    return [f"Not reliable: {why}. What follows may be as far off."]


def _figure(row: Json) -> str:
    return FIGURES.get(row["key"], str(row["key"]))


def _cell(metric: Json, at: int) -> str:
    own = metric["variants"][at]
    if not own["seeds"]:
        return ""
    if own["mean"] is None:
        return "too few jobs"
    text = _text(metric["kind"], own["mean"])
    spread = f" +-{_text(metric['kind'], own['half_width'])}" if own["half_width"] else ""
    if len(set(own["draws"])) > 1:
        spread = f" ({', '.join(_text(metric['kind'], value) for value in own['draws'])})"
    return f"{text}{spread}{'*' if metric['winner'] == at else ''}"


def _text(kind: str, value: float) -> str:
    if kind == "time":
        return duration(value)
    if kind == "gpus":
        return "1 GPU" if value == 1 else f"{value:.1f} GPUs"
    return f"{100 * value:.1f}%" if kind == "share" else f"{value:.4g}"


def _ls(client: Client, given: Namespace) -> int:
    """List scenarios, newest first."""
    rows = client.all("whatif", most=50)
    cells = [(row["id"], row["name"], row["state"], len(row["variants"]), since(row["created_at"])) for row in rows]
    text = table(("ID", "NAME", "STATE", "VARIANTS", "AGE"), cells) if rows else "You have asked nothing yet."
    show(given, rows, text)
    return 0


def _cancel(client: Client, given: Namespace) -> int:
    """Stop a scenario."""
    scenario = client.post(f"whatif/{_subject(given, 'the id of a scenario')}/cancel")
    show(given, scenario, f"{scenario['name']} is cancelled.")
    return 0


def _upload(client: Client, given: Namespace) -> int:
    """Keep a trace file, to start scenarios from."""
    path = Path(_subject(given, "a trace file"))
    try:
        with (
            path.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
            memoryview(mapped) as content,
        ):
            kept = client.upload("whatif/traces", content, name=path.name)
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError:
        raise CommandError(f"{path} is empty.") from None
    show(given, kept, f"{kept['id']}  {kept['name']}")
    return 0


def _traces(client: Client, given: Namespace) -> int:
    """List uploaded traces, newest first."""
    rows = client.all("whatif/traces", most=50)
    cells = [
        (row["id"], row["name"], f"{row['bytes'] / 2**20:.1f} MiB", row["owner"], since(row["created_at"]))
        for row in rows
    ]
    text = table(("ID", "NAME", "SIZE", "OWNER", "AGE"), cells) if rows else "You have uploaded no trace yet."
    show(given, rows, text)
    return 0


def _forget(client: Client, given: Namespace) -> int:
    """Delete an uploaded trace."""
    file_id = _subject(given, "the id of a trace")
    client.delete(f"whatif/traces/{file_id}")
    show(given, {"id": file_id}, f"{file_id} is deleted.")
    return 0


ACTIONS = {
    "run": _run,
    "ls": _ls,
    "compare": _compare,
    "cancel": _cancel,
    "upload": _upload,
    "traces": _traces,
    "forget": _forget,
}
