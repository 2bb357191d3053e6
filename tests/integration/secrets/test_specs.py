"""Specs that name secrets: checked at submit and preview; plain values shown to owner and leads alone."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client

from scheduler.models import Job, Queue, Secret
from scheduler.models.queue import Role
from scheduler.services.secrets.store import secret_delete
from tests.integration.api.conftest import World, spec
from tests.support.rows.factories import member_make

TOKEN = "hf_abcdefghijklmnopqrstuvwxyz0123"
PLAIN = "plain-canary-value"


def submit(world: World, role: str, env: dict[str, Any], *, query: str = "", **more: Any) -> Any:
    data = json.dumps(spec(env=env, **more))
    return world.client(role).post(f"/api/v1/jobs{query}", data, content_type="application/json")


@pytest.mark.parametrize("query", ["", "?dry_run=true"])
def test_missing_secret_is_an_error_at_its_variable(world: World, query: str) -> None:
    """At submit and at preview, with the command that sets it."""
    answer = submit(world, "member", {"K": {"secret": "comet"}, "W": {"secret": "wandb"}}, query=query)

    assert answer.status_code == 400
    (error,) = answer.json()["errors"]
    assert (error["pointer"], error["code"]) == ("/env/K", "no_secret")
    assert "Neither mia nor vision has a secret comet" in error["detail"]
    assert "clusterweb secret set comet" in error["detail"]


@pytest.mark.parametrize("query", ["", "?dry_run=true"])
def test_plain_value_that_looks_like_a_secret_is_refused_with_the_right_line(world: World, query: str) -> None:
    """Nothing of the value is in the answer, nothing is stored."""
    before = Job.objects.count()
    answer = submit(world, "member", {"HF_TOKEN": TOKEN}, query=query)

    assert answer.status_code == 400
    (error,) = answer.json()["errors"]
    assert (error["pointer"], error["code"]) == ("/env/HF_TOKEN", "secret")
    assert "HF_TOKEN: {secret: hf}" in error["detail"]
    assert TOKEN not in answer.content.decode()
    assert Job.objects.count() == before
    assert submit(world, "member", {"HF_TOKEN": {"plain": TOKEN}}, query=query).status_code in (200, 201)


def test_owner_is_asked_first_then_the_queue(world: World) -> None:
    """``of`` says which is meant; the secrets of other users and queues are nobody's here."""
    Secret.objects.filter(queue=None).exclude(user=world.users["member"]).delete()
    member, lead = {"K": {"secret": "wandb", "of": "user"}}, {"K": {"secret": "wandb", "of": "user"}}
    shared = {"K": {"secret": "wandb", "of": "queue"}}

    assert submit(world, "member", member).status_code == 201
    assert submit(world, "lead", lead).status_code == 400
    assert submit(world, "lead", shared).status_code == 201
    assert submit(world, "lead", {"K": {"secret": "wandb"}}).status_code == 201
    assert submit(world, "outsider", shared, queue="speech").status_code == 400


def test_bulk_and_templates_are_checked_alike(world: World) -> None:
    """No door is left open."""
    client = world.client("member")
    jobs = {"jobs": [spec(env={"K": {"secret": "comet"}}), spec(env={"HF_TOKEN": TOKEN})]}
    bulk = client.post("/api/v1/jobs/bulk", json.dumps(jobs), content_type="application/json")
    kept = {"queue": "vision", "name": "t", "spec": {"env": {"HF_TOKEN": TOKEN}}}
    template = client.post("/api/v1/templates", json.dumps(kept), content_type="application/json")

    assert [error["code"] for error in bulk.json()["errors"]] == ["no_secret", "secret"]
    assert [error["pointer"] for error in template.json()["errors"]] == ["/spec/env/HF_TOKEN"]


def test_plain_values_are_for_owner_and_leads_alone(world: World) -> None:
    """The job's page, its spec, REST and the form of a clone; the viewer and other members see the names."""
    number = submit(world, "member", {"SEED": PLAIN, "K": {"secret": "wandb"}}).json()["number"]
    doors = (
        f"/api/v1/jobs/J-{number}",
        f"/jobs/J-{number}",
        f"/jobs/J-{number}/spec",
        f"/jobs/new?clone=J-{number}",
        f"/jobs/new?clone=J-{number}&mode=yaml",
    )
    shows = {role: [PLAIN in world.client(role).get(door).content.decode() for door in doors] for role in world.users}

    assert shows["member"] == shows["lead"] == shows["admin"] == [True, False, True, True, True]
    assert shows["viewer"] == [False] * 5
    hidden = world.client("viewer").get(doors[0]).json()["spec"]["env"]
    assert hidden == {"SEED": {"hidden": True}, "K": {"secret": "wandb"}}
    other = Client()
    other.force_login(member_make(world.vision, Role.MEMBER, name="mo"))
    assert [PLAIN in other.get(door).content.decode() for door in doors] == [False] * 5
    assert "Only its owner and leads see the values of SEED" in other.get(doors[3]).content.decode()


def test_deleting_a_secret_tells_the_jobs_that_would_fail(world: World) -> None:
    """On the page, before it is deleted."""
    number = submit(world, "member", {"K": {"secret": "wandb"}}).json()["number"]
    page = world.client("member").get("/secrets").content.decode()

    assert f"J-{number}" in page
    assert "that waits names it and would fail" in page


def test_no_page_or_answer_holds_a_value(world: World) -> None:
    """Not after it was set, not after an error, not for its owner."""
    value = "canary-0123456789"
    client = world.client("lead")
    said = [
        client.post("/secrets", {"do": "set", "name": "bad name", "value": value}),
        client.post("/secrets", {"do": "set", "name": "comet", "value": value}, follow=True),
        client.post("/queues/vision/secrets", {"do": "set", "name": "comet", "value": value}, follow=True),
        client.put("/api/v1/secrets/other", json.dumps({"value": value}), content_type="application/json"),
        client.put("/api/v1/secrets/x", json.dumps({"value": value, "y": 1}), content_type="application/json"),
        client.get("/api/v1/secrets"),
        client.get("/api/v1/queues/vision/secrets"),
        client.get("/secrets"),
        world.client("admin").get("/api/v1/audit?kind=secret"),
        world.client("admin").get("/admin/audit?kind=secret"),
    ]

    assert [answer.status_code for answer in said] == [422, 200, 200, 201, 400, 200, 200, 200, 200, 200]
    assert Secret.objects.filter(name__in=["comet", "other"]).count() == 3
    assert not [answer for answer in said if value in answer.content.decode()]


def test_queue_that_a_waiting_job_moves_to_must_have_its_secrets(world: World) -> None:
    """Its owner's secrets count, whoever moves it."""
    audio = Queue.objects.create(name="audio", parent=world.org, quota_gpus=2, created_at=datetime.now(UTC))
    number = submit(world, "admin", {"K": {"secret": "wandb", "of": "queue"}}).json()["number"]
    answer = world.client("admin").post(
        f"/api/v1/jobs/J-{number}/unblock", json.dumps({"queue": audio.name}), content_type="application/json"
    )

    assert answer.status_code in (400, 409)
    assert "audio has no secret wandb" in answer.content.decode()


def test_own_secret_is_used_before_the_queues(world: World) -> None:
    """And when it is gone, the queue's."""
    secret_delete(actor=world.users["member"], queue=None, name="wandb", at=datetime.now(UTC))

    assert submit(world, "member", {"K": {"secret": "wandb"}}).status_code == 201
