"""A job that waits for its Python environment, on its page, in lists and in REST."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from scheduler.core.model.lifecycle import EndCause, JobState
from scheduler.core.model.plan import Evidence, WaitReason
from scheduler.models import Environment, Job, ServerEnvironment
from scheduler.models.server import EnvironmentState
from scheduler.services.jobs.state import Wait, job_transition, job_waits_record
from tests.integration.pages_jobs.conftest import World, job_in

DIGEST = "e71b52" + "0" * 58
NOW = datetime.now(UTC)


def environment_make(world: World, **columns: Any) -> Environment:
    """Return an environment of ``vision``; with columns also its row on the server."""
    files = {"requirements.txt": "einops\n"}
    made = Environment.objects.create(
        pk=DIGEST, queue=world.vision, kind="requirements", source="requirements.txt", files=files, created_at=NOW
    )
    if columns:
        begun = NOW - timedelta(seconds=71)
        row = {"environment": made, "server": world.server, "asked_at": begun, "changed_at": begun}
        ServerEnvironment.objects.create(**{**row, **columns})
    return made


def preparing(world: World, environment: Environment, **columns: Any) -> Job:
    """Return a job of the member that waits for it."""
    job = job_in(world, JobState.QUEUED, environment=environment, **columns)
    evidence: Evidence = {"needed_gpus": 1, "ready_servers": 0, "servers": 1}
    wait = Wait(job_id=job.pk, reason=WaitReason.PREPARING_ENVIRONMENT, evidence=evidence, position=1)
    job_waits_record(waits=[wait], round_number=1, at=NOW)
    return Job.objects.get(pk=job.pk)


def test_page_counts_packages_and_says_which_jobs_wait_for_the_same_build(world: World) -> None:
    environment = environment_make(
        world, state=EnvironmentState.BUILDING, done=9, total=14, tail="resolving\n + timm==1.0.11 <b>"
    )
    first, second = preparing(world, environment, name="det-r101"), preparing(world, environment)
    page = world.browser("member").open(f"/jobs/J-{second.number}")
    assert page.status == 200
    assert "Preparing" in page.text
    assert "Installing 9 of 14 packages no CPU slot waits for it" in page.text
    (bar,) = page.having(role="progressbar", aria_label="Packages installed")
    assert bar["aria-valuenow"] == "64"
    assert f"det-r101 J-{first.number} asked for the same environment earlier" in page.text
    assert f"J-{first.number} and J-{second.number}" in page.text
    assert " + timm==1.0.11 <b>" in page.text
    assert "requirements.txt e71b520" in page.text
    assert "server-01" in page.text
    logs = world.browser("member").open(f"/jobs/J-{second.number}/logs")
    assert "Build log" in logs.text
    assert " + timm==1.0.11 <b>" in logs.text
    plain = world.browser("member").open(f"/jobs/J-{job_in(world, JobState.RUNNING).number}/logs")
    assert "Build log" not in plain.text
    other = world.browser("member").open(f"/jobs/J-{first.number}")
    assert "asked for the same environment" not in other.text


@pytest.mark.parametrize(
    ("columns", "title"),
    [
        ({"state": EnvironmentState.BUILDING}, "Resolving requirements.txt"),
        ({"state": EnvironmentState.ASKED}, "server-01 is asked to build requirements.txt"),
        ({"state": EnvironmentState.WAITING, "detail": "The cache is full."}, "The cache is full."),
        ({}, "No server that could take it can build its environment"),
    ],
)
def test_without_a_count_there_is_no_bar(world: World, columns: dict[str, Any], title: str) -> None:
    job = preparing(world, environment_make(world, **columns))
    page = world.browser("member").open(f"/jobs/J-{job.number}")
    assert title in page.text
    assert not page.having(role="progressbar")
    assert "Nothing yet." in page.text


def test_a_fault_that_may_pass_is_shown_with_the_time_of_the_next_try(world: World) -> None:
    environment = environment_make(
        world,
        state=EnvironmentState.FAILED,
        is_passing=True,
        detail="error sending request for url",
        tail="Caused by: dns error",
        changed_at=datetime.now(UTC) - timedelta(seconds=10),
    )
    job = preparing(world, environment)
    browser = world.browser("member")
    page = browser.open(f"/jobs/J-{job.number}")
    assert "The build on server-01 broke and is tried again" in page.text
    assert "On server-01 error sending request for url Tried again in" in page.text
    assert "Caused by: dns error" in page.text
    build = browser.client.get(f"/api/v1/jobs/{job.pk}").json()["environment"]["builds"][0]
    assert build["again_at"] > build["changed_at"]


def test_a_job_that_failed_by_it_shows_the_words_of_uv_and_the_log(world: World) -> None:
    sentence = "Because nosuchthing was not found, your requirements are unsatisfiable."
    job = preparing(world, environment_make(world))
    job_transition(
        job=job,
        to=JobState.FAILED,
        at=NOW,
        actor="agent server-01",
        reason=EndCause.ENVIRONMENT,
        data={"detail": sentence, "log": "resolving\nerror: nosuchthing"},
        changes={"end_cause": EndCause.ENVIRONMENT, "end_detail": sentence},
    )
    browser = world.browser("member")
    page = browser.open(f"/jobs/J-{job.number}")
    assert sentence in page.text
    assert "error: nosuchthing" in page.text
    for tab in ("/events", "/why", "/logs", "/attempts"):
        assert browser.open(f"/jobs/J-{job.number}{tab}").status == 200
    assert "error: nosuchthing" in browser.open(f"/jobs/J-{job.number}/logs").text
    assert sentence in browser.open(f"/jobs/J-{job.number}/events").text


def test_lists_and_rest_call_it_preparing_and_find_it_by_that(world: World) -> None:
    environment = environment_make(world, state=EnvironmentState.BUILDING, done=1, total=3)
    job, other = preparing(world, environment), job_in(world, JobState.QUEUED)
    browser = world.browser("member")
    page = browser.open("/jobs", state="preparing")
    assert f"J-{job.number}" in page.text
    assert f"J-{other.number}" not in page.text
    assert "Preparing" in browser.open("/jobs").text
    answer = browser.client.get("/api/v1/jobs", {"state": "preparing"}).json()
    assert [row["number"] for row in answer["results"]] == [job.number]
    assert (answer["results"][0]["phase"], answer["results"][0]["state"]) == ("preparing", "queued")
    both = browser.client.get("/api/v1/jobs", {"state": "preparing,running"}).json()
    assert [row["number"] for row in both["results"]] == [job.number]
    detail = browser.client.get(f"/api/v1/jobs/{job.pk}").json()
    assert detail["environment"]["builds"][0]["total"] == 3
    explain = browser.client.get(f"/api/v1/jobs/{job.pk}/explain").json()
    assert explain["reason"] == "preparing_environment"
    assert explain["sentence"] == "Its Python environment is being prepared. It holds no GPU meanwhile."


def test_another_team_sees_none_of_it(world: World) -> None:
    job = preparing(world, environment_make(world, state=EnvironmentState.BUILDING))
    assert world.browser("outsider").open(f"/jobs/J-{job.number}").status == 404
