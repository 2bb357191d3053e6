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
from scheduler.services.cluster.servers import server_drain
from tests.integration.api.conftest import ROLES, World, spec
from tests.integration.api.routes import PLAIN, Route, api_patterns, api_routes, call_of
from tests.support.rows.factories import job_make

# What each role is answered, in the order of ROLES: anonymous, outsider, viewer, member, lead, admin.
EVERYBODY = (200, 200, 200, 200, 200, 200)
SIGNED_IN = (401, 200, 200, 200, 200, 200)
IN_QUEUE = (401, 404, 200, 200, 200, 200)  # what one may not see is not found
ACTS_ON_JOB = (401, 404, 403, 200, 200, 200)  # the job is the member's
LEADS = (401, 404, 403, 403, 200, 200)
ADMINS = (401, 403, 403, 403, 403, 200)
ASKERS = (401, 403, 403, 403, 200, 200)  # who may ask what-if questions
OWN_QUESTION = (401, 404, 404, 404, 200, 200)  # the scenario is the lead's

EXPECTED: dict[str, tuple[int, ...]] = {
    "get-metrics": EVERYBODY,  # the test client calls from this machine
    "get-api-jobs": SIGNED_IN,
    "post-api-jobs": (401, 400, 403, 201, 201, 201),  # a queue that one may not see is an unknown queue
    "post-api-job-import": SIGNED_IN,
    "post-api-job-actions": SIGNED_IN,  # each job is answered for itself
    "get-api-job": IN_QUEUE,
    "post-api-job-cancel": ACTS_ON_JOB,
    "post-api-job-suspend": ACTS_ON_JOB,
    "post-api-job-resume": ACTS_ON_JOB,
    "post-api-job-restore": (401, 404, 403, 409, 409, 409),  # it was not cancelled
    "post-api-job-reprioritise": ACTS_ON_JOB,
    "post-api-job-unblock": (401, 404, 403, 200, 200, 200),
    "get-api-job-events": IN_QUEUE,
    "get-api-job-attempts": IN_QUEUE,
    "get-api-job-explain": IN_QUEUE,
    "get-api-job-series": IN_QUEUE,
    "get-api-job-placement": IN_QUEUE,
    "get-api-job-bad-items": IN_QUEUE,
    "get-api-job-logs": IN_QUEUE,
    "get-api-job-log-stream": IN_QUEUE,
    "get-api-queues": SIGNED_IN,
    "post-api-queues": (401, 403, 403, 403, 403, 201),
    "get-api-queue": IN_QUEUE,
    "patch-api-queue": (401, 404, 403, 403, 403, 200),  # the lead leads vision itself, not the queue above it
    "post-api-queue-forecast": LEADS,
    "patch-api-queue-limits": LEADS,
    "patch-api-queue-idle": LEADS,
    "get-api-queue-usage": IN_QUEUE,
    "get-api-queue-loans": IN_QUEUE,
    "get-api-members": IN_QUEUE,
    "put-api-member": LEADS,
    "delete-api-member": (401, 404, 403, 403, 204, 204),
    "get-api-servers": SIGNED_IN,
    "get-api-server": SIGNED_IN,
    "post-api-server-drain": ADMINS,
    "post-api-server-undrain": ADMINS,
    "get-api-profiles": SIGNED_IN,
    "get-api-profile": IN_QUEUE,
    "post-api-profile-measure": ADMINS,
    "get-api-experiments": SIGNED_IN,
    "post-api-experiments": (401, 400, 403, 201, 201, 201),
    "get-api-experiment": IN_QUEUE,
    "post-api-experiment-cancel": ACTS_ON_JOB,
    "get-api-templates": SIGNED_IN,
    "post-api-templates": (401, 404, 403, 201, 201, 201),
    "delete-api-template": (401, 404, 403, 204, 204, 204),
    "get-api-rounds": SIGNED_IN,
    "get-api-round": SIGNED_IN,
    "get-api-policies": SIGNED_IN,
    "get-api-settings": SIGNED_IN,
    "patch-api-settings": ADMINS,
    "get-api-tokens": SIGNED_IN,
    "post-api-tokens": (401, 201, 201, 201, 201, 201),
    "delete-api-token": (401, 204, 204, 204, 204, 204),
    "get-api-gpu-hours": SIGNED_IN,
    "get-api-shadow": ADMINS,
    "patch-api-shadow": ADMINS,
    "delete-api-shadow": (401, 403, 403, 403, 403, 204),
    "get-api-shadow-rounds": ADMINS,
    "get-api-audit": ADMINS,
    "get-api-users": ADMINS,
    "post-api-users": (401, 403, 403, 403, 403, 201),
    "get-api-user": ADMINS,
    "patch-api-user": ADMINS,
    "get-api-user-tokens": ADMINS,
    "delete-api-user-token": (401, 403, 403, 403, 403, 204),
    "get-api-webhooks": SIGNED_IN,
    "post-api-webhooks": (401, 400, 403, 403, 201, 201),
    "get-api-webhook": OWN_QUESTION,  # of vision, for its lead alone
    "delete-api-webhook": (401, 404, 404, 404, 204, 204),
    "post-api-webhook-test": (401, 404, 404, 404, 202, 202),
    "post-api-webhook-secret": OWN_QUESTION,
    "get-api-webhook-deliveries": OWN_QUESTION,
    "get-api-scenarios": ASKERS,
    "post-api-scenarios": (401, 403, 403, 403, 202, 202),
    "get-api-scenario": OWN_QUESTION,
    "delete-api-scenario": (401, 404, 404, 404, 204, 204),
    "post-api-scenario-cancel": OWN_QUESTION,
    "get-api-scenario-run": OWN_QUESTION,
    "get-api-trace-files": ASKERS,
    "post-api-trace-files": (401, 403, 403, 403, 201, 201),
    "delete-api-trace-file": (401, 404, 404, 404, 204, 204),
    "get-api-overview": SIGNED_IN,
    "get-api-events": SIGNED_IN,
    "get-api-me": SIGNED_IN,
    "get-api-job-spec-schema": EVERYBODY,
    "get-api-schema": EVERYBODY,
    "get-api-docs": EVERYBODY,
}
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
    if str(route) == "post-api-job-unblock":
        call.kwargs["job"] = job_make(world.vision, owner=world.users["member"]).pk
    body: dict[str, Any] = {}
    if isinstance(call.body, bytes):
        body = {"data": call.body, "content_type": "application/octet-stream"}
    elif call.body is not None:
        body = {"data": json.dumps(call.body), "content_type": "application/json"}
    return client.generic(
        route.method.upper(),
        reverse(route.name, kwargs=call.kwargs),
        headers={**call.headers, **(headers or {})},
        **body,
    )


@pytest.mark.parametrize("route", ROUTES, ids=str)
def test_each_role_is_answered_as_the_matrix_says(world: World, route: Route) -> None:
    """401 for nobody, 403 for too low a role, 404 for what may not be seen; a route without a line here fails."""
    assert str(route) in EXPECTED, f"{route} has no line in EXPECTED"

    answers = {}
    for role in ROLES:
        with transaction.atomic():
            answers[role] = send(world.client(role), world, route, role)
            transaction.set_rollback(True)

    assert {role: answer.status_code for role, answer in answers.items()} == dict(
        zip(ROLES, EXPECTED[str(route)], strict=True)
    ), {role: getattr(answer, "content", b"")[:300] for role, answer in answers.items()}


@pytest.mark.parametrize("route", ROUTES, ids=str)
def test_token_with_the_scope_passes_and_any_weaker_one_does_not(world: World, route: Route) -> None:
    """A token does what its scopes say, whoever holds it."""
    rule = route.view.rules[route.method.upper()]  # type: ignore[attr-defined]  # every view of ours has rules
    weaker = {"jobs:write": "jobs:read", "queues:admin": "jobs:write", "admin": "queues:admin"}.get(rule.scope)
    passes = EXPECTED[str(route)][ROLES.index("admin")]
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
        assert str(route) in EXPECTED, (
            f'add a line "{route}" to EXPECTED: what anonymous, outsider, viewer, member, lead and admin are answered '
            "(and to call_of in routes.py what the route needs to be called)"
        )
    assert {str(route) for route in ROUTES} == set(EXPECTED), "EXPECTED names a route that is no more"


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
