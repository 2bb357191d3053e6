"""A POST that is sent twice is done once."""

import json
from typing import Any

import pytest
from django.test import Client

from scheduler.api.jobs import views as jobs
from scheduler.models import Job
from scheduler.services.jobs.submit import jobs_store
from tests.integration.api.conftest import World, spec


def submit(client: Client, key: str, path: str = "/api/v1/jobs", **changes: Any) -> Any:
    """Post a spec with a key."""
    body = json.dumps(spec(**changes))
    return client.post(path, body, content_type="application/json", headers={"Idempotency-Key": key})


def test_same_key_and_body_give_the_first_answer_again(world: World) -> None:
    """One job, two equal answers, the second marked."""
    client = world.client("member")
    before = Job.objects.count()

    first, second = submit(client, "k1"), submit(client, "k1")

    assert [first.status_code, second.status_code] == [201, 201]
    assert first.json() == second.json()
    assert first.headers["Location"] == second.headers["Location"]
    assert "Idempotency-Replayed" not in first.headers
    assert second.headers["Idempotency-Replayed"] == "true"
    assert Job.objects.count() == before + 1


def test_same_key_with_another_body_is_422(world: World) -> None:
    """A key belongs to one request."""
    client = world.client("member")
    submit(client, "k1")

    assert submit(client, "k1", name="other").status_code == 422


def test_key_belongs_to_its_user(world: World) -> None:
    """Two people may choose the same key."""
    first, second = submit(world.client("member"), "k1"), submit(world.client("lead"), "k1")

    assert first.json()["id"] != second.json()["id"]


def test_request_that_was_refused_may_be_sent_again_with_its_key(world: World) -> None:
    """Only what was done is kept."""
    client = world.client("member")

    assert submit(client, "k1", name="").status_code == 400
    assert submit(client, "k1").status_code == 201


def test_second_request_while_the_first_runs_is_409(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The race: the same request arrives while the first is at work, and only one job comes of it."""
    client, answers = world.client("member"), []
    real = jobs_store

    def slow(*checked: Any, **arguments: Any) -> list[Job]:
        monkeypatch.setattr(jobs, "jobs_store", real)
        answers.append(submit(client, "k1"))
        return real(*checked, **arguments)

    monkeypatch.setattr(jobs, "jobs_store", slow)
    before = Job.objects.count()

    first = submit(client, "k1")
    later = submit(client, "k1")

    assert [first.status_code, answers[0].status_code] == [201, 409]
    assert answers[0].json()["type"] == "urn:clusterweb:problem:first_still_runs"
    assert later.json() == first.json()
    assert Job.objects.count() == before + 1


def test_action_with_a_key_is_done_once(world: World) -> None:
    """Keys work for what is done with a job as well."""
    client = world.client("member")
    url, headers = f"/api/v1/jobs/{world.job.pk}/cancel", {"Idempotency-Key": "k1"}

    first, second = client.post(url, headers=headers), client.post(url, headers=headers)

    assert [first.status_code, second.status_code] == [200, 200]
    assert second.headers["Idempotency-Replayed"] == "true"


def test_key_where_it_means_nothing_is_refused(world: World) -> None:
    """A token's text is never kept, so its creation cannot be repeated; silence would promise it."""
    body = json.dumps({"name": "mine", "scopes": ["jobs:read"]})
    client = world.client("member")

    answer = client.post("/api/v1/tokens", body, content_type="application/json", headers={"Idempotency-Key": "k1"})

    assert answer.status_code == 400


def test_key_that_is_too_long_is_refused(world: World) -> None:
    """The key is checked at the door."""
    assert submit(world.client("member"), "k" * 201).status_code == 400
