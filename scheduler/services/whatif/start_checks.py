"""Checks where a scenario starts from: the live cluster, its past, a trace file, or a generator."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs

from django.contrib.auth.models import User
from django.utils.dateparse import parse_datetime

from scheduler.models import TraceFile
from scheduler.selectors.whatif import trace_files_visible
from scheduler.services.inputs import Problems
from scheduler.services.whatif.fields import Json, checked_number, refuse_unknown
from scheduler.simulator.traces import READERS
from scheduler.simulator.workloads import GENERATORS, PREFIX

MOST_JOBS = 200_000
MOST_SERVERS = 10_000
DEFAULT_CLUSTER = {"servers": 16, "gpus": 8, "cpus": 24.0, "memory_gb": 500.0}
DEFAULT_ROUND_S = 300.0
DAY_S = 86_400
MOST_WINDOW_DAYS = 92

_START_FIELDS = {
    "live": (),
    "past": ("since", "until"),
    "trace": ("file", "format", "window", "num_jobs", "cluster", "drained", "round_s"),
    "generator": ("text", "cluster", "drained", "round_s"),
}


def checked_start(problems: Problems, start: object, actor: User) -> tuple[Json, TraceFile | None]:
    """Return the checked start, and the trace file that it names."""
    if not isinstance(start, Mapping) or start.get("kind") not in _START_FIELDS:
        kinds = ", ".join(_START_FIELDS)
        problems.add("start/kind", "unknown", f"start needs a kind, one of {kinds}.")
        return {}, None
    kind = start["kind"]
    refuse_unknown(problems, start, ("kind", *_START_FIELDS[kind]), at="start/")
    if kind == "live":
        return {"kind": kind}, None
    if kind == "past":
        return _past(problems, start), None
    made: Json = {"kind": kind, "cluster": _cluster(problems, start.get("cluster"))}
    made["round_s"] = checked_number(problems, "start/round_s", start.get("round_s", DEFAULT_ROUND_S), 1.0, 86_400.0)
    drained = start.get("drained", False)
    if not isinstance(drained, bool):
        problems.add("start/drained", "type", "drained must be true or false.")
    elif drained and made["cluster"] is not None:
        problems.add("start/drained", "conflict", "drained counts servers of this cluster; leave cluster out.")
    elif drained:
        made["drained"] = True
    if kind == "generator":
        return made | {"text": _generator(problems, start.get("text"))}, None
    made |= _file_part(problems, start)
    key = start.get("file")
    file = trace_files_visible(actor).filter(pk=key).first() if isinstance(key, str) and len(key) <= 26 else None
    if file is None:
        problems.add("start/file", "unknown", "file must be the id of a trace that you uploaded.")
    return made | {"file": key}, file


def _past(problems: Problems, start: Mapping[str, Any]) -> Json:
    ends: dict[str, datetime] = {}
    for name in ("since", "until"):
        value = start.get(name)
        try:
            at = parse_datetime(value) if isinstance(value, str) else None
        except ValueError:
            at = None
        if at is None:
            problems.add(f"start/{name}", "type", f"{name} must be a time such as 2026-01-31T12:00:00Z.")
        else:
            ends[name] = at if at.tzinfo else at.replace(tzinfo=UTC)
    if len(ends) == 2:
        days = (ends["until"] - ends["since"]).total_seconds() / DAY_S
        if not 0 < days <= MOST_WINDOW_DAYS:
            problems.add("start/until", "range", f"until must come after since, by at most {MOST_WINDOW_DAYS} days.")
    return {"kind": "past", **{name: at.astimezone(UTC).isoformat() for name, at in ends.items()}}


def _cluster(problems: Problems, cluster: object) -> Json | None:
    """Return the checked size of a uniform cluster; None for this cluster's own servers."""
    if cluster is None:
        return None
    if not isinstance(cluster, Mapping):
        problems.add("start/cluster", "type", "cluster must hold servers, gpus, cpus and memory_gb.")
        return None
    refuse_unknown(problems, cluster, tuple(DEFAULT_CLUSTER), at="start/cluster/")
    found = {**DEFAULT_CLUSTER, **cluster}
    at = "start/cluster/"
    return {
        "servers": int(checked_number(problems, f"{at}servers", found["servers"], 1, MOST_SERVERS, whole=True)),
        "gpus": int(checked_number(problems, f"{at}gpus", found["gpus"], 1, 64, whole=True)),
        "cpus": checked_number(problems, f"{at}cpus", found["cpus"], 1, 4096),
        "memory_gb": checked_number(problems, f"{at}memory_gb", found["memory_gb"], 1, 100_000),
    }


def _generator(problems: Problems, text: object) -> str:
    name, _, rest = (text if isinstance(text, str) else "").removeprefix(PREFIX).partition("?")
    if name not in GENERATORS or len(rest) > 300:
        problems.add("start/text", "unknown", f"text must name a generator: {', '.join(GENERATORS)}.")
        return ""
    options = parse_qs(rest)
    for option in ("jobs", "searches", "configurations"):
        count = options.get(option, ["0"])[0]
        if not count.isdigit() or int(count) > MOST_JOBS:
            problems.add("start/text", "range", f"{option} must be a whole number of at most {MOST_JOBS:,}.")
    if "days" in options:
        try:
            days = float(options["days"][0])
        except ValueError:
            days = 0.0
        if not 0 < days <= MOST_WINDOW_DAYS:
            problems.add("start/text", "range", f"days must be a number above 0, at most {MOST_WINDOW_DAYS}.")
        if "jobs" in options:
            problems.add("start/text", "conflict", "Give days or jobs, not both.")
    searched = [int(options.get(option, ["1"])[0] or 1) for option in ("searches", "configurations")]
    if all(str(count).isdigit() for count in searched) and searched[0] * searched[1] > MOST_JOBS:
        problems.add("start/text", "range", f"All searches together may have at most {MOST_JOBS:,} jobs.")
    return f"{PREFIX}{name}?{rest}" if rest else f"{PREFIX}{name}"


def _file_part(problems: Problems, start: Mapping[str, Any]) -> Json:
    """Return the checked format, window and number of jobs of a trace file."""
    part: Json = {}
    if start.get("format"):
        if start["format"] not in READERS:
            problems.add("start/format", "unknown", f"format must be one of {', '.join(READERS)}.")
        part["format"] = start["format"]
    if start.get("window"):
        window = start["window"]
        if not isinstance(window, str) or ":" not in window or len(window) > 80:
            problems.add("start/window", "type", "window must be A:B, each end seconds or a date.")
        part["window"] = window
    if start.get("num_jobs") is not None:
        part["num_jobs"] = int(checked_number(problems, "start/num_jobs", start["num_jobs"], 1, MOST_JOBS, whole=True))
    return part
