"""Reads the starting point of a scenario once, so that all its runs start from the same servers, queues and jobs.

A generator or a trace file is only named here; its jobs are read in the processes of the runs, which have limits.
"""

import gzip
import json
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from django.conf import settings

from scheduler.live.rounds.snapshot import servers_read
from scheduler.models import Scenario
from scheduler.selectors.cluster.capacity import capacity_words
from scheduler.selectors.rows import Json
from scheduler.selectors.whatif import trace_file_path
from scheduler.simulator.errors import BadInput
from scheduler.simulator.study.cluster import GB, Cluster, ServerGroup, server_table
from scheduler.simulator.study.starting_points import columns_to_json, servers_from
from scheduler.simulator.study.variants import servers_with, variant_from
from scheduler.whatif.scenarios.live_base import live_base, servers_json
from scheduler.whatif.scenarios.past_base import past_base


@dataclass(frozen=True, slots=True, kw_only=True)
class StartingPoint:
    """A starting point.

    Attributes:
        content: What every run reads.
        about: What pages show of it: text, warnings, and for a past window what happened.
    """

    content: Json
    about: Json = field(default_factory=dict)


def base_read(scenario: Scenario, *, at: datetime) -> StartingPoint:
    """Return where ``scenario`` starts.

    Raises:
        BadInput: With a sentence for its owner.
    """
    start = scenario.start
    if start["kind"] == "live":
        content, text = live_base(at=at, for_queue=scenario.for_queue)
        return _base(scenario, content, {"text": text})
    if start["kind"] == "past":
        since, until = (datetime.fromisoformat(start[name]) for name in ("since", "until"))
        past = past_base(since=since, until=until, at=at)
        about = {"text": past.text, "happened": past.happened, "held": past.held, "warnings": past.warnings}
        return _base(scenario, past.content, about)
    servers = _servers(start)
    content = {"servers": servers, "queues": None, "round_s": start["round_s"]}
    if scenario.trace_file is None:
        content["source"] = {"kind": "generator", "text": start["text"]}
        text = ""
    else:
        part = {name: start[name] for name in ("format", "window", "num_jobs") if name in start}
        content["source"] = {"kind": "file", "path": str(trace_path(scenario)), **part}
        text = f"{scenario.trace_file.name} "
    num_servers, num_gpus = len(servers["num_gpus"]), sum(servers["num_gpus"])
    gpus = f"{num_gpus:,} GPU{'s' if num_gpus != 1 else ''}"
    if start.get("cluster") is None:
        gpus = capacity_words(drained=start.get("drained", False))
    text += f"on {num_servers:,} server{'s' if num_servers != 1 else ''}, {gpus}"
    return _base(scenario, content, {"text": text})


def _base(scenario: Scenario, content: Json, about: Json) -> StartingPoint:
    return StartingPoint(content={**content, "least_gpus": _least_gpus(scenario, content["servers"])}, about=about)


def _servers(start: Json) -> Json:
    cluster = start.get("cluster")
    if cluster is None:
        table, _ = servers_read(drained=start.get("drained", False))
        if not len(table):
            raise BadInput("No server of this cluster is up. Say how many servers it should have.")
        return servers_json(table)
    group = ServerGroup(
        count=cluster["servers"],
        gpus=cluster["gpus"],
        cpus=cluster["cpus"],
        memory_bytes=cluster["memory_gb"] * GB,
    )
    return columns_to_json(server_table(Cluster(groups=(group,))))


def _least_gpus(scenario: Scenario, servers: Json) -> int:
    """Return the GPUs of the smallest cluster among the variants."""
    table = servers_from(servers)
    return min(int(servers_with(table, variant_from(variant).servers).num_gpus.sum()) for variant in scenario.variants)


def trace_path(scenario: Scenario) -> Path:
    """Return the file in which the runs find the uploaded trace.

    Raises:
        BadInput: It is not there: the folder was emptied, or is not shared with this worker.
    """
    assert scenario.trace_file is not None
    path = trace_file_path(scenario.trace_file)
    if not path.exists():
        raise BadInput(
            f"{scenario.trace_file.name} is not in {path.parent} on the simulations worker. Upload it again."
        )
    return path


def folder() -> Path:
    """Return where workers keep copies of what the database holds; it may be emptied at any time."""
    return Path(settings.VAR_DIR) / "what-if"


def packed(content: Json) -> bytes:
    """Return a starting point as the database keeps it."""
    return gzip.compress(json.dumps(content, allow_nan=False).encode(), mtime=0)


def unpacked(blob: bytes) -> bytes:
    """Return a starting point as a run reads it."""
    return gzip.decompress(blob)
