"""Every route of the API with what it needs to be called: found by walking the URL conf, never by a list of our own."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver
from rest_framework.views import APIView

from tests.integration.api.conftest import World, spec
from tests.support.rows.code import ARCHIVE, BLOBS, MANIFEST, offered
from tests.support.rows.experiments import experiment_body
from tests.support.rows.files import file_write
from tests.support.rows.scenarios import TRACE, scenario_body

# Plain functions among the routes: they hold no rule because they tell nothing.
PLAIN = {"healthz", "readyz", "version", "api-no-such-path", "api-no-such-version"}
# Of the files in a job's directory; those that answer with bytes, not with JSON.
BYTES = {"api-job-file", "api-job-archive"}
JOB_FILES = {"api-job-files", *BYTES}
WHY = {"reason": "to compare"}
METHODS = ("get", "post", "put", "patch", "delete")


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One method of one route."""

    name: str
    method: str
    view: type[APIView]
    path: str
    arguments: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.method}-{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """How a test calls a route."""

    kwargs: dict[str, Any] = field(default_factory=dict)
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    query: str = ""


def _walk(found: list[URLPattern | URLResolver], prefix: str) -> Iterator[tuple[str, URLPattern]]:
    for item in found:
        path = f"{prefix}{item.pattern}"
        if isinstance(item, URLResolver):
            yield from _walk(item.url_patterns, path)
        else:
            yield re.sub(r"<\w+:(\w+)>", r"{\1}", path), item


def api_patterns() -> list[tuple[str, URLPattern]]:
    """Return the routes that are defined in ``scheduler.api``, each with its path as OpenAPI writes it."""
    found = _walk(get_resolver().url_patterns, "/")
    return [(path, pattern) for path, pattern in found if pattern.callback.__module__.startswith("scheduler.api")]


def api_routes() -> list[Route]:
    """Return every method of every view of the API."""
    found = []
    for path, pattern in api_patterns():
        view = getattr(pattern.callback, "cls", None)
        if view is not None:
            found += [
                Route(
                    name=pattern.name or "",
                    method=method,
                    view=view,
                    path=path,
                    arguments=tuple(pattern.pattern.converters),
                )
                for method in METHODS
                if hasattr(view, method) and method in view.http_method_names
            ]
    return found


def call_of(world: World, route: Route, role: str) -> Call:
    """Return a call that succeeds for whoever may do it."""
    values: dict[str, Any] = {
        "job": world.job.pk,
        "name": "vision",
        "username": "vic",
        "server": world.server.pk,
        "fingerprint": "auto-canary",
        "number": 1,
        "experiment": world.experiment.pk,
        "array": f"A-{world.job.number}",
        "token": world.tokens[role].pk if role in world.tokens else 1,
        "scenario": (world.asking if route.name == "api-scenario-cancel" else world.asked).pk,
        "variant": 0,
        "template": world.template.pk,
        "seed": 1,
        "file": world.trace_file.pk,
        "manifest": f"sha256:{offered(world.actor(role))}" if route.name == "api-code-blobs" else "",
        "webhook": world.webhook.pk,
        "secret": "wandb",
        "asked": world.quota_request.pk,
        "path": "out/canary.txt",
    }
    if route.name in JOB_FILES:
        file_write(world.job, values["path"], b"canary")
    bodies: dict[str, Any] = {
        "post-api-jobs": spec(),
        "post-api-jobs-bulk": {"jobs": [spec(), spec()]},
        "post-api-code": MANIFEST,
        "post-api-code-archive": ARCHIVE,
        "post-api-code-blobs": BLOBS,
        "post-api-job-import": {"text": "#!/bin/bash\n#SBATCH --gres=gpu:1\n", "queue": "vision"},
        "post-api-job-actions": {"action": "suspend", "jobs": [world.job.pk]},
        "post-api-job-reprioritise": {"priority": 80},
        "post-api-job-unblock": {"gpus": 2},
        "post-api-job-keep": {"days": 30},
        "post-api-experiments": experiment_body(),
        "post-api-templates": {"queue": "vision", "name": "quick", "spec": {"resources": {"gpus": 1}}},
        "post-api-queues": {"name": "org/new", "parent": "org", "quota_gpus": 1},
        "patch-api-queue": {"quota_gpus": 5, "reason": "more work"},
        "post-api-queue-forecast": {"quota_gpus": 3},
        "post-api-quota-requests": {"queue": "vision", "quota_gpus": 6, "reason": "deadline"},
        "post-api-quota-request-change": {"quota_gpus": 7},
        "post-api-quota-request-grant": {},
        "post-api-quota-request-refuse": {"reason": "none left"},
        "patch-api-queue-limits": {"user_max_gpus": 2, "reason": "deadline"},
        "patch-api-queue-idle": {"idle_after_s": 7200, "idle_action": "suspend", "reason": "others wait"},
        "patch-api-queue-files": {"keep_directories_days": 14, "reason": "disk is full"},
        "patch-api-queue-isolation": {"isolation": "user", "reason": "patients"},
        "put-api-prices": {"gpu_price": 1.5, "currency": "EUR", "reason": "new contract"},
        "put-api-queue-budget": {"amount": 5000, "reason": "grant"},
        "put-api-member": {"role": "viewer"},
        "put-api-secret": {"value": "another-0123456789"},
        "put-api-queue-secret": {"value": "another-0123456789"},
        "post-api-server-drain": {"reason": "new fans"},
        "put-api-server": {"labels": ["new fans"], "reason": "repaired"},
        "post-api-server-remove": {"reason": "sold"},
        "post-api-server-size": {"num_cpus": 8, "memory_bytes": 2**34, "num_gpus": 4, "gpu_memory_bytes": 0} | WHY,
        "post-api-server-mix": {"allowed": False} | WHY,
        "post-api-server-undrain": WHY,
        "patch-api-settings": {"paused": True} | WHY,
        "post-api-tokens": {"name": "mine", "scopes": ["jobs:read"]},
        "post-api-scenarios": scenario_body(),
        "post-api-trace-files": TRACE,
        "patch-api-shadow": {"policy": "srtf"} | WHY,
        "post-api-users": {"username": "new"},
        "patch-api-user": {"is_active": False},
        "post-api-webhooks": {
            "name": "chat",
            "url": "https://chat.example/x",
            "notices": ["job.failed"],
            "queue": "vision",
        },
    }
    if route.name in {"api-user-tokens", "api-user-token"}:
        values |= {"username": "ada", "token": world.tokens["admin"].pk}
    headers = {"If-Match": "*"} if route.method == "patch" else {}
    return Call(
        kwargs={name: values[name] for name in route.arguments},
        body=bodies.get(str(route)),
        headers=headers,
        query="?reason=seen+enough" if str(route) == "delete-api-shadow" else "",
    )
