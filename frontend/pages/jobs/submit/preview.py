"""What would become of a spec that passed the check, and the same request for a shell."""

import json
from dataclasses import dataclass

from django.http import HttpRequest

from frontend.components.devices import DeviceWord, device_word
from frontend.components.formats import clock, counted, data_size, duration, joined, number
from frontend.components.happenings import RULES
from frontend.components.times import as_time_or_none
from frontend.components.viewer import now_utc, viewer_zone
from frontend.pages.jobs.head import place_in_line
from frontend.pages.jobs.submit.reach import reach_rows
from frontend.pages.jobs.submit.spec_yaml import spec_as_yaml
from frontend.pages.jobs.waiting.estimate import time_rows
from scheduler.core.spec.launch import launch_words
from scheduler.core.spec.spec import JobSpec
from scheduler.selectors.cluster.servers import device_kinds
from scheduler.selectors.jobs.reason_rows import JobPreview, PreemptedJob
from scheduler.selectors.queues.isolation import queue_isolation
from scheduler.selectors.rows import Json
from scheduler.services.jobs.check import spec_check
from scheduler.services.retention.policy import SENT_FOLDERS
from scheduler.whatif.one_job.preview import job_preview


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaver:
    """A job that would have to make room; ``href`` is empty where the reader may not see it."""

    name: str
    href: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """The answer to "what would become of it?"; ``rows`` are names and values, ``kept`` says what stays of asking."""

    title: str
    sentence: str
    tone: str
    icon: str
    rows: list[tuple[str, str]]
    leavers: list[Leaver]
    kept: str
    stored_yaml: str


def preview_of(request: HttpRequest, spec: JobSpec) -> Preview:
    """Return what the next round would do with a job, and what would be stored."""
    now = now_utc()
    checked = spec_check(actor=request.user, spec=spec)
    found = job_preview(checked=checked, too_large=[], at=now)
    word = device_word(device_kinds(request.user))
    title, tone, icon = _finding(request, found)
    names = [seat["server"] for seat in found["placement"] or ()]
    return Preview(
        title=title,
        sentence=word.said(found["sentence"]),
        tone=tone,
        icon=icon,
        rows=[
            *_place_rows(found, word),
            _launch_row(spec, word),
            *_array_rows(spec),
            *_when_rows(request, found),
            ("When it has to stop", f"SIG{spec.checkpoint.signal}, then {duration(spec.checkpoint.grace_s)} to save"),
            ("Keeps its work", "not known before it runs"),
            *reach_rows(queue_isolation(checked.queue), names),
        ],
        leavers=[_leaver(row, word) for row in found["preempts"]],
        kept=_kept(spec),
        stored_yaml=spec_as_yaml(spec.to_json()),
    )


def _finding(request: HttpRequest, found: JobPreview) -> tuple[str, str, str]:
    if found["starts"] == "now":
        return "It would start at once", "ok", "check"
    if found["starts"] == "after_others_leave":
        leavers = counted(len(found["preempts"]), "job") if found["preempts"] else "jobs that leave in any case have"
        return f"It would start when {leavers} made room", "warn", "arrow-left-right"
    if found["starts"] == "never":
        return "It would never start", "bad", "x"
    p50_at = as_time_or_none(found["estimate"]["p50_at"]) if found["estimate"] else None
    if p50_at is not None:
        return f"It would start at about {clock(p50_at, now_utc(), viewer_zone(request))}", "info", "hourglass"
    return "It would wait", "info", "hourglass"


def _place_rows(found: JobPreview, word: DeviceWord) -> list[tuple[str, str]]:
    seats = found["placement"]
    rows = []
    if seats:
        rows.append(("Where", joined([f"{seat['server']} ({word.counted(seat['num_gpus'])})" for seat in seats])))
        rows.append(("CPU cores", number(sum(seat["cpus"] for seat in seats), 1).removesuffix(".0")))
        rows.append(("Memory", data_size(sum(seat["memory_bytes"] for seat in seats))))
    if found["largest_gpus"]:
        rows.append(("The most that can start", word.counted(found["largest_gpus"])))
    if found["position"]:
        rows.append(("Place", place_in_line(found["position"], found["waiting_jobs"])))
    return rows


def _launch_row(spec: JobSpec, word: DeviceWord) -> tuple[str, str]:
    """Return how often the command starts."""
    return "Its command starts", word.said(launch_words(spec.starts_per, spec.resources))


def _array_rows(spec: JobSpec) -> list[tuple[str, str]]:
    """Return how many jobs there would be; nothing for one."""
    if spec.array is None:
        return []
    most = spec.array.most_at_work
    at_once = f", {number(most)} at work at once" if most else ""
    return [("Jobs", f"{number(spec.num_jobs)}{at_once}; this is the first")]


def _when_rows(request: HttpRequest, found: JobPreview) -> list[tuple[str, str]]:
    estimate = found["estimate"]
    if not estimate or found["starts"] != "later":
        return []
    if not estimate["known"]:
        return [("When", estimate["sentence"])]
    known_from = ("Known from", counted(estimate["futures"], "simulated future"))
    return [*time_rows(estimate, now_utc(), viewer_zone(request)), known_from]


def _kept(spec: JobSpec) -> str:
    """Return what a dry run leaves on the server: no job, but the folder that was sent or fetched for it."""
    if spec.code is None or not spec.code.manifest:
        return "Nothing is stored yet."
    return f"No job is stored; the folder stays on the server for {counted(SENT_FOLDERS.days, 'day')}."


def _leaver(row: PreemptedJob, word: DeviceWord) -> Leaver:
    href = f"/jobs/J-{row['number']}" if row["number"] else ""
    why = f"{word.counted(row['num_gpus'])} of {row['queue']}: {word.said(RULES.get(row['rule'], row['rule']))}"
    return Leaver(name=row["name"], href=href, why=why)


def curl_of_spec(request: HttpRequest, spec: Json) -> str:
    """Return the submit as one command; JSON keeps line breaks and control characters out of it."""
    body = json.dumps(spec, indent=2)
    return (
        f"curl {request.scheme}://{request.get_host()}/api/v1/jobs \\\n"
        '  -H "Authorization: Bearer $CLUSTERWEB_TOKEN" \\\n'
        '  -H "Content-Type: application/json" \\\n'
        f"  --data-binary @- <<'EOF'\n{body}\nEOF"
    )


def commands_of_job(request: HttpRequest, key: str) -> str:
    """Return what reads and ends a job from a shell."""
    url = f"{request.scheme}://{request.get_host()}/api/v1/jobs/{key}"
    header = '-H "Authorization: Bearer $CLUSTERWEB_TOKEN"'
    verbs = (
        f"clusterweb get {key}",
        f"clusterweb explain {key}",
        f"clusterweb logs -f {key}",
        f"clusterweb cancel {key}",
    )
    return "\n".join((*verbs, f"curl {header} {url}", f"curl {header} {url}/explain"))
