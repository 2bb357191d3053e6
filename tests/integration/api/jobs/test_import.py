"""Jobs of other schedulers by REST, by the form and by the command: a spec, and what did not map."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pytest_django.live_server_helper import LiveServer

from clusterweb.cli.main import main
from scheduler.models import Job
from scheduler.services.accounts.tokens import token_create
from tests.integration.api.conftest import World, world_make
from tests.unit.core.spec.foreign.test_foreign import DSTACK, JOB, SCRIPT, SKYPILOT


def test_script_and_object_become_specs_and_nothing_is_stored(world: World) -> None:
    """Each answer is a spec that the submit takes, with the list of what is not in it."""
    client, before = world.client("member"), Job.objects.count()
    answers = {}
    for text in (SCRIPT, JOB, SKYPILOT, DSTACK):
        body = {"text": text, "queue": "vision"}
        answer = client.post("/api/v1/jobs/import", json.dumps(body), content_type="application/json").json()
        answers[answer["kind"]] = answer
    stored = Job.objects.count()
    taken = client.post("/api/v1/jobs", json.dumps(answers["sbatch"]["spec"]), content_type="application/json")

    assert stored == before
    assert answers.keys() == {"sbatch", "kubernetes", "skypilot", "dstack"}
    assert all(not answer["problems"] for answer in answers.values())
    assert all(entry["source"] and entry["why"] for answer in answers.values() for entry in answer["unmapped"])
    assert answers["kubernetes"]["spec"]["resources"]["gpus"] == 2
    assert taken.status_code in (201, 400)  # 400: it asks for more cores than this small cluster has


def test_what_is_neither_is_told_what_would_be_right(world: World) -> None:
    """A text that is no job is one bad field; a job without a queue is a spec with a problem."""
    client = world.client("member")

    odd = client.post("/api/v1/jobs/import", json.dumps({"text": "hello: world"}), content_type="application/json")
    bare = client.post("/api/v1/jobs/import", json.dumps({"text": SCRIPT}), content_type="application/json")

    assert odd.status_code == 400
    assert odd.json()["errors"][0]["pointer"] == "/text"
    assert "#SBATCH" in odd.json()["errors"][0]["detail"]
    assert [problem["pointer"] for problem in bare.json()["problems"]] == ["/queue"]


def test_form_is_filled_from_a_pasted_script(world: World) -> None:
    """The fields hold the spec, what did not map stands above them, and a text that is no job stays where it was."""
    client = world.client("member")
    filled = client.post("/jobs/new", {"mode": "form", "action": "import", "foreign": SCRIPT}).content.decode()
    odd = client.post("/jobs/new", {"mode": "form", "action": "import", "foreign": "a: b", "name": "kept"})

    assert 'value="train-resnet"' in filled
    assert "did not map" in filled
    assert "Modules are not loaded" in filled
    assert 'value="kept"' in odd.content.decode()
    assert "Paste a batch script" in odd.content.decode()


def test_command_prints_a_spec_that_submit_takes(
    transactional_db: None,
    live_server: LiveServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What did not map goes to standard error, so that the spec can be piped on."""
    world = world_make()
    _, token = token_create(
        actor=world.users["member"], name="mine", scopes=["jobs:write"], expires_at=None, at=datetime.now(UTC)
    )
    monkeypatch.setenv("CLUSTERWEB_URL", live_server.url)
    monkeypatch.setenv("CLUSTERWEB_TOKEN", token)
    monkeypatch.chdir(tmp_path)
    Path("job.sh").write_text("#!/bin/bash\n#SBATCH --gres=gpu:1 --partition=x\npython train.py\n")

    assert main(["import", "job.sh", "--queue", "vision"]) == 0
    said = capsys.readouterr()
    Path("job.json").write_text(said.out)
    assert "not mapped" in said.err
    assert main(["submit", "job.json", "--dry-run"]) == 0
