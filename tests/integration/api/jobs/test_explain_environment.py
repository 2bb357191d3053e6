"""``clusterweb explain`` of a job that waits for its Python environment, or that failed by it."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from clusterweb.cli.main import main
from clusterweb.cli.output.text import clock
from scheduler.core.model.lifecycle import EndCause, JobState
from scheduler.core.model.plan import WaitReason
from scheduler.models import Environment, Job, ServerEnvironment
from scheduler.models.server import EnvironmentState
from scheduler.services.jobs.state import job_transition
from tests.integration.api.conftest import World
from tests.support.rows.factories import job_make

UV = "Because nosuchthing was not found, your requirements are unsatisfiable."


def preparing(shop: World, **columns: Any) -> Job:
    """Return a job of the member that waits for an environment; with columns it has a row on the server."""
    at = datetime.now(UTC)
    made = Environment.objects.create(
        pk="e71b52" + "0" * 58,
        queue=shop.vision,
        kind="requirements",
        source="requirements.txt",
        files={"requirements.txt": "einops\n"},
        created_at=at,
    )
    if columns:
        row = {"environment": made, "server": shop.server, "asked_at": at, "changed_at": at}
        ServerEnvironment.objects.create(**{**row, **columns})
    reason = WaitReason.PREPARING_ENVIRONMENT
    return job_make(shop.vision, owner=shop.users["member"], environment=made, wait_reason=reason, wait_since=at)


def explained(job: Job, capsys: pytest.CaptureFixture[str]) -> str:
    """Return what the command says of a job."""
    capsys.readouterr()
    assert main(["explain", f"J-{job.number}"]) == 0
    return capsys.readouterr().out


def test_it_says_how_far_the_build_is_and_where(shop: World, capsys: pytest.CaptureFixture[str]) -> None:
    """The same sentence as on the page; a build that goes well needs no log."""
    job = preparing(shop, state=EnvironmentState.BUILDING, done=9, total=14, tail="resolving")
    said = explained(job, capsys)

    assert said.startswith("Its Python environment is being prepared. It holds no CPU slot meanwhile.\n")
    assert "Environment from requirements.txt: Installing 9 of 14 packages.\nBuilt on server-01 for " in said
    assert "resolving" not in said


def test_it_says_what_broke_and_when_that_is_tried_again(shop: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Where the index does not answer the job waits; the next try is a moment, or due."""
    changed = datetime.now(UTC) - timedelta(seconds=5)
    broken = {"state": EnvironmentState.FAILED, "is_passing": True, "detail": "error sending request for url"}
    job = preparing(shop, **broken, changed_at=changed, tail="Caused by: dns error")
    said = explained(job, capsys)

    assert "The build on server-01 broke and is tried again." in said
    again = clock((changed + timedelta(minutes=1)).isoformat())
    assert f"Failed on server-01: error sending request for url. Tried again at {again}.\n" in said
    assert "End of the build's log:\n  Caused by: dns error\n" in said

    ServerEnvironment.objects.update(changed_at=changed - timedelta(hours=1))
    assert "The next try is due." in explained(job, capsys)


def test_a_job_that_failed_by_it_says_the_words_of_uv(shop: World, capsys: pytest.CaptureFixture[str]) -> None:
    """With the server and the log while they are known, and with the log of its event later."""
    job = preparing(shop, state=EnvironmentState.FAILED, detail=UV, tail="error: of the server")
    job_transition(
        job=job,
        to=JobState.FAILED,
        at=datetime.now(UTC),
        actor="agent server-01",
        reason=EndCause.ENVIRONMENT,
        data={"detail": UV, "log": "error: of the event"},
        changes={"end_cause": EndCause.ENVIRONMENT, "end_detail": UV},
    )
    said = explained(job, capsys)
    assert said.startswith(f"It does not wait: it has failed. {UV}\n")
    assert f"Failed on server-01: {UV}\n" in said
    assert "  error: of the server" in said

    ServerEnvironment.objects.all().delete()
    said = explained(job, capsys)
    assert "Failed on" not in said
    assert "  error: of the event" in said


def test_rest_says_it_too_and_no_other_job_has_it(shop: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Null once the job waits for something else."""
    job = preparing(shop, state=EnvironmentState.ASKED)
    key = f"J-{job.number}"
    assert main(["explain", key, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)["environment"]
    assert (found["sentence"], found["source"]) == ("server-01 is asked to build requirements.txt", "requirements.txt")

    Job.objects.filter(pk=job.pk).update(wait_reason=WaitReason.NO_CAPACITY)
    assert main(["explain", key, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["environment"] is None
    assert main(["get", key, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["environment"]["sentence"] == ""
