"""What a scenario may ask: a document of plain JSON, checked field by field.

``name``; ``start`` with a ``kind`` (``live``, ``past``, ``trace``, ``generator``) and what the kind needs; two to six
``variants``; ``seeds``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs

from django.contrib.auth.models import User
from django.db.models import Q
from django.utils.dateparse import parse_datetime

from scheduler.choices import build_config
from scheduler.core.model.errors import FieldError, SpecInvalid
from scheduler.core.model.lifecycle import PLANNABLE, JobState
from scheduler.core.model.plan import WaitReason
from scheduler.models import Job, TraceFile
from scheduler.selectors.whatif import trace_files_visible
from scheduler.services.cluster.settings import cluster_row
from scheduler.services.inputs import Problems
from scheduler.simulator.forecasts.run_times import LEAST_ENDED_OF_ALL
from scheduler.simulator.study.variants import ARM_FIELDS
from scheduler.simulator.traces import READERS
from scheduler.simulator.workloads import GENERATORS, PREFIX

VARIANTS = (2, 6)
MOST_SEEDS = 10
MOST_RUNS = 30
MOST_SEED = 2**31
MOST_JOBS = 200_000
MOST_SERVERS = 10_000
LOADS = (0.05, 20.0)
NAME_CHARS = 120
DEFAULT_CLUSTER = {"servers": 16, "gpus": 8, "cpus": 24.0, "memory_gb": 500.0}
DEFAULT_ROUND_S = 300.0
DAY_S = 86_400
OF_CLUSTER = frozenset({"live", "past"})  # kinds of start
MOST_WINDOW_DAYS = 92

Json = dict[str, Any]  # JSON

_START_FIELDS = {
    "live": (),
    "past": ("since", "until"),
    "trace": ("file", "format", "window", "num_jobs", "cluster", "round_s"),
    "generator": ("text", "cluster", "round_s"),
}
_VARIANT_FIELDS = (*ARM_FIELDS, "quotas", "servers", "load")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A checked scenario."""

    name: str
    start: Json
    variants: list[Json]
    seeds: list[int]
    trace_file: TraceFile | None


def scenario_checked(body: Mapping[str, Any], *, actor: User) -> Asked:
    """Return the scenario that ``body`` describes.

    Raises:
        SpecInvalid: One entry per bad field.
    """
    problems = Problems()
    _refuse_unknown(problems, body, ("name", "start", "variants", "seeds"), at="")
    name = body.get("name")
    name = problems.text("name", name if isinstance(name, str) else "", least=1, most=NAME_CHARS)
    start, file = _start(problems, body.get("start"), actor)
    variants = _variants(problems, body.get("variants"), kind=start.get("kind", ""))
    seeds = _seeds(problems, body.get("seeds", [0]))
    if len(variants) * len(seeds) > MOST_RUNS:
        problems.add(
            "seeds", "count", f"{len(variants)} variants with {len(seeds)} seeds are more than {MOST_RUNS} runs."
        )
    problems.refuse()
    return Asked(name=name, start=start, variants=variants, seeds=seeds, trace_file=file)


def refuse_without_history() -> None:
    """Refuse a start from the live cluster where nothing tells how long its jobs take: every run would fail.

    Raises:
        SpecInvalid: Jobs that run or wait do not tell it, and too few have completed.
    """
    problems = Problems()
    under_way = Job.objects.filter(state__in=sorted(PLANNABLE), wanted="run").exclude(wait_reason=WaitReason.BACKOFF)
    silent = under_way.filter(Q(total_steps=None) | Q(total_steps=0) | Q(steps_per_s=None) | Q(steps_per_s=0)).count()
    ended = Job.objects.filter(state=JobState.COMPLETED, executed_s__gt=0)[:LEAST_ENDED_OF_ALL].count()
    if silent and ended < LEAST_ENDED_OF_ALL:
        problems.add(
            "start/kind",
            "no_history",
            f"{silent} of {under_way.count()} jobs that run or wait do not tell yet how long they take, and {ended} "
            f"have completed, where {LEAST_ENDED_OF_ALL} are needed to guess it. Ask again when "
            f"{LEAST_ENDED_OF_ALL - ended} more have completed, or start from a trace or a generator.",
        )
    problems.refuse()


def _refuse_unknown(problems: Problems, found: Mapping[str, Any], known: tuple[str, ...], *, at: str) -> None:
    for key in found:
        if key not in known:
            there_is = f"The fields are {', '.join(known)}." if known else "There are none."
            problems.add(f"{at}{key}", "unknown", f"{key} is no field here. {there_is}")


def _start(problems: Problems, start: object, actor: User) -> tuple[Json, TraceFile | None]:
    if not isinstance(start, Mapping) or start.get("kind") not in _START_FIELDS:
        kinds = ", ".join(_START_FIELDS)
        problems.add("start/kind", "unknown", f"start needs a kind, one of {kinds}.")
        return {}, None
    kind = start["kind"]
    _refuse_unknown(problems, start, ("kind", *_START_FIELDS[kind]), at="start/")
    if kind == "live":
        return {"kind": kind}, None
    if kind == "past":
        return _past(problems, start), None
    made: Json = {"kind": kind, "cluster": _cluster(problems, start.get("cluster"))}
    made["round_s"] = _number(problems, "start/round_s", start.get("round_s", DEFAULT_ROUND_S), 1.0, 86_400.0)
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
    """Return servers that are all alike; None for those of this cluster."""
    if cluster is None:
        return None
    if not isinstance(cluster, Mapping):
        problems.add("start/cluster", "type", "cluster must hold servers, gpus, cpus and memory_gb.")
        return None
    _refuse_unknown(problems, cluster, tuple(DEFAULT_CLUSTER), at="start/cluster/")
    found = {**DEFAULT_CLUSTER, **cluster}
    at = "start/cluster/"
    return {
        "servers": int(_number(problems, f"{at}servers", found["servers"], 1, MOST_SERVERS, whole=True)),
        "gpus": int(_number(problems, f"{at}gpus", found["gpus"], 1, 64, whole=True)),
        "cpus": _number(problems, f"{at}cpus", found["cpus"], 1, 4096),
        "memory_gb": _number(problems, f"{at}memory_gb", found["memory_gb"], 1, 100_000),
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
    searched = [int(options.get(option, ["1"])[0] or 1) for option in ("searches", "configurations")]
    if all(str(count).isdigit() for count in searched) and searched[0] * searched[1] > MOST_JOBS:
        problems.add("start/text", "range", f"All searches together may have at most {MOST_JOBS:,} jobs.")
    return f"{PREFIX}{name}?{rest}" if rest else f"{PREFIX}{name}"


def _file_part(problems: Problems, start: Mapping[str, Any]) -> Json:
    """Return which part of a file is replayed, and how it is read."""
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
        part["num_jobs"] = int(_number(problems, "start/num_jobs", start["num_jobs"], 1, MOST_JOBS, whole=True))
    return part


def _variants(problems: Problems, variants: object, *, kind: str) -> list[Json]:
    low, high = VARIANTS
    if not isinstance(variants, list) or not low <= len(variants) <= high:
        problems.add("variants", "count", f"variants must be a list of {low} to {high}.")
        return []
    made = [_variant(problems, variant, at=f"variants/{index}", kind=kind) for index, variant in enumerate(variants)]
    for index, variant in enumerate(made):
        if variant in made[:index]:
            first = made.index(variant) + 1
            problems.add(f"variants/{index}", "twice", f"Variant {index + 1} is the same as variant {first}.")
    return made


def _variant(problems: Problems, variant: object, *, at: str, kind: str) -> Json:
    if not isinstance(variant, Mapping):
        problems.add(at, "type", "A variant must be a mapping with a policy.")
        return {}
    _refuse_unknown(problems, variant, _VARIANT_FIELDS, at=f"{at}/")
    arm = _arm(problems, variant, at=at, kind=kind)
    made: Json = {**arm}
    servers = variant.get("servers", 0)
    made["servers"] = int(
        _number(problems, f"{at}/servers", servers, -MOST_SERVERS, MOST_SERVERS, whole=True, label="servers more")
    )
    made["load"] = _number(problems, f"{at}/load", variant.get("load", 1.0), *LOADS)
    if kind == "live" and made["load"] != 1.0:
        problems.add(f"{at}/load", "contradiction", "The jobs of the live cluster have arrived: load must be 1.")
    quotas = variant.get("quotas", {})
    if not isinstance(quotas, Mapping) or len(quotas) > 200:
        problems.add(f"{at}/quotas", "type", "quotas must map names of queues to GPUs.")
        quotas = {}
    made["quotas"] = {
        str(name): int(_number(problems, f"{at}/quotas/{name}", gpus, 0, 1_000_000, whole=True, label="quota"))
        for name, gpus in quotas.items()
    }
    return made


def _arm(problems: Problems, variant: Mapping[str, Any], *, at: str, kind: str) -> Json:
    """Return policy, locality, mechanism and introspection with their options.

    What a variant leaves open is as in force where a scenario starts from the cluster, else a plain choice.
    """
    arm: Json = {"policy": "las", "locality": "consolidate", "mechanism": "tune", "introspection": []}
    if kind in OF_CLUSTER:
        arm = settings_in_force()
    given = {name: variant[name] for name in ARM_FIELDS if name in variant}
    arm = {name: value for name, value in arm.items() if name.removesuffix("_options") not in given} | given
    for name in ("policy_options", "locality_options", "mechanism_options", "introspection_options"):
        arm.setdefault(name, {})
    wrong = [name for name in ("policy", "locality", "mechanism") if not isinstance(arm[name], str)]
    wrong += [name for name in arm if name.endswith("_options") and not _is_options(arm[name], deep=name[0] == "i")]
    tries = arm["introspection"]
    if not (isinstance(tries, list) and all(isinstance(name, str) for name in tries)):
        wrong.append("introspection")
    for name in wrong:
        problems.add(f"{at}/{name}", "type", f"{name} has the wrong type.")
    if not wrong:
        try:
            build_config(**arm)
        except SpecInvalid as error:
            problems.errors += [
                FieldError(pointer=f"/{at}{entry.pointer}", code=entry.code, detail=entry.detail)
                for entry in error.errors
            ]
    return arm


def settings_in_force() -> Json:
    """Return how rounds of the cluster decide now, as the part of a variant."""
    cluster = cluster_row()
    return {name: getattr(cluster, name) for name in ARM_FIELDS}


def _is_options(options: object, *, deep: bool) -> bool:
    return isinstance(options, Mapping) and (not deep or all(isinstance(each, Mapping) for each in options.values()))


def _seeds(problems: Problems, seeds: object) -> list[int]:
    if not isinstance(seeds, list) or not 1 <= len(seeds) <= MOST_SEEDS:
        problems.add("seeds", "count", f"seeds must be a list of 1 to {MOST_SEEDS} whole numbers.")
        return []
    found = [
        int(_number(problems, f"seeds/{index}", seed, 0, MOST_SEED, whole=True, label="seed"))
        for index, seed in enumerate(seeds)
    ]
    if len(set(found)) != len(found):
        problems.add("seeds", "twice", "Each seed may stand once.")
    return found


def _number(
    problems: Problems, field: str, value: Any, low: float, high: float, *, whole: bool = False, label: str = ""
) -> float:  # Any: JSON until it is checked
    found = len(problems.errors)
    problems.number(field, value, low=low, high=high, label=label or field.rpartition("/")[2])
    if len(problems.errors) == found and whole and float(value) != int(value):
        problems.add(field, "type", f"{label or field.rpartition('/')[2]} must be a whole number.")
    return float(value) if len(problems.errors) == found else low
