"""The commands that read from a shell what a page shows: curl, ``clusterweb`` and Python."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from django.http import HttpRequest

# Name of a page's route: what of the REST API tells the same, and the verb of the command that does, if one does.
_READS: dict[str, tuple[str, str]] = {
    "overview": ("overview", "top"),
    "events": ("events", ""),
    "jobs": ("jobs", "ls"),
    "job": ("jobs/{job}", "get {job}"),
    "array": ("arrays/{array}", "array get {array}"),
    "queues": ("queues", "quota"),
    "queue": ("queues/{name}", "quota {name}"),
    "cluster": ("servers", "top"),
    "server": ("servers/{server_id}", ""),
    "rounds": ("rounds", ""),
    "round": ("rounds/{number}", ""),
    "experiments": ("experiments", ""),
    "experiment": ("experiments/{experiment}", ""),
    "what-if": ("whatif", "whatif ls"),
    "what-if-scenario": ("whatif/{scenario}", "whatif compare {scenario}"),
    "admin": ("settings", ""),
    "admin-shadow": ("shadow", ""),
    "admin-users": ("users", ""),
    "admin-user": ("users/{username}", ""),
    "admin-audit": ("audit", ""),
    "webhooks": ("webhooks", ""),
    "secrets": ("secrets", "secret ls"),
    "queue-secrets": ("queues/{name}/secrets", "secret ls --queue {name}"),
    "me": ("me", ""),
}
_TABS: dict[str, tuple[str, str]] = {
    "why": ("jobs/{job}/explain", "explain {job}"),
    "logs": ("jobs/{job}/logs", "logs {job}"),
    "files": ("jobs/{job}/files", "files ls {job}"),
    "metrics": ("jobs/{job}/series", ""),
    "placement": ("jobs/{job}/placement", ""),
    "events": ("jobs/{job}/events", ""),
    "attempts": ("jobs/{job}/attempts", ""),
}


@dataclass(frozen=True, slots=True)
class FromShell:
    """Three ways to read what a page shows. ``command`` is empty where the command has no verb for it."""

    curl: str
    command: str
    python: str


def from_shell(request: HttpRequest, filters: Mapping[str, str]) -> FromShell | None:
    """Return how to ask for the page of ``request`` from a shell; None where REST does not tell it at one path.

    Args:
        filters: What the page is narrowed to, as REST and the command call it.
    """
    match = request.resolver_match
    if match is None or match.url_name is None:
        return None
    found = _TABS.get(match.kwargs["tab"]) if match.url_name == "job-tab" else _READS.get(match.url_name)
    if found is None:
        return None
    path, verb = (text.format_map({name: str(value) for name, value in match.kwargs.items()}) for text in found)
    options = "".join(
        f" --{name}" if value == "true" else f" --{name} {shlex.quote(value)}" for name, value in filters.items()
    )
    query = f"?{urlencode(filters, safe=',')}" if filters else ""
    url = f"{request.scheme}://{request.get_host()}/api/v1/{path}{query}"
    return FromShell(
        curl=f'curl -H "Authorization: Bearer $CLUSTERWEB_TOKEN" {shlex.quote(url)}',
        command=f"clusterweb {verb}{options}" if verb else "",
        python=(
            "import json, os, urllib.request\n\n"
            f"asked = urllib.request.Request({url!r})\n"
            'asked.add_header("Authorization", "Bearer " + os.environ["CLUSTERWEB_TOKEN"])\n'
            "found = json.load(urllib.request.urlopen(asked))"
        ),
    )
