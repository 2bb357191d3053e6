"""The OpenAPI document is valid, says what the API answers, and its page needs nothing from outside."""

import json
from collections.abc import Iterator
from io import StringIO
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # comes with drf-spectacular, without types
import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from scheduler.api.jobs.schemas import openapi_document
from scheduler.core.model.lifecycle import JobState
from scheduler.models import Round
from scheduler.services.queues.quotas import MOST_GPUS, WEIGHTS
from tests.integration.api.conftest import World, spec
from tests.integration.api.routes import BYTES, Route, api_routes, call_of
from tests.support.rows.factories import job_make, sample_make
from tests.support.rows.notices import delivery_make

READS = [
    route
    for route in api_routes()
    if route.method == "get"
    and route.name not in {"metrics", "api-schema", "api-docs", "api-job-log-stream", "api-job-spec-schema", *BYTES}
]


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """The document, made once."""
    found: dict[str, Any] = json.loads(json.dumps(openapi_document()))
    return found


def strict(schema: Any) -> Any:
    """Return a schema in which a key that is not documented is an error."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: strict(value) for key, value in schema.items()}
    if "properties" in found and found.get("type") == "object":
        found.setdefault("additionalProperties", False)
    return found


def shape_of(document: dict[str, Any], template: str, method: str, status: int) -> dict[str, Any]:
    """Return the JSON Schema of one answer."""
    answer = document["paths"][template][method]["responses"][str(status)]
    return {
        **answer["content"]["application/json"]["schema"],
        "components": {"schemas": strict(document["components"]["schemas"])},
    }


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield every operation with its path and method."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def test_document_is_made_without_a_warning() -> None:
    """drf-spectacular guessed nothing and the result is valid OpenAPI."""
    call_command("spectacular", "--validate", "--fail-on-warn", stdout=StringIO())


def test_document_is_served_to_anybody_as_json_and_yaml(document: dict[str, Any]) -> None:
    """It says nothing about the cluster, so clients are made without a sign-in."""
    as_json = Client().get("/api/v1/schema/", headers={"Accept": "application/vnd.oai.openapi+json"})
    as_yaml = Client().get("/api/v1/schema/")

    assert json.loads(as_json.content)["paths"].keys() == document["paths"].keys()
    assert as_yaml.content.startswith(b"openapi: 3.1.0")


def test_every_route_is_in_the_document_with_id_summary_and_errors(document: dict[str, Any]) -> None:
    """What can be called is described, what is described can be called."""
    undescribed = {"metrics", "api-schema", "api-docs"}
    served = {(route.method, route.path) for route in api_routes() if route.name not in undescribed}
    described = {(method, path) for path, method, _ in operations(document)}
    ids = [operation["operationId"] for _, _, operation in operations(document)]

    assert described == served
    assert len(set(ids)) == len(ids)
    assert all(operation["summary"] and operation["description"] for _, _, operation in operations(document))
    assert all("429" in operation["responses"] for _, _, operation in operations(document))


@pytest.mark.parametrize("route", READS, ids=str)
def test_answers_are_what_the_document_says(world: World, document: dict[str, Any], route: Route) -> None:
    """Every key of an answer is described, with its type; every required key is there."""
    fill(world)
    needs_admin = route.view.rules["GET"].admins_only  # type: ignore[attr-defined]
    needs_lead = route.view.rules["GET"].scope in {"whatif", "queues:admin"}  # type: ignore[attr-defined]
    role = "admin" if needs_admin else "lead" if needs_lead else "member"
    call = call_of(world, route, role)

    answer = world.client(role).get(reverse(route.name, kwargs=call.kwargs))

    assert answer.status_code == 200
    jsonschema.Draft202012Validator(shape_of(document, route.path, "get", 200)).validate(json.loads(answer.content))


def fill(world: World) -> None:
    """Add rows of every kind, so that no list of an answer is empty."""
    waiting = job_make(world.vision, name="waits", wait_reason="no_capacity", wait_position=1, wait_round=1)
    ended = job_make(world.vision, state=JobState.FAILED, server=world.server)
    attempt = world.job.attempts.get()
    attempt.preempt_rule, attempt.preempted_by, attempt.lost_s = "policy_order", waiting, 3.5
    attempt.save()
    seat = {"server": world.server.number, "gpus": 1, "cpus": 1.0, "memory_bytes": 5}
    decision = {"evidence": {"needed_gpus": 1}}
    Round.objects.update(
        decisions={
            "grants": [{"job": world.job.number, "state": "kept", "seats": [seat]}],
            "preemptions": [{"job": ended.number, "rule": "policy_order", "by_job": waiting.number, **decision}],
            "waiting": [{"job": waiting.number, "position": 1, "reason": "no_capacity", **decision}],
            "waiting_by_reason": {"no_capacity": 1},
        }
    )
    sample_make("job", world.job.pk, step=3, loss=0.5)
    sample_make("cluster", "1", num_gpus=4, busy_gpus=1)
    delivery_make(world.webhook, status=503, problem="It answered 503.", took_s=0.1)


def test_answer_of_a_submit_is_what_the_document_says(world: World, document: dict[str, Any]) -> None:
    """201 and the dry run have their own shapes."""
    client, body = world.client("member"), json.dumps(spec())

    made = client.post("/api/v1/jobs", body, content_type="application/json")
    checked = client.post("/api/v1/jobs?dry_run=true", body, content_type="application/json")

    for answer in (made, checked):
        shape = shape_of(document, "/api/v1/jobs", "post", answer.status_code)
        jsonschema.Draft202012Validator(shape).validate(answer.json())


def test_examples_are_valid_specs(world: World, document: dict[str, Any]) -> None:
    """What a reader copies works."""
    content = document["paths"]["/api/v1/jobs"]["post"]["requestBody"]["content"]["application/json"]
    examples = [example["value"] for example in content["examples"].values()]

    answers = [
        world.client("member").post("/api/v1/jobs", json.dumps(example), content_type="application/json")
        for example in examples
    ]

    assert len(examples) >= 2
    assert [answer.status_code for answer in answers] == [201] * len(examples)


def test_errors_are_what_the_document_says(document: dict[str, Any]) -> None:
    """The problem of a request without sign-in fits its shape."""
    shape = {
        **document["paths"]["/api/v1/me"]["get"]["responses"]["401"]["content"]["application/problem+json"]["schema"],
        "components": {"schemas": strict(document["components"]["schemas"])},
    }

    jsonschema.Draft202012Validator(shape).validate(Client().get("/api/v1/me").json())


def test_docs_page_keeps_to_the_content_policy() -> None:
    """No inline script, nothing from another host: it works offline and under our policy."""
    page = Client().get("/api/v1/docs/")
    text = page.content.decode()
    script = Client().get("/api/v1/docs/?script=")

    assert page.status_code == 200
    assert "script-src 'self'" in page.headers["Content-Security-Policy"]
    assert "http://" not in text
    assert "https://" not in text
    assert all("src=" in part.split(">")[0] for part in text.split("<script")[1:])
    assert script.headers["Content-Type"].startswith("application/javascript")
    assert "/api/v1/schema/" in script.content.decode()


def test_schema_of_a_spec_accepts_what_the_api_stores(world: World) -> None:
    """The published JSON Schema and the parser agree on the stored spec."""
    client = world.client("member")
    schema = client.get("/api/v1/schemas/job").json()

    jsonschema.Draft202012Validator(schema).validate(client.get(f"/api/v1/jobs/{world.job.pk}").json()["spec"])


@pytest.mark.parametrize("body", ["QueueBody", "PatchedQuotaBody", "QuotaFields"])
def test_bounds_of_a_quota_are_those_of_the_service(document: dict[str, Any], body: str) -> None:
    """What the document allows is not refused by the number alone."""
    shapes = document["components"]["schemas"]
    found = shapes[body]["properties"]

    assert found["quota_gpus"]["maximum"] == found["max_gpus"]["maximum"] == MOST_GPUS
    assert (found["weight"]["minimum"], found["weight"]["maximum"]) == WEIGHTS
