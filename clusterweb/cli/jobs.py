"""Verbs about jobs."""

import json
import shlex
import sys
import uuid
from argparse import Namespace
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path

from clusterweb.cli.asked import Asked, asked_of, left_behind, require_no_folder, spec_bytes
from clusterweb.cli.output.foretold import environment_lines, preview_text, wait_lines, when_lines
from clusterweb.cli.output.harmless import RESET, harmless
from clusterweb.cli.output.text import counted, devices_named, in_words, progress, since, size, table
from clusterweb.client.client import ENDED, Client, place_after
from clusterweb.client.errors import CommandError, ServerRefused
from clusterweb.client.folders.sending import Sent, ignored_text
from clusterweb.client.many import KEY_REUSED, Progress, submit_many
from clusterweb.client.rows import Change, Explanation, JobAhead, JobAnswer, JobLine

MOST_ROWS = 10_000
LINES, MOST_LINES = 1000, 10_000  # of a log: shown when not said, and at most
MOST_KEY = 180  # of the 200 that REST takes; each request of a submit of many adds its place
INTERRUPTED = 130  # exit status after Ctrl-C
_STARTS = {"": "", "job": "once", "server": "once on each server", "gpu": "once for every GPU"}


def say(text: str) -> None:
    """Print a line for the user at once; a file's name or a build's log in it may hold what a terminal obeys."""
    print("".join(harmless([text])) if sys.stdout.isatty() else text, flush=True)


def show(given: Namespace, data: object, text: str) -> None:
    """Print JSON or text, as asked."""
    say(json.dumps(data, indent=2) if given.output == "json" else text)


def submit(given: Namespace) -> int:
    """Submit one job, or the many that a text holds."""
    if not (given.key.isascii() and given.key.isprintable() and len(given.key) <= MOST_KEY):
        raise CommandError(f"--key is at most {MOST_KEY} characters of ASCII, in one line.")
    asked = asked_of(given)
    return _submit_many(given, asked.many) if asked.many else _submit_one(given, asked)


def _submit_one(given: Namespace, asked: Asked) -> int:
    """Submit a spec as it is, with files beside it and the folder that it names."""
    client = Client()
    files = {Path(name).name: spec_bytes(name) for name in given.file}
    if given.dry_run:
        tried = client.preview(asked.spec, folder=asked.folder, files=files, tell=tell)
        text = preview_text(tried, sent_folder=asked.folder is not None)
        show(given, tried, in_words(text, devices_named(client.device_kinds)))
        _warn(tried.get("warnings"))
        return 0 if tried["preview"]["feasible"] is not False else 1
    try:
        job = client.submit(asked.spec, folder=asked.folder, files=files, tell=tell, key=given.key)
    except ServerRefused as error:
        if error.code != KEY_REUSED:
            raise
        print(f"With --key {given.key} another spec was submitted before. Nothing new is stored.", file=sys.stderr)
        print("Use another --key for another job.", file=sys.stderr)
        return error.exit_status
    _warn(job.get("warnings"))
    if _per(job) != "job":
        print(f"Its command starts {_STARTS[_per(job)]}.", file=sys.stderr)
    if script := left_behind(asked, job["spec"]):
        print(
            f"{script} lies beside the spec and is not sent: the job finds it only if its server has it. To send the "
            "folder, write code: {dir: .} into the spec.",
            file=sys.stderr,
        )
    if not given.wait:
        show(given, job, f"{job['array'] or 'J-' + str(job['number'])}  {job['id']}")
        return 0
    say(f"J-{job['number']}  {job['id']}")
    _print(client.follow(job))
    return _status_of(client.job(job))


def _warn(warnings: Iterable[str] | None) -> None:
    """Print what of a stored spec is probably not meant; an older server does not say it."""
    for warning in warnings or ():
        print(f"Warning: {warning}", file=sys.stderr)


def _submit_many(given: Namespace, specs: Sequence[bytes]) -> int:
    """Submit many jobs; say exactly which of them are stored, also where it is interrupted."""
    if given.dry_run or given.wait or given.file:
        raise CommandError(f"--dry-run, --wait and --file are of one job, and {given.spec} holds {len(specs)}.")
    require_no_folder(specs)
    client = Client()
    key, done, status = given.key or uuid.uuid4().hex, Progress(), 0
    if not given.key:  # before the first request: a process that is killed says nothing at its end
        print(f"Its key, should it break off: {key}", file=sys.stderr, flush=True)
    try:
        submit_many(client, specs, key=key, so_far=done)
        status = 1 if done.problem else 0
    except KeyboardInterrupt:
        done.problem, done.is_unknown = "Interrupted.", done.sent > done.accepted
        status = INTERRUPTED
    told = {
        "results": done.jobs,
        "accepted": done.accepted,
        "sent": done.sent,
        "specs": len(specs),
        "is_unknown": done.is_unknown,
        "is_reused": done.is_reused,
        "problem": done.problem,
        "key": key,
        "errors": [asdict(error) for error in done.errors],
    }
    lines = [f"J-{job['number']}  {job['id']}  {job['name']}" for job in done.jobs]
    if lines or given.output == "json":
        show(given, told, "\n".join(lines))
    print(_many_told(given.spec, len(specs), done, key), file=sys.stderr)
    return status


def _many_told(name: str, count: int, done: Progress, key: str) -> str:
    """Return what became of all specs: stored, refused with each error, not known, or not sent."""
    stored = f"{done.accepted} of {count} are submitted"
    if done.jobs:
        stored += f", J-{done.jobs[0]['number']} to J-{done.jobs[-1]['number']}"
    if not done.problem:
        return f"{stored}."
    which = _span(done.accepted + 1, done.sent)
    lines = [done.problem]
    if done.is_reused:
        lines = [f"Under this key, specs from {done.accepted + 1} on were stored before, in another version."]
    for error in done.errors:
        lines.append(f"  {f'spec {error.spec} ' if error.spec else ''}{error.pointer}: {error.detail}")
    if done.accepted or not done.is_reused:
        lines.append(f"{stored}.")
    if done.is_unknown:
        lines.append(f"Whether {which} got there is not known.")
    elif done.is_reused:
        lines.append(f"Nothing new of {which} is stored.")
    elif done.sent > done.accepted:
        lines.append(f"Nothing of {which} is stored.")
    if done.sent < count:
        lines.append(f"Not sent: {_span(done.sent + 1, count)}.")
    if done.is_reused:
        lines.append("Use another --key for new jobs, without the specs that are stored; clusterweb ls shows them.")
    elif done.is_unknown or done.accepted:
        lines.append(
            f"To send the rest, and nothing twice: clusterweb submit {shlex.quote(name)} --key {shlex.quote(key)}"
        )
    return "\n".join(lines)


def _span(first: int, last: int) -> str:
    return f"spec {first}" if first == last else f"specs {first} to {last}"


def ls(given: Namespace) -> int:
    """List jobs."""
    if not 1 <= given.limit <= MOST_ROWS:
        raise CommandError(f"--limit is 1 to {MOST_ROWS}, not {given.limit}.")
    filters = {"state": given.state, "queue": given.queue, "owner": given.owner, "search": given.search}
    filters |= {"idle": "true" if given.idle else None}
    client = Client()
    rows: list[JobLine] = client.all("jobs", most=given.limit, **filters)
    devices = devices_named(client.device_kinds)
    heads = ("JOB", "NAME", "QUEUE", "OWNER", devices.upper(), "STATE", "STEP", "IN STATE", "WHY IT WAITS")
    cells = [
        (
            *(f"J-{job['number']}", job["name"], job["queue"], job["owner"], job["num_gpus"], job["phase"]),
            *(progress(job), since(job["state_changed_at"]), in_words(job["wait_sentence"], devices)),
        )
        for job in rows
    ]
    show(given, rows, table(heads, cells) if rows else "No job matches.")
    return 0


def get(given: Namespace) -> int:
    """Show one job."""
    client = Client()
    job = client.job(given.job)
    show(given, job, _card(job, devices_named(client.device_kinds)))
    return 0


def logs(given: Namespace) -> int:
    """Print a log; go on with it when asked."""
    client = Client()
    tail = LINES if given.tail is None else given.tail
    if tail < 0:
        raise CommandError("--tail is 0 or more.")
    piece = client.log(given.job, tail=tail, attempt=given.attempt, rank=given.rank)
    newest = piece["attempt"] or 1
    if given.attempt is None and newest > 1:
        before = f"clusterweb logs {given.job} --attempt {newest - 1}"
        print(f"This is attempt {newest}. The log of the one before: {before}", file=sys.stderr)
    if given.tail is None and piece["truncated"]:
        lines = piece["text"].removesuffix("\n").count("\n") + 1
        wider = f"For more add --tail {MOST_LINES}. " if lines == LINES else ""  # else it is cut at its bytes already
        kept = f"All that is kept: {client.account.url}/jobs/{given.job}/logs"
        print(f"These are the last {counted(lines, 'line')}. {wider}{kept}", file=sys.stderr)
    more = client.follow(given.job, since=place_after(piece), rank=given.rank) if given.follow else ()
    _print(chain([piece["text"]], more), is_raw=given.raw)
    if not given.follow and piece["reason"] and not piece["text"]:
        print(piece["reason"], file=sys.stderr)
    return 0


def explain(given: Namespace) -> int:
    """Say why a job waits, and which jobs are ahead of it."""
    client = Client()
    found: Explanation = client.get(f"jobs/{given.job}/explain")
    if given.apply is not None:
        return _apply(client, given, found["unblock"])
    devices = devices_named(client.device_kinds)
    lines = [in_words(found["sentence"], devices) or "No round has decided about it yet."]
    lines += wait_lines(found)
    lines += environment_lines(found.get("environment"))
    lines += [in_words(line, devices) for line in when_lines(found.get("estimate"))]
    lines += [found["estimate_basis"]] if found.get("estimate_basis") else []
    lines += [found["kept"]] if found["kept"] else []
    lines += [
        f"{'ok' if check['ok'] else 'NO'}  {in_words(check['name'] + ': ' + check['text'], devices)}"
        for check in found["checks"]
    ]
    if found["ahead"]:
        heads = ("AHEAD", devices.upper(), "WHY IT WAITS")
        rows = [(_name(job), job["num_gpus"], in_words(job["sentence"], devices)) for job in found["ahead"]]
        lines += ["", table(heads, rows)]
    if found["unblock"]:
        lines += ["", "What would start it:"]
        ways = [in_words(f"{way['title']}. {way['sentence']}", devices) for way in found["unblock"]]
        lines += [f"  {at}. {way}" for at, way in enumerate(ways, start=1)]
        lines.append(f"Make one so: clusterweb explain {given.job} --apply 1")
    elif told := found.get("unblock_sentence"):  # an older server does not say it
        lines += ["", in_words(told, devices)]
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
    job: JobAnswer = Client().post(f"jobs/{given.job}/reprioritise", body)
    show(given, job, f"J-{job['number']}  priority {job['spec']['schedule']['priority']} from the next round on")
    return 0


def act(given: Namespace) -> int:
    """Cancel, suspend, resume or restore jobs; one that refuses stops no other."""
    client = Client()
    answers, refused = [], 0
    for name in given.job:
        try:
            job = client.act(name, given.action)
        except ServerRefused as error:
            refused += 1
            print(f"{name}: {error}", file=sys.stderr)
            continue
        answers.append(job)
        if given.output == "text":
            is_there = job["state"] in {*ENDED, "suspended"} or job["wanted"] == "run"
            state = job["state"] if is_there else f"{job['state']}, ending"
            kept = f". {job['kept']}" if job["kept"] and given.action in ("cancel", "suspend") else ""
            say(f"J-{job['number']}  {state}{kept}")
            if "restore" in job["actions"]:
                print(f"To take it back within 10 min: clusterweb undo J-{job['number']}", file=sys.stderr)
    if given.output == "json":
        say(json.dumps(answers, indent=2))
    return 1 if refused else 0


def tell(sent: Sent) -> None:
    """Say how far the sending of a folder is: in one line of a terminal, at the end alone elsewhere."""
    total = size(sent.missing_bytes)
    if sent.is_whole:
        count = "1 file" if sent.missing == 1 else f"{sent.missing} files"
        done = f"{count} sent, {total}" if sent.missing else "Nothing to send"
        text = f"{done}; {sent.known} were on the server.{ignored_text(sent.ignored)}"
    elif sent.sent_bytes:
        text = f"Sent {size(sent.sent_bytes)} of {total}"
    else:
        text = f"Sending {sent.missing} of {sent.missing + sent.known} files, {total}"
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="\n" if sent.is_whole else "", file=sys.stderr, flush=True)
    elif sent.is_whole:
        print(text, file=sys.stderr)


def _print(pieces: Iterable[str], *, is_raw: bool = False) -> None:
    """Print what a job wrote: as it is where it is read by a program or asked for raw, else harmless for a terminal."""
    is_raw = is_raw or not sys.stdout.isatty()
    try:
        for piece in pieces if is_raw else harmless(pieces):
            sys.stdout.write(piece)
            sys.stdout.flush()
    except KeyboardInterrupt:
        sys.stdout.write("" if is_raw else RESET)
        raise


def _status_of(job: JobAnswer) -> int:
    """Return the exit status that stands for how a job ended: its own where it has one."""
    print(f"J-{job['number']} {job['state']}. {job['end_detail']}".strip(), file=sys.stderr)
    if job["state"] == "completed":
        return 0
    attempt = job["attempt"]
    if attempt and attempt["exit_signal"]:
        return 128 + attempt["exit_signal"]
    return (attempt and attempt["exit_code"]) or 1


def _card(job: JobAnswer, devices: str) -> str:
    rows = [
        ("job", f"J-{job['number']}  {job['id']}"),
        ("name", job["name"]),
        ("queue", job["queue"]),
        ("owner", job["owner"]),
        ("state", f"{job['phase']} for {since(job['state_changed_at'])}"),
        ("waits", in_words(job["wait_sentence"], devices)),
        (devices, job["num_gpus"]),
        ("starts", in_words(_STARTS[_per(job)], devices)),
        ("not used", f"its {devices} do nothing for {since(job['idle_since'])}" if job["idle_since"] else ""),
        ("step", progress(job)),
        ("loss", _loss(job)),
        ("kept", job["kept"]),
        ("attempt", job["attempt"]["number"] if job["attempt"] else ""),
        ("failed", _failures(job)),
        ("preempted", counted(job["preemptions"], "time") if job["preemptions"] else ""),
        ("ended", " ".join(part for part in (job["end_cause"], job["end_detail"]) if part)),
    ]
    return "\n".join(f"{name:<10}{value}" for name, value in rows if value not in ("", None))


def _loss(job: JobAnswer) -> str:
    """Return what it reported, else what it wrote and where; empty for none."""
    if job["loss"] is not None:
        return f"{job['loss']:.6g}"
    written = job["written_loss"]
    return f"{written['loss']:.6g} ({written['source']})" if written else ""


def _failures(job: JobAnswer) -> str:
    """Return how often it failed, and may; empty where it is not tried again: how it ended says why."""
    is_tried_again = job["failures"] and job["state"] != "failed"
    return f"{job['failures']} of at most {counted(job['max_attempts'], 'time')}" if is_tried_again else ""


def _per(job: JobAnswer) -> str:
    """Return how often its command starts; empty where the spec is of before and does not say it."""
    return str(job["spec"].get("launch", {}).get("per", ""))


def _name(job: JobAhead) -> str:
    return f"J-{job['number']} {job['name']}" if job["number"] else "a job of another queue"
