"""Every route of the API with what it needs to be called: found by walking the URL conf, never by a list of our own."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver
from rest_framework.views import APIView

from tests.integration.api.conftest import World, spec

# Plain functions among the routes: they hold no rule because they tell nothing.
PLAIN = {"healthz", "readyz", "version", "api-no-such-path", "api-no-such-version"}
METHODS = ("get", "post", "put", "patch", "delete")


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One method of one route."""

    name: str
    method: str
    view: type[APIView]

    def __str__(self) -> str:
        return f"{self.method}-{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """How a test calls a route."""

    kwargs: dict[str, Any] = field(default_factory=dict)
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


def patterns(found: list[URLPattern | URLResolver]) -> Iterator[URLPattern]:
    """Yield every route below."""
    for item in found:
        if isinstance(item, URLResolver):
            yield from patterns(item.url_patterns)
        else:
            yield item


def api_patterns() -> list[URLPattern]:
    """Return the routes that are defined in ``scheduler.api``."""
    return [p for p in patterns(get_resolver().url_patterns) if p.callback.__module__.startswith("scheduler.api")]


def api_routes() -> list[Route]:
    """Return every method of every view of the API."""
    found = []
    for pattern in api_patterns():
        view = getattr(pattern.callback, "cls", None)
        if view is not None:
            found += [
                Route(name=pattern.name or "", method=method, view=view)
                for method in METHODS
                if hasattr(view, method) and method in view.http_method_names
            ]
    return found


def call_of(world: World, route: Route, role: str) -> Call:
    """Return a call that succeeds for whoever may do it."""
    needs: dict[str, dict[str, Any]] = {
        "api-job": {"job": world.job.pk},
        "api-queue": {"name": "vision"},
        "api-members": {"name": "vision"},
        "api-member": {"name": "vision", "username": "vic"},
        "api-server": {"server": world.server.pk},
        "api-round": {"number": 1},
        "api-token": {"token": world.tokens[role].pk if role in world.tokens else 1},
    }
    kwargs = next((value for name, value in needs.items() if route.name == name), None)
    if kwargs is None:
        kwargs = next((v for name, v in needs.items() if route.name.startswith(f"{name}-")), {})
    bodies: dict[str, Any] = {
        "post-api-jobs": spec(),
        "post-api-queues": {"name": "org/new", "parent": "org", "quota_gpus": 1},
        "patch-api-queue": {"quota_gpus": 5, "reason": "more work"},
        "put-api-member": {"role": "viewer"},
        "post-api-server-drain": {"reason": "new fans"},
        "patch-api-settings": {"paused": True},
        "post-api-tokens": {"name": "mine", "scopes": ["jobs:read"]},
    }
    headers = {"If-Match": "*"} if route.method == "patch" else {}
    return Call(kwargs=kwargs, body=bodies.get(str(route)), headers=headers)
