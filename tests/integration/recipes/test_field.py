"""The recipe for a field of a job, along its example: ``stall`` from form and spec to the order that the agent gets."""

import json
from collections.abc import Callable

import pytest
from django.test import Client

from scheduler.core.model.lifecycle import JobState
from scheduler.models import Job
from tests.support.live.world import World

Submit = Callable[[Client, str], Job]
FIELDS = {"name": "train", "queue": "vision", "command": "true", "gpus": "1"}
SPEC = {"apiVersion": "v1", "name": "train", "queue": "vision", "command": ["true"]}


def by_form(client: Client, stall: str) -> Job:
    """Submit as a browser does."""
    answer = client.post("/jobs/new", {"mode": "form", "action": "submit", **FIELDS, "stall": stall})

    assert answer.status_code == 302
    return Job.objects.latest("number")


def by_rest(client: Client, stall: str) -> Job:
    """Submit as a program does."""
    body = json.dumps({**SPEC, "progress": {"stall": stall} if stall else {}})
    answer = client.post("/api/v1/jobs", body, content_type="application/json")

    assert answer.status_code == 201
    return Job.objects.get(pk=answer.json()["id"])


@pytest.mark.parametrize("submit", [by_form, by_rest])
@pytest.mark.parametrize(("stall", "stall_s"), [("10m", 600.0), ("", None)])
def test_it_reaches_the_agent(world: World, admin: Client, submit: Submit, stall: str, stall_s: float | None) -> None:
    """As seconds in the order; a job that does not say it has none."""
    agent = world.server("alpha")
    job = world.do(lambda: submit(admin, stall))
    world.until_state(job, JobState.RUNNING)

    assert agent.attempt_of(job.pk).wanted.stall_s == stall_s


def test_the_form_and_the_schema_offer_it(world: World, admin: Client) -> None:
    """With a sentence of help; a copy of the job has it filled in."""
    job = world.do(lambda: by_rest(admin, "10m"))
    schema = admin.get("/api/v1/schemas/job").json()

    assert schema["properties"]["progress"]["properties"]["stall"]["description"]
    assert admin.get(f"/jobs/new?clone=J-{job.number}").context["form"]["stall"].value() == "10m"
