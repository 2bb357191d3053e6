"""Verbs about jobs."""

import json
import sys
import uuid
from argparse import Namespace
from pathlib import Path

from clusterweb.cli.account import read_account
from clusterweb.cli.client import Client
from clusterweb.cli.errors import CommandError, ServerRefused
from clusterweb.cli.folders.folder import asked_of, spec_bytes
from clusterweb.cli.folders.sending import folder_send
from clusterweb.cli.foretold import preview_text, when_lines
from clusterweb.cli.rows import Change, DryRun, Explanation, JobAhead, JobAnswer, JobLine
from clusterweb.cli.text import progress, since, table

TERMINAL = {"completed", "failed", "cancelled"}
_MOST_ROWS = 10_000
_STARTS = {"": "", "job": "once", "server": "once on each server", "gpu": "once for every GPU"}


def say(text: str) -> None:
    """Print a line for the user at once."""
    print(text, flush=True)


def show(given: Namespace, data: object, text: str) -> None:
    """Print JSON or text, as asked."""
    say(json.dumps(data, indent=2) if given.output == "json" else text)


def submit(given: Namespace) -> int:
    """Submit a spec as it is, with files beside it and the folder that it names."""
    client = Client(read_account())
    asked = asked_of(given)
    code = "" if asked.folder is None else folder_send(client, asked.folder)["manifest"]
    is_plain = not given.file and not code
    body, content_type = (asked.spec, "application/yaml") if is_plain else _form(asked.spec, given.file, code)
    answer = client.post("jobs", body, content_type=content_type, dry_run="true" if given.dry_run else None)
    if given.dry_run:
        tried: DryRun = answer
        show(given, tried, preview_text(tried))
        return 0 if tried["preview"]["feasible"] is not False else 1
    job: JobAnswer = answer
    if _per(job) != "job":
        print(f"Its command starts {_STARTS[_per(job)]}.", file=sys.stderr)
    if not given.wait:
        show(given, job, f"J-{job['number']}  {job['id']}")
        return 0
    say(f"J-{job['number']}  {job['id']}")
    _follow(client, job["id"], since_place="1-0")
    return _status_of(client.get(f"jobs/{job['id']}"))


def ls(given: Namespace) -> int:
    """List jobs."""
    if not 1 <= given.limit <= _MOST_ROWS:
        raise CommandError(f"--limit is 1 to {_MOST_ROWS}.")
    filters = {"state": given.state, "queue": given.queue, "owner": given.owner, "search": given.search}
    filters |= {"idle": "true" if given.idle else None}
    rows: list[JobLine] = Client(read_account()).all("jobs", most=given.limit, **filters)
    heads = ("JOB", "NAME", "QUEUE", "OWNER", "GPUS", "STATE", "STEP", "FOR", "WHY IT WAITS")
    cells = [
        (
            *(f"J-{job['number']}", job["name"], job["queue"], job["owner"], job["num_gpus"], job["state"]),
            *(progress(job), since(job["state_changed_at"]), job["wait_sentence"]),
        )
        for job in rows
    ]
    show(given, rows, table(heads, cells) if rows else "No job matches.")
    return 0


def get(given: Namespace) -> int:
    """Show one job."""
    job: JobAnswer = Client(read_account()).get(f"jobs/{given.job}")
    show(given, job, _card(job))
    return 0


def logs(given: Namespace) -> int:
    """Print a log; go on with it when asked."""
    client = Client(read_account())
    if given.tail < 0:
        raise CommandError("--tail is 0 or more.")
    piece = client.get(f"jobs/{given.job}/logs", tail=given.tail, attempt=given.attempt, rank=given.rank)
    sys.stdout.write(piece["text"])
    sys.stdout.flush()
    if given.follow:
        _follow(client, given.job, since_place=f"{piece['attempt'] or 1}-{piece['end_offset']}", rank=given.rank)
    elif piece["reason"] and not piece["text"]:
        print(piece["reason"], file=sys.stderr)
    return 0


def explain(given: Namespace) -> int:
    """Say why a job waits, and which jobs are ahead of it."""
    client = Client(read_account())
    found: Explanation = client.get(f"jobs/{given.job}/explain")
    if given.apply is not None:
        return _apply(client, given, found["unblock"])
    lines = [found["sentence"] or f"It does not wait: it is {found['state']}."]
    if found["position"]:
        place = f"Place {found['position']} of {found['waiting_jobs']} in the cluster"
        if found["queue_position"]:
            place += f", {found['queue_position']} of {found['queue_waiting_jobs']} in its queue"
        lines.append(f"{place}; waits {since(found['since'])}.")
    lines += when_lines(found.get("estimate"))
    lines += [found["kept"]] if found["kept"] else []
    lines += [f"{'ok' if check['ok'] else 'NO'}  {check['name']}: {check['text']}" for check in found["checks"]]
    if found["ahead"]:
        heads = ("AHEAD", "GPUS", "WHY IT WAITS")
        rows = [(_name(job), job["num_gpus"], job["sentence"]) for job in found["ahead"]]
        lines += ["", table(heads, rows)]
    if found["unblock"]:
        lines += ["", "What would start it:"]
        lines += [f"  {at}. {way['title']}. {way['sentence']}" for at, way in enumerate(found["unblock"], start=1)]
        lines.append(f"Make one so: clusterweb explain {given.job} --apply 1")
    show(given, found, "\n".join(lines))
    return 0


def _apply(client: Client, given: Namespace, ways: list[Change]) -> int:
    """Make one of the changes that would start a job."""
    if not 1 <= given.apply <= len(ways):
        raise CommandError(f"There is no change {given.apply} now. Run clusterweb explain {given.job} to see them.")
    way = ways[given.apply - 1]
    job: JobAnswer = client.post(f"jobs/{given.job}/unblock", json.dumps(way["change"]).encode())
    show(given, job, f"J-{job['number']}  {way['title']}: done. The next round looks at it again.")
    return 0


def priority(given: Namespace) -> int:
    """Make a job more or less urgent."""
    body = json.dumps({"priority": given.priority}).encode()
    job: JobAnswer = Client(read_account()).post(f"jobs/{given.job}/reprioritise", body)
    show(given, job, f"J-{job['number']}  priority {job['spec']['schedule']['priority']} from the next round on")
    return 0


def act(given: Namespace) -> int:
    """Cancel, suspend, resume or restore jobs; one that refuses stops no other."""
    client = Client(read_account())
    answers, refused = [], 0
    for name in given.job:
        try:
            job: JobAnswer = client.post(f"jobs/{name}/{given.action}")
        except ServerRefused as error:
            refused += 1
            print(f"{name}: {error}", file=sys.stderr)
            continue
        answers.append(job)
        if given.output == "text":
            is_there = job["state"] in {*TERMINAL, "suspended"} or job["wanted"] == "run"
            state = job["state"] if is_there else f"{job['state']}, ending"
            kept = f". {job['kept']}" if job["kept"] and given.action in ("cancel", "suspend") else ""
            say(f"J-{job['number']}  {state}{kept}")
            if "restore" in job["actions"]:
                print(f"To take it back within 10 min: clusterweb undo J-{job['number']}", file=sys.stderr)
    if given.output == "json":
        say(json.dumps(answers, indent=2))
    return 1 if refused else 0


def _form(spec: bytes, files: list[str], code: str) -> tuple[bytes, str]:
    """Return a form with the spec, the files and the manifest of a sent folder, and its content type."""
    boundary = uuid.uuid4().hex
    parts = [("spec", "spec.yaml", spec)]
    parts += [("file", Path(name).name, spec_bytes(name)) for name in files]
    body = b""
    if code:
        body += f'--{boundary}\r\nContent-Disposition: form-data; name="code"\r\n\r\n{code}\r\n'.encode()
    for field, name, content in parts:
        quoted = name.replace("\\", "\\\\").replace('"', '\\"')
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{field}"; filename="{quoted}"\r\n\r\n'
        body += head.encode() + content + b"\r\n"
    return body + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"


def _follow(client: Client, job: str, *, since_place: str, rank: int | None = None) -> None:
    for kind, data in client.log_events(job, since=since_place, rank=rank):
        if kind == "log":
            sys.stdout.write(data["text"])
            sys.stdout.flush()


def _status_of(job: JobAnswer) -> int:
    """Return the exit status that stands for how a job ended: its own where it has one."""
    print(f"J-{job['number']} {job['state']}. {job['end_detail']}".strip(), file=sys.stderr)
    if job["state"] == "completed":
        return 0
    attempt = job["attempt"]
    if attempt and attempt["exit_signal"]:
        return 128 + attempt["exit_signal"]
    return (attempt and attempt["exit_code"]) or 1


def _card(job: JobAnswer) -> str:
    rows = [
        ("job", f"J-{job['number']}  {job['id']}"),
        ("name", job["name"]),
        ("queue", job["queue"]),
        ("owner", job["owner"]),
        ("state", f"{job['state']} for {since(job['state_changed_at'])}"),
        ("waits", job["wait_sentence"]),
        ("GPUs", job["num_gpus"]),
        ("starts", _STARTS[_per(job)]),
        ("not used", f"its GPUs do nothing for {since(job['idle_since'])}" if job["idle_since"] else ""),
        ("step", progress(job)),
        ("loss", "" if job["loss"] is None else f"{job['loss']:.6g}"),
        ("kept", job["kept"]),
        ("attempt", job["attempt"]["number"] if job["attempt"] else ""),
        ("failed", f"{job['failures']} of at most {job['max_attempts']} times" if job["failures"] else ""),
        ("preempted", f"{job['preemptions']} times" if job["preemptions"] else ""),
        ("ended", " ".join(part for part in (job["end_cause"], job["end_detail"]) if part)),
    ]
    return "\n".join(f"{name:<10}{value}" for name, value in rows if value not in ("", None))


def _per(job: JobAnswer) -> str:
    """Return how often its command starts; empty where the spec is of before and does not say it."""
    return str(job["spec"].get("launch", {}).get("per", ""))


def _name(job: JobAhead) -> str:
    return f"J-{job['number']} {job['name']}" if job["number"] else "a job of another queue"
