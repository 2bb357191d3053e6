"""Who may call what: every role on every route, and every scope of a token."""

import copy
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import transaction
from django.test import Client, RequestFactory
from django.urls import reverse

from scheduler.api.http.permissions import DenyUnlessAllowed
from scheduler.api.http.view import ApiView
from scheduler.models import QuotaRequest, Server
from scheduler.services.cluster.servers import server_drain
from tests.integration.api.conftest import World, spec
from tests.integration.api.routes import PLAIN, Route, api_patterns, api_routes, call_of
from tests.support.roles.matrix import REST, ROLES
from tests.support.rows.factories import job_make, server_make

ROUTES = api_routes()


@pytest.fixture
def world(kept_world: World, db: None) -> World:
    """The rows; what a test changes is undone after it."""
    return copy.deepcopy(kept_world)


def send(client: Client, world: World, route: Route, role: str, headers: dict[str, str] | None = None) -> Any:
    """Call a route in a way that succeeds for whoever may do it."""
    call = call_of(world, route, role)
    if str(route) == "post-api-server-undrain":
        at = datetime.now(UTC)
        server_drain(actor=world.users["admin"], server=world.server, reason="before", at=at)
    if str(route) == "post-api-quota-requests":
        QuotaRequest.objects.all().delete()  # one open request each
    if str(route) in ("post-api-quota-requests", "post-api-quota-request-change"):
        server_make(gpus=8)  # no more than the cluster has
    if str(route) == "post-api-server-size":
        Server.objects.filter(pk=world.server.pk).update(
            claimed_size={name: value for name, value in call.body.items() if name != "reason"}
        )
    if str(route) == "post-api-job-unblock":
        call.kwargs["job"] = job_make(world.vision, owner=world.users["member"]).pk
    body: dict[str, Any] = {}
    if isinstance(call.body, bytes):
        body = {"data": call.body, "content_type": "application/octet-stream"}
    elif call.body is not None:
        body = {"data": json.dumps(call.body), "content_type": "application/json"}
    return client.generic(
        route.method.upper(),
        reverse(route.name, kwargs=call.kwargs) + call.query,
        headers={**call.headers, **(headers or {})},
        **body,
    )


@pytest.mark.parametrize("route", ROUTES, ids=str)
def test_each_role_is_answered_as_the_matrix_says(world: World, route: Route) -> None:
    """401 before signing in, 403 for too low a role, 404 for what may not be seen; a route without a row fails."""
    assert str(route) in REST, f"{route} has no row in tests/support/roles/matrix.py"

    answers = {}
    for role in ROLES:
        with transaction.atomic():
            answers[role] = send(world.client(role), world, route, role)
            transaction.set_rollback(True)

    assert {role: answer.status_code for role, answer in answers.items()} == dict(
        zip(ROLES, REST[str(route)], strict=True)
    ), {role: getattr(answer, "content", b"")[:300] for role, answer in answers.items()}


@pytest.mark.parametrize("route", ROUTES, ids=str)
def test_token_with_the_scope_passes_and_any_weaker_one_does_not(world: World, route: Route) -> None:
    """A token does what its scopes say, whoever holds it."""
    rule = route.view.rules[route.method.upper()]  # type: ignore[attr-defined]  # every view of ours has rules
    weaker = {"jobs:write": "jobs:read", "queues:admin": "jobs:write", "admin": "queues:admin"}.get(rule.scope)
    passes = REST[str(route)][ROLES.index("admin")]
    client = Client(REMOTE_ADDR="192.0.2.7")  # not this machine, or /metrics is open

    granted = send(client, world, route, "admin", world.bearer("admin", rule.scope or "jobs:read"))
    refused = send(client, world, route, "admin", world.bearer("admin", weaker)) if weaker else None

    assert granted.status_code == passes, granted.content
    if refused is not None:
        assert refused.status_code == 403
        assert refused.json()["type"].endswith("insufficient_scope")
        assert f'scope="{rule.scope}"' in refused.headers["WWW-Authenticate"]


def test_every_route_is_a_view_with_rules_or_on_the_short_list_of_plain_ones() -> None:
    """Nothing answers by accident."""
    plain = {pattern.name for _, pattern in api_patterns() if not hasattr(pattern.callback, "cls")}
    guarded = [pattern.callback.cls for _, pattern in api_patterns() if hasattr(pattern.callback, "cls")]

    assert plain == PLAIN
    assert all(view.permission_classes == [DenyUnlessAllowed] for view in guarded)
    for route in ROUTES:
        assert str(route) in REST, (
            f'add a row with Way("{route}") to tests/support/roles/matrix.py: what each role may '
            "(and to call_of in routes.py what the route needs to be called)"
        )
    assert {str(route) for route in ROUTES} == set(REST), "the matrix names a route that is no more"


def test_method_without_a_rule_is_refused_to_admins_too(world: World) -> None:
    """Deny by default: forgetting the rule closes the door."""

    class Forgotten(ApiView):
        def get(self, request: Any) -> Any:
            raise AssertionError("must not run")

    request = RequestFactory().get("/")
    request.user = world.users["admin"]

    assert Forgotten.as_view()(request).status_code == 403


def test_head_is_ruled_like_get(world: World) -> None:
    """The headers of an answer are no less private than its body."""
    path = f"/api/v1/jobs/{world.job.pk}"

    assert [world.client(role).head(path).status_code for role in ROLES] == [401, 404, 200, 200, 200, 200]


def test_unknown_token_is_401_even_beside_a_session(world: World) -> None:
    """A wrong token is never ignored."""
    answer = world.client("admin").get("/api/v1/me", headers={"Authorization": "Bearer cw_wrong"})

    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")


def test_session_needs_csrf_for_unsafe_methods(world: World) -> None:
    """Another site cannot make a signed-in browser submit jobs."""
    client = Client(enforce_csrf_checks=True)
    client.force_login(world.users["member"])
    body = json.dumps(spec())

    bare = client.post("/api/v1/jobs", body, content_type="application/json")
    form = client.post("/api/v1/jobs", {"spec": body})
    client.cookies["csrftoken"] = "a" * 32
    good = client.post("/api/v1/jobs", body, content_type="application/json", headers={"X-CSRFToken": "a" * 32})
    token = client.post("/api/v1/jobs", body, content_type="application/json", headers=world.bearer("member"))

    assert [bare.status_code, form.status_code, good.status_code, token.status_code] == [403, 403, 201, 201]
    assert bare.json()["detail"].startswith("CSRF")


def test_nothing_about_a_job_reaches_a_stranger(world: World) -> None:
    """Neither lists, counts nor the overview say that another team's job exists."""
    client = world.client("outsider")
    paths = [
        "/api/v1/jobs?count=true",
        "/api/v1/jobs?search=canary",
        "/api/v1/queues",
        "/api/v1/servers",
        "/api/v1/profiles",
        "/api/v1/experiments",
        "/api/v1/rounds",
        "/api/v1/rounds/1",
        "/api/v1/overview",
        "/api/v1/events",
        "/api/v1/me",
    ]

    texts = {path: client.get(path).content.decode() for path in paths}

    for path, text in texts.items():
        assert "canary" not in text, path
        assert "vision" not in text, path
        assert world.job.pk not in text, path
    assert json.loads(texts["/api/v1/jobs?count=true"])["total"] == 0
