"""Tasks of SkyPilot and dstack, as parsed YAML: their shell lines become a file that bash runs."""

import re
from collections.abc import Mapping
from typing import TypeGuard

from scheduler.core.spec.foreign.script_lines import OF_DSTACK, OF_SKYPILOT, script_told
from scheduler.core.spec.foreign.translation import Fields, Translation, fields_of, plain_name
from scheduler.core.spec.launch import LaunchPer

SCRIPT = "run.sh"
_IMAGE = "Jobs run on the server; install what they need there."
_WHERE = "Servers are chosen by the scheduler; a queue has a quota, not a set of servers."
_DATA = "Mount data on the servers; a job sees the paths of its server."
_PORTS = "A job has no address for others."
_SPOT = "Jobs may be preempted unless schedule.preemptible says no, and go on from their checkpoint."
_SKYPILOT_ELSEWHERE = {
    "workdir": "A job runs in a directory of its own; add the files that it needs to the form, or use absolute paths.",
    "file_mounts": _DATA,
    "secrets": "Values of secrets are not taken over; set them under env.",
    "service": "Services are not run here, only jobs that end.",
    "config": "There is nothing of the kind here.",
    "volumes": _DATA,
    "event_callback": "Set notifications on your own page.",
}
_SKYPILOT_RESOURCES = {
    "image_id": _IMAGE,
    "ports": _PORTS,
    "use_spot": _SPOT,
    "job_recovery": "Failures are sorted by their cause; set retry.max.",
    **dict.fromkeys(("cloud", "infra", "region", "zone", "instance_type", "any_of", "ordered", "network_tier"), _WHERE),
}
_DSTACK_ELSEWHERE = {
    "image": _IMAGE,
    "python": _IMAGE,
    "docker": _IMAGE,
    "working_dir": _SKYPILOT_ELSEWHERE["workdir"],
    "volumes": _DATA,
    "files": _SKYPILOT_ELSEWHERE["workdir"],
    "repos": _SKYPILOT_ELSEWHERE["workdir"],
    "ports": _PORTS,
    "spot_policy": _SPOT,
    "idle_duration": "Servers stay; a queue says how long a job may hold GPUs without using them.",
    "utilization_policy": "A queue says how long a job may hold GPUs without using them.",
    "schedule": "Jobs begin when there is room for them; submit it when it is to run.",
    **dict.fromkeys(("backends", "regions", "instance_types", "fleets", "availability_zones", "max_price"), _WHERE),
}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([KMGT])i?B?", re.IGNORECASE)


def is_skypilot(data: object) -> TypeGuard[Fields]:
    """Return whether parsed YAML is a task of SkyPilot: its shell lines stand under ``run``."""
    return isinstance(data, Mapping) and isinstance(data.get("run"), str)


def is_dstack(data: object) -> TypeGuard[Fields]:
    """Return whether parsed YAML is a task of dstack: it says its type and lists its shell lines."""
    return isinstance(data, Mapping) and data.get("type") == "task" and isinstance(data.get("commands"), list)


def from_skypilot(data: Fields, *, queue: str) -> Translation:
    """Return the spec that does what the task asks for."""
    lines = [str(data.get("setup") or "").rstrip(), str(data["run"]).rstrip()]
    made = _begun(data, queue, otherwise="sky-task")
    asked = fields_of(data, "resources")
    nodes = _nodes(made, data, "num_nodes")
    _script(made, [line for line in lines if line], nodes=nodes, names=OF_SKYPILOT)
    gpus = _accelerators(made, asked.get("accelerators"))
    _ask(made, gpus * nodes, cpus=_least(asked.get("cpus")), memory=_least(asked.get("memory")), nodes=nodes)
    if disk := _least(asked.get("disk_size")):
        made.put("resources", "disk", f"{disk}GiB")
    _env(made, data.get("envs"))
    _skip(made, data, _SKYPILOT_ELSEWHERE)
    _skip(made, asked, _SKYPILOT_RESOURCES)
    return made


def from_dstack(data: Fields, *, queue: str) -> Translation:
    """Return the spec that does what the task asks for."""
    made = _begun(data, queue, otherwise="dstack-task")
    asked = fields_of(data, "resources")
    nodes = _nodes(made, data, "nodes")
    _script(made, [str(line) for line in data["commands"]], nodes=nodes, names=OF_DSTACK)
    gpus = _gpu(made, asked.get("gpu"))
    _ask(made, gpus * nodes, cpus=_least(asked.get("cpu")), memory=_size(asked.get("memory")), nodes=nodes)
    for name in asked:
        if name not in ("gpu", "cpu", "memory", "disk"):
            made.skip(f"resources: {name}", f"There is no resource {name} here.")
    if disk := _size(asked["disk"].get("size") if isinstance(asked.get("disk"), Mapping) else asked.get("disk")):
        made.put("resources", "disk", f"{disk}GiB")
    _env(made, data.get("env"))
    longest = data.get("max_duration")
    if isinstance(longest, str) and re.fullmatch(r"[0-9]+[smh]", longest):
        made.put("schedule", "max_duration", longest)
    elif isinstance(longest, int) and not isinstance(longest, bool):
        made.put("schedule", "max_duration", f"{longest}s")
    elif longest not in (None, "off", False):
        made.skip(f"max_duration: {longest}", "Write it in seconds, minutes or hours, such as 48h.")
    if isinstance(data.get("priority"), int):
        made.put("schedule", "priority", data["priority"])
    if data.get("retry") in (False, None):
        made.put("retry", "max", 0)
    elif data["retry"] is not True:
        made.skip("retry", "Failures are sorted by their cause; set retry.max.")
    _skip(made, data, _DSTACK_ELSEWHERE)
    return made


def _begun(data: Fields, queue: str, *, otherwise: str) -> Translation:
    made = Translation()
    name = plain_name(str(data.get("name") or ""), otherwise=otherwise)
    made.spec |= {"name": name, "queue": queue, "command": ["bash", SCRIPT]}
    return made


def _script(made: Translation, lines: list[str], *, nodes: int, names: Mapping[str, str]) -> None:
    """Put the lines into a file; they are started on each server, as there."""
    script = "\n".join(["#!/bin/bash", "set -e", *lines, ""])
    per = LaunchPer.SERVER if nodes > 1 else LaunchPer.JOB
    told = script_told(made, script, per=per, names=names if nodes > 1 else {})
    made.spec["files"] = {SCRIPT: told}
    made.put("launch", "per", per.value)


def _skip(made: Translation, data: Fields, elsewhere: Fields) -> None:
    for name, why in elsewhere.items():
        if name in data:
            made.skip(name, why)


def _nodes(made: Translation, data: Fields, name: str) -> int:
    nodes = data.get(name) or 1
    if not isinstance(nodes, int) or nodes < 1:
        made.skip(f"{name}: {nodes}", "It is no number of servers.")
        return 1
    if nodes > 1:
        made.put("resources", "max_servers", nodes)
        why = f"At most {nodes} servers: fewer where its GPUs fit on fewer. NNODES says how many."
        made.skip(f"{name}: {nodes}", why)
    return nodes


def _accelerators(made: Translation, asked: object) -> int:
    """Return GPUs a server out of ``A100:8``, ``{A100: 8}`` or a list of such, of which the first counts."""
    if isinstance(asked, list | Mapping) and len(asked) > 1:
        made.skip(f"accelerators: {len(asked)} kinds", "Servers are not chosen by the kind of their GPUs.")
    if isinstance(asked, list):
        asked = asked[0] if asked else None
    if isinstance(asked, Mapping):
        asked = next((f"{kind}:{count}" for kind, count in asked.items()), None)
    if asked is None:
        return 0
    kind, _, count = str(asked).partition(":")
    made.skip(f"accelerators: {kind}", "Servers are not chosen by the kind of their GPUs.")
    return int(count) if count.isdigit() else 1


def _gpu(made: Translation, asked: object) -> int:
    """Return GPUs a server out of ``8``, ``H100:8``, ``H100:80GB:8``, ``24GB`` or ``{name, memory, count}``."""
    if asked is None:
        return 0
    if isinstance(asked, Mapping):
        for name in asked:
            if name != "count":
                made.skip(f"gpu: {name}: {asked[name]}", "Servers are not chosen by the kind of their GPUs.")
        return int(_least(asked.get("count")) or 1)
    parts = str(asked).split(":")
    for part in parts:
        if not _least(part) or _size(part):
            made.skip(f"gpu: {part}", "Servers are not chosen by the kind of their GPUs.")
    counts = [part for part in parts if _least(part) and not _size(part)]
    return int(_least(counts[-1]) or 1) if counts else 1


def _least(asked: object) -> int | None:
    """Return the lower end of ``4``, ``4+`` or ``4..8``; None for anything else."""
    found = re.fullmatch(r"([0-9]+)(?:\.0+)?(?:\+|\.\.[0-9]*)?", str(asked)) if asked is not None else None
    return int(found[1]) if found else None


def _size(asked: object) -> int | None:
    """Return the lower end of ``16GB``, ``16GB..`` or ``16GB..32GB`` in GiB; None for anything else."""
    found = _SIZE.match(str(asked)) if asked is not None else None
    if found is None:
        return None
    return max(1, round(float(found[1]) * {"K": 1e-6, "M": 1e-3, "G": 1.0, "T": 1e3}[found[2].upper()]))


def _ask(made: Translation, gpus: int, *, cpus: int | None, memory: int | None, nodes: int) -> None:
    """Ask for a whole gang; cores and memory are those of each server."""
    made.put_gpus(gpus)
    if cpus:
        made.put("resources", "cpus", cpus * nodes)
    if memory:
        made.put("resources", "memory", f"{memory * nodes}GiB")


def _env(made: Translation, asked: object) -> None:
    """Take variables over out of a mapping or a list of ``NAME=value``."""
    entries: list[tuple[object, object]] = []
    if isinstance(asked, Mapping):
        entries = list(asked.items())
    elif isinstance(asked, list):
        entries = [str(entry).partition("=")[::2] for entry in asked]
    for name, value in entries:
        if value in (None, ""):
            made.skip(f"env: {name}", "It has no value; set one.")
        else:
            made.put("env", str(name), str(value))
