"""What would be stored for a spec that passed the check, what was checked, and the same request for a shell."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest

from frontend.components.devices import device_word
from frontend.components.formats import data_size, duration, number
from frontend.pages.jobs.spec_yaml import spec_as_yaml
from scheduler.core.spec import JobSpec
from scheduler.selectors.overview import cluster_now, queue_shares


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was checked. ``ok`` None is a fact, neither good nor bad."""

    name: str
    text: str
    ok: bool | None = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """The answer to "would this be taken?"."""

    checks: list[Check]
    stored_yaml: str


def preview_of(request: HttpRequest, spec: JobSpec) -> Preview:
    """Return what would be stored and what the cluster says to it now."""
    cluster = cluster_now()
    word = device_word(server["device_kind"] for server in cluster["servers"])
    share = next((row for row in queue_shares(request.user) if row["name"] == spec.queue), None)
    largest = max((_healthy(server) for server in cluster["servers"]), default=0)
    asked = spec.resources
    checks = [
        Check(name="Spec", text="every field is in its range"),
        Check(name="Queue", text=f"you may submit to {spec.queue}"),
        Check(
            name="Largest server",
            text=f"{word.counted(largest)}, asks for {number(asked.gpus)}" if largest else "no server has reported yet",
            ok=True if largest else None,
        ),
    ]
    if share is not None:
        text = f"holds {number(share['held_gpus'])} of {word.counted(share['quota_gpus'] or 0)}"
        within = share["held_gpus"] + asked.gpus <= (share["quota_gpus"] or 0)
        checks.append(Check(name=f"Quota of {spec.queue}", text=text, ok=True if within else None))
    fits = cluster["free_gpus"] >= asked.gpus
    text = f"{word.counted(cluster['free_gpus'])}, {number(cluster['waiting_jobs'])} waiting"
    checks.append(Check(name="Free now", text=text, ok=True if fits else None))
    memory = "as much as it can use" if asked.memory_bytes is None else data_size(asked.memory_bytes)
    checks.append(Check(name="Memory", text=memory))
    checks.append(Check(name="Time to checkpoint", text=duration(spec.checkpoint.grace_s)))
    return Preview(checks=checks, stored_yaml=spec_as_yaml(spec.to_json()))


def _healthy(server: Mapping[str, Any]) -> int:  # a row of the cluster frame
    return sum(1 for gpu in server["gpus"] if gpu["healthy"])


def curl_of_spec(request: HttpRequest, spec: Mapping[str, Any]) -> str:
    """Return the submit as one command; JSON keeps line breaks and control characters out of it."""
    body = json.dumps(spec, indent=2)
    return (
        f"curl {request.scheme}://{request.get_host()}/api/v1/jobs \\\n"
        '  -H "Authorization: Bearer $CLUSTERWEB_TOKEN" \\\n'
        '  -H "Content-Type: application/json" \\\n'
        f"  --data-binary @- <<'EOF'\n{body}\nEOF"
    )
