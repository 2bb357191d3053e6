"""One shape for every error, with one entry per bad field, and nothing of our insides."""

import json
from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client
from rest_framework import serializers

from scheduler.api.cluster import overview
from scheduler.api.http import throttling
from scheduler.api.http.bodies import Body, WholeNumberField
from scheduler.models.server import ServerState
from tests.integration.api.conftest import World, spec
from tests.support.rows.factories import job_make, server_make

KEYS = {"type", "title", "status", "detail", "instance", "request_id", "errors"}


def problem(answer: Any) -> dict[str, Any]:
    """Return the problem of an answer, after checking its shape."""
    body: dict[str, Any] = answer.json()
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert set(body) == KEYS
    assert body["status"] == answer.status_code
    assert body["instance"] == answer.wsgi_request.path
    assert body["request_id"] == answer.headers["X-Request-Id"]
    assert all(set(error) == {"pointer", "code", "detail"} for error in body["errors"])
    return body


def post(client: Client, body: str | bytes, content_type: str = "application/json") -> Any:
    """Post to the jobs."""
    return client.post("/api/v1/jobs", body, content_type=content_type)


def test_five_wrong_fields_give_five_entries(world: World) -> None:
    """Every bad field is named in one answer: of the spec and of what depends on the cluster."""
    wrong = {
        "apiVersion": "v1",
        "name": "",
        "queue": "nowhere",
        "command": "python train.py",
        "resources": {"gpus": 0, "memory": "64"},
    }

    body = problem(post(world.client("member"), json.dumps(wrong)))

    assert body["status"] == 400
    assert {error["pointer"] for error in body["errors"]} == {
        "/name",
        "/queue",
        "/command",
        "/resources/gpus",
        "/resources/memory",
    }


def test_more_gpus_than_any_server_has_names_the_most(world: World) -> None:
    """A job that could never run is refused at the door."""
    body = problem(post(world.client("member"), json.dumps(spec(resources={"gpus": 5}))))

    assert body["errors"][0]["pointer"] == "/resources/gpus"
    assert "1 and 4" in body["errors"][0]["detail"]


@pytest.mark.parametrize(
    ("text", "content_type", "status"),
    [
        ("{", "application/json", 400),
        ("[" * 100_000, "application/json", 400),
        ('{"name": NaN}', "application/json", 400),
        ('{"name": 1e999}', "application/json", 400),
        ('{"name": "a", "name": "b"}', "application/json", 400),
        ("\xff".encode("latin-1"), "application/json", 400),
        ('{"name": "\\u0000"}', "application/json", 400),
        ('{"name": "\\ud800"}', "application/json", 400),
        ("[1, 2]", "application/json", 400),
        ("a: [", "application/yaml", 400),
        ("&a [*a, *a]", "application/yaml", 400),
        ("when: 2026-01-01\nblob: !!binary aGk=", "application/yaml", 400),
        ("!!python/object/apply:os.system [id]", "application/yaml", 400),
        (" " * (2 * 1024 * 1024 + 1), "application/json", 413),
        ("name=x", "application/x-www-form-urlencoded", 415),
        ("<a/>", "text/xml", 415),
    ],
)
def test_body_that_is_no_spec_is_refused_in_one_shape(
    world: World, text: str | bytes, content_type: str, status: int
) -> None:
    """Whatever comes in, the answer is a problem and never a 500."""
    assert problem(post(world.client("member"), text, content_type))["status"] == status


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/v1/nothing", 404),
        ("POST", "/api/v1/nothing", 404),
        ("GET", "/api/v2/jobs", 404),
        ("GET", "/api/", 404),
        ("GET", "/api/v1/jobs/J-999999", 404),
        ("GET", "/api/v1/jobs/%00", 404),
        ("GET", "/api/v1/queues/%00", 404),
        ("GET", "/api/v1/servers/%00", 404),
        ("GET", "/api/v1/queues/a%0Ab/loans", 404),
        ("GET", "/api/v1/rounds/99999999999999999999999", 404),
        ("DELETE", "/api/v1/tokens/99999999999999999999999", 404),
        ("DELETE", "/api/v1/jobs", 405),
        ("OPTIONS", "/api/v1/jobs", 405),
        ("TRACE", "/api/v1/jobs", 405),
    ],
)
def test_what_is_not_there_is_a_problem(world: World, method: str, path: str, status: int) -> None:
    """Unknown routes, objects and methods, for signed-in users."""
    assert problem(world.client("admin").generic(method, path))["status"] == status


@pytest.mark.parametrize(
    ("path", "detail"),
    [
        ("jobs/J-999999", "There is no job J-999999 that you may see."),
        ("queues/nowhere", "There is no queue 'nowhere' that you may see."),
        ("webhooks/99", "There is no webhook 99 that you may manage."),
        ("whatif/99", "There is no scenario '99' that you may see."),
        ("users/nobody-here", "There is no user 'nobody-here' that you may see."),
        ("users/mia/tokens/99", "mia has no token 99."),
        ("tokens/99", "You have no token 99."),
        ("templates/99", "There is no template 99 that you may see."),
        (f"templates/{2**63}", f"There is no template {2**63} that you may see."),
        ("whatif/traces/99", "There is no trace '99' that you may see."),
    ],
)
def test_what_was_sought_is_named(world: World, path: str, detail: str) -> None:
    """With its kind, as it was asked for."""
    client = world.client("admin")
    answer = client.get(f"/api/v1/{path}")
    if answer.status_code == 405:
        answer = client.delete(f"/api/v1/{path}")

    assert (answer.status_code, answer.json()["detail"]) == (404, detail)


def test_what_is_hidden_and_what_is_not_there_are_told_alike(world: World) -> None:
    """The name apart, a stranger reads the same of both."""
    stranger = world.client("outsider")
    for hidden, missing in ((f"jobs/J-{world.job.number}", "jobs/J-999999"), ("queues/vision", "queues/nowhere")):
        told = [
            stranger.get(f"/api/v1/{path}").json()["detail"].replace(path.partition("/")[2], "it")
            for path in (hidden, missing)
        ]
        assert told[0] == told[1]


def test_missing_or_needless_slash_is_named(world: World) -> None:
    """A wrong slash costs one look, not an afternoon."""
    client = Client()

    assert problem(client.get("/api/v1/jobs/"))["detail"] == "The path is /api/v1/jobs."
    assert problem(client.get("/api/v1/docs"))["detail"] == "The path is /api/v1/docs/."


def test_unknown_and_bad_parameters_are_all_named(world: World) -> None:
    """Silently ignoring a parameter would hide a mistake."""
    answer = world.client("member").get("/api/v1/jobs?stat=queued&limit=0&state=sleeping&submitted_after=soon&count=1")

    errors = {error["pointer"]: error["code"] for error in problem(answer)["errors"]}

    assert errors == {
        "?stat": "unknown",
        "?limit": "invalid",
        "?state": "invalid",
        "?submitted_after": "invalid",
        "?count": "invalid",
    }
    assert problem(world.client("member").get("/api/v1/me?format=json"))["status"] == 400


def test_unknown_key_of_a_body_is_named(world: World) -> None:
    """Small bodies are as strict as a spec."""
    answer = world.client("admin").post(
        f"/api/v1/servers/{world.server.pk}/drain", json.dumps({"why": "fans"}), content_type="application/json"
    )

    assert {error["pointer"] for error in problem(answer)["errors"]} == {"/why", "/reason"}


def test_defect_of_ours_tells_nothing_but_the_request_id(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The traceback is in the log, under the request's id, and not in the answer."""

    def broken(*_: object) -> None:
        raise RuntimeError("secret of the database")

    monkeypatch.setattr(overview, "cluster_now", broken)

    answer = world.client("member").get("/api/v1/overview")

    assert problem(answer)["status"] == 500
    assert b"secret" not in answer.content
    assert "secret of the database" in caplog.text


def test_database_that_does_not_answer_is_503_and_can_be_tried_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A locked database is no defect."""

    def locked(*_: object) -> None:
        raise OperationalError("database is locked")

    monkeypatch.setattr(overview, "cluster_now", locked)

    answer = world.client("member").get("/api/v1/overview")

    assert problem(answer)["status"] == 503
    assert answer.headers["Retry-After"] == "1"
    assert b"locked" not in answer.content


def test_too_many_requests_are_told_when_to_come_back(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is per user and shown before it is reached."""
    monkeypatch.setattr(throttling, "USER_REQUESTS", 2)
    client = world.client("member")

    first, _, third = (client.get("/api/v1/me") for _ in range(3))
    other = world.client("lead").get("/api/v1/me")

    assert [first.headers["RateLimit-Limit"], first.headers["RateLimit-Remaining"]] == ["2", "1"]
    assert problem(third)["status"] == 429
    assert 1 <= int(third.headers["Retry-After"]) <= 61
    assert other.status_code == 200


def test_a_job_that_is_asked_for_by_its_name_is_told_by_number(world: World) -> None:
    """The newest of those that the user may see; no name of another queue's job."""
    job_make(world.vision, owner=world.users["member"], name="bert-large")
    newest = job_make(world.vision, owner=world.users["member"], name="bert-large")

    told, hidden = (world.client(who).get("/api/v1/jobs/bert-large").json()["detail"] for who in ("member", "outsider"))

    assert told == (
        "There is no job bert-large that you may see. Jobs are asked for by number: the newest of this name is "
        f"J-{newest.number}."
    )
    assert hidden == "There is no job bert-large that you may see."


class Every(Body):
    """A field of each kind whose refusal the framework words, and one with words of its own."""

    whole = serializers.IntegerField()
    number = serializers.FloatField()
    flag = serializers.BooleanField()
    day = serializers.DateField()
    moment = serializers.DateTimeField()
    several = serializers.ListField(child=serializers.IntegerField())
    parts = serializers.ListField(child=serializers.IntegerField())
    own = WholeNumberField(min_value=1, max_value=9)


def test_a_refusal_says_what_would_be_right() -> None:
    """Also where the framework would say "A valid integer is required."."""
    body = Every(data=dict.fromkeys(Every().fields, "x") | {"parts": ["x"], "day": "2026-02-30"})

    assert not body.is_valid()
    assert body.errors == {
        "whole": ["It must be a whole number."],
        "number": ["It must be a number."],
        "flag": ["It must be true or false."],
        "day": ["It must be a day such as 2026-01-31."],
        "moment": ["It must be a time such as 2026-01-31T12:00:00Z."],
        "several": ["It must be a list."],
        "parts": {0: ["It must be a whole number."]},
        "own": ["It must be a whole number between 1 and 9."],
    }


@pytest.mark.parametrize(
    ("method", "path", "sent", "told"),
    [
        ("DELETE", "/api/v1/jobs", "application/json", "DELETE means nothing at this path. It takes GET or POST."),
        ("PUT", "/api/v1/code", "application/json", "It takes POST."),
        ("POST", "/api/v1/jobs", "text/xml", "Send application/json or application/yaml or multipart/form-data"),
        ("POST", "/api/v1/jobs", "application/zip", "A folder or an archive goes to POST /api/v1/code/archive first"),
        ("POST", "/api/v1/code/archive", "application/zip", "Send application/octet-stream and name it in"),
    ],
)
def test_a_wrong_verb_or_type_is_told_the_right_one(world: World, method: str, path: str, sent: str, told: str) -> None:
    """And a binary body where folders and archives go."""
    answer = world.client("member").generic(method, path, b"{}", content_type=sent)

    assert told in answer.json()["detail"]


@pytest.mark.parametrize("query", ["gpus__gte=abc", "cursor=abc", "nothing=1"])
def test_a_filter_that_is_not_understood_is_refused(world: World, query: str) -> None:
    """With its name and what is right; without a word other jobs would be listed."""
    answer = world.client("member").get(f"/api/v1/jobs?{query}")

    assert answer.status_code == 400
    assert answer.json()["errors"][0]["pointer"] == f"?{query.partition('=')[0]}"


def test_servers_are_called_as_on_pages(world: World) -> None:
    """Drained once nothing runs on a server that drains; its state stays as it was."""
    server_make("gpu-drained", state=ServerState.DRAINING)
    rows = {row["name"]: row for row in world.client("member").get("/api/v1/servers").json()["results"]}

    assert (rows["gpu-drained"]["state"], rows["gpu-drained"]["phase"]) == ("draining", "drained")
    assert all(row["phase"] == row["state"] for name, row in rows.items() if name != "gpu-drained")
