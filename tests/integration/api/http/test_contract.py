"""What the API answers to generated requests is what its OpenAPI document says, whoever asks.

schemathesis makes the requests out of the document: some as it allows, some against it. Most of them name what is in
the database, so that they get past "not found"; half of the bodies are a good one with one thing changed.
"""

import copy
import json
from typing import Any

import pytest
import schemathesis
from django.core.cache import cache
from django.core.wsgi import get_wsgi_application
from django.db import transaction
from django.urls import reverse
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.schemas import BaseSchema
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from scheduler.api.jobs.schemas import openapi_document
from scheduler.services.accounts.tokens import SCOPES
from tests.integration.api.conftest import World
from tests.integration.api.routes import Route, api_routes, call_of
from tests.support.suite.examples import tried

UNDESCRIBED = {"metrics", "api-schema", "api-docs"}
ROUTES = [route for route in api_routes() if route.name not in UNDESCRIBED]
ROLES = ("admin", "lead", "viewer", "anonymous")
# Streams need a server of their own kind, and that of a log ends when its job does: here only refusals are looked at.
STREAMS = {"api-job-log-stream", "api-job-archive"}
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
# What people and programs send that no schema would think of.
ODD: st.SearchStrategy[Any] = st.sampled_from(
    [
        None,
        True,
        -1,
        0,
        2**31,
        2**63,
        10**30,
        1e308,
        "",
        " ",
        "\x00",
        "a" * 5000,
        "ünï",
        "../..",
        [],
        {},
        [[]],
    ]
)


@pytest.fixture(scope="module")
def api() -> BaseSchema:
    """The document as schemathesis reads it."""
    schema: BaseSchema = schemathesis.openapi.from_dict(json.loads(json.dumps(openapi_document())))
    schema.app = get_wsgi_application()
    return schema


@pytest.fixture
def world(kept_world: World, db: None) -> World:
    """The rows; what a test changes is undone after it."""
    return copy.deepcopy(kept_world)


@pytest.fixture
def headers(world: World) -> dict[str, dict[str, str]]:
    """A token with every scope that its user may have, for each role."""
    scopes = {"admin": SCOPES}
    most = [scope for scope in SCOPES if scope != "admin"]
    signed_in = {role: world.bearer(role, *scopes.get(role, most)) for role in world.users}
    return {"anonymous": {}, **signed_in}


def changed(draw: st.DrawFn, body: Any) -> Any:  # JSON
    """Return a good body, perhaps with one thing in it changed."""
    if not isinstance(body, dict) or not body or draw(st.booleans()):
        return body
    key = draw(st.sampled_from(sorted(body)))
    if isinstance(body[key], dict) and draw(st.booleans()):
        return {**body, key: changed(draw, body[key])}
    return {**body, key: draw(ODD)}


def documented(api: BaseSchema, route: Route) -> st.SearchStrategy[Case[Any]]:
    """Return requests for one route as the document allows them, and against it. Dear to make: made once a test."""
    operation = api[route.path][route.method.upper()]
    takes_more = bool(operation.query or operation.body or operation.path_parameters or operation.headers)
    modes = [GenerationMode.POSITIVE, GenerationMode.NEGATIVE] if takes_more else [GenerationMode.POSITIVE]
    return st.one_of([operation.as_strategy(generation_mode=mode) for mode in modes])


def cases(
    world: World, route: Route, role: str, requests: st.SearchStrategy[Case[Any]]
) -> st.SearchStrategy[Case[Any]]:
    """Return requests for one route that name what is in the database, mostly."""
    known = call_of(world, route, role)

    @st.composite
    def made(draw: st.DrawFn) -> Case[Any]:
        case = draw(requests)
        case.headers.pop("Authorization", None)
        case.cookies.clear()
        is_known = draw(st.integers(0, 3)) > 0
        if known.kwargs and is_known:
            case.path_parameters = {name: str(value) for name, value in known.kwargs.items()}
        if isinstance(known.body, dict) and draw(st.booleans()):
            case.body, case.media_type = changed(draw, known.body), "application/json"
        if "If-Match" in known.headers and draw(st.booleans()):
            case.headers["If-Match"] = "*"
        return case

    return made()


def held(api: BaseSchema, world: World, headers: dict[str, dict[str, str]], route: Route) -> None:
    """Send generated requests of every role and check each answer; every one is undone."""
    roles = ("outsider", "anonymous") if route.name in STREAMS else ROLES
    any_role = documented(api, route)
    requests = st.one_of([st.tuples(st.just(role), cases(world, route, role, any_role)) for role in roles])

    @settings(
        parent=tried(20),
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(request=requests)
    def check(request: tuple[str, Case[Any]]) -> None:
        role, case = request
        cache.clear()  # or the rate limit answers
        with transaction.atomic():
            case.call_and_validate(headers=headers[role], checks=CHECKS)
            transaction.set_rollback(True)

    check()


@pytest.mark.parametrize("route", ROUTES, ids=str)
def test_half_of_a_character_is_answered(world: World, route: Route) -> None:
    """JSON can spell text that no database takes; schemathesis cannot send it."""
    call = call_of(world, route, "admin")
    body = call.body if isinstance(call.body, dict) else {}
    path = reverse(route.name, kwargs=call.kwargs)
    client = world.client("admin")
    client.raise_request_exception = False
    for key in [key for key, value in body.items() if isinstance(value, str)]:
        sent = json.dumps({**body, key: "\ud83d"})
        with transaction.atomic():
            answer = client.generic(route.method, path, sent, content_type="application/json", headers=call.headers)
            transaction.set_rollback(True)

        assert answer.status_code < 500, key


@pytest.mark.parametrize("route", ROUTES, ids=str)
def test_answers_keep_to_the_document(
    world: World, api: BaseSchema, headers: dict[str, dict[str, str]], route: Route
) -> None:
    """No 500, no status that is not in the document, no answer of another shape."""
    held(api, world, headers, route)
