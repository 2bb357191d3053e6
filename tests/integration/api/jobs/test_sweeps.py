"""Sweeps: a grid or a sample of it by command, REST and form, and the page that shows their results."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pytest_django.live_server_helper import LiveServer

from clusterweb.cli.main import main
from scheduler.core.model.lifecycle import JobState
from scheduler.live.observed.searches import searches_step
from scheduler.models import Experiment, Job
from scheduler.ports import live_ports
from scheduler.services.accounts.tokens import token_create
from tests.integration.api.conftest import World, world_make

SPEC = "apiVersion: v1\nname: lr\nqueue: vision\ncommand: [train, '--lr={lr}']\nenv: {SEED: '{seed}'}\n"
JOB = {
    "apiVersion": "v1",
    "name": "lr",
    "queue": "vision",
    "command": ["train", "--lr={lr}"],
    "env": {"SEED": "{seed}"},
}
SPACE = {"lr": "0.1,0.01", "seed": "1..3"}


@pytest.fixture
def shop(transactional_db: None, live_server: LiveServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world behind a port, a spec in a file, and the member's token."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("CLUSTERWEB_URL", live_server.url)
    monkeypatch.chdir(tmp_path)
    Path("spec.yaml").write_text(SPEC)
    world = world_make()
    at = datetime.now(UTC)
    _, text = token_create(actor=world.users["member"], name="c", scopes=["jobs:write"], expires_at=None, at=at)
    monkeypatch.setenv("CLUSTERWEB_TOKEN", text)
    return world


def jobs() -> list[tuple[str, list[str], dict[str, str]]]:
    """Return name, command and environment of the jobs of all sweeps, in order."""
    rows = Job.objects.filter(configuration__isnull=False, name__startswith="lr-").order_by("number")
    return [(job.name, job.spec["command"], job.spec["env"]) for job in rows]


def test_a_grid_by_command_makes_a_job_of_each_combination(shop: World, capsys: pytest.CaptureFixture[str]) -> None:
    """The dry run prints them and stores nothing; parameters reach the command and the environment."""
    grid = ["sweep", "spec.yaml", "--grid", "lr=0.1,0.01", "--grid", "seed=1..3"]

    assert main([*grid, "--dry-run"]) == 0
    told = capsys.readouterr().out
    assert re.search(r"4\s+0\.01\s+1\n", told)
    assert "6 jobs. The first runs: train --lr=0.1" in told
    assert jobs() == []

    assert main(grid) == 0
    told = capsys.readouterr().out
    sweep = Experiment.objects.get(name="lr")
    numbers = sweep.configurations.order_by("number").values_list("job__number", flat=True)
    assert f"lr: 6 jobs, J-{numbers[0]} to J-{numbers[5]}" in told
    assert f"clusterweb experiment get {sweep.pk}" in told
    found = jobs()
    assert len(found) == 6
    assert found[3] == ("lr-4", ["train", "--lr=0.01"], {"SEED": "1"})


def test_a_sample_is_drawn_without_replacement(shop: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Five of six, each once, the same for the same seed; seven there are not."""
    grid = ["sweep", "spec.yaml", "--grid", "lr=0.1,0.01", "--grid", "seed=1..3", "-o", "json", "--dry-run"]
    drawn = []
    for seed in ("1", "1", "2"):
        assert main([*grid, "--random", "5", "--seed", seed]) == 0
        drawn.append(json.loads(capsys.readouterr().out)["configurations"])
    assert len({json.dumps(one) for one in drawn[0]}) == 5
    assert drawn[0] == drawn[1] != drawn[2]

    assert main([*grid, "--random", "7"]) == 1
    assert "between 1 and 6. You asked for 7. There are no more." in capsys.readouterr().err


def test_many_jobs_are_made_with_a_word_only(shop: World, capsys: pytest.CaptureFixture[str]) -> None:
    """A hundred at once. Without a terminal the count is told and --yes is wanted; a mistyped value is told by name."""
    many = ["sweep", "spec.yaml", "--grid", "lr=0.1,0.01", "--grid", "seed=1..60"]
    assert main(many) == 2
    assert "This makes 120 jobs. Add --yes" in capsys.readouterr().err
    assert jobs() == []
    assert main([*many, "--yes"]) == 0
    assert len(jobs()) == 100
    told = capsys.readouterr().out
    assert re.search(r"lr: 120 jobs, J-\d+ to J-\d+ now, the other 20 shortly ", told)

    for status, wrong, words in (
        (2, ["--grid", "lr"], "write a name and its values"),
        (2, ["--grid", "lr=1", "--grid", "lr=2"], "gives lr twice"),
        (1, ["--grid", "lr=5..1", "--grid", "seed=1"], "lr holds 5..1: a range ends at its begin or later"),
        (1, ["--grid", "lr=1", "--grid", "seed=1", "--grid", "width=2"], "width would reach no job: write {width}"),
    ):
        assert main(["sweep", "spec.yaml", *wrong]) == status
        assert words in capsys.readouterr().err


def test_rest_and_form_make_the_same_jobs(shop: World) -> None:
    """The same space as JSON and in the form, byte for byte the same specs."""
    member = shop.client("member")
    body = {"job": JOB, "space": SPACE, "sampler": "grid"}
    assert member.post("/api/v1/experiments", body, content_type="application/json").status_code == 201
    by_rest = jobs()
    fields = {
        "job": json.dumps(JOB), "space": "lr: 0.1,0.01\nseed: 1..3\n", "sampler": "grid", "seed": "0",
        "configurations": "", "total_steps": "", "feedback_steps": "", "target_loss": "",
    }  # fmt: skip
    answer = member.post("/experiments/new", fields)
    assert answer.status_code == 302, answer.content.decode()
    assert jobs()[6:] == by_rest

    both = member.post("/api/v1/experiments", {**body, "spec": SPEC}, content_type="application/json").json()
    assert both["errors"][0]["pointer"] == "/job"
    for changes, pointer in (
        ({"space": {"lr": {"low": 0.0, "high": 1.0}, "seed": "1"}}, "/space"),
        ({"target_loss": 0.1}, "/total_steps"),
        ({"sampler": "tpe", "configurations": 3}, "/total_steps"),
        ({"configurations": 7}, "/configurations"),
    ):
        refused: dict[str, Any] = member.post(
            "/api/v1/experiments", {**body, **changes}, content_type="application/json"
        ).json()
        assert refused["errors"][0]["pointer"] == pointer, refused


def test_a_mark_without_values_is_refused(shop: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Before any job runs with the mark itself as its argument."""
    assert main(["sweep", "spec.yaml", "--grid", "lr=0.1,0.01", "--dry-run"]) == 1
    assert "{seed} has no values" in capsys.readouterr().err


def test_the_page_sorts_configurations_by_result_and_by_value(shop: World) -> None:
    """The best first, or by a parameter; all run to their end, and then the sweep is done."""
    member = shop.client("member")
    made = member.post(
        "/api/v1/experiments", {"job": JOB, "space": SPACE, "sampler": "grid"}, content_type="application/json"
    ).json()
    sweep = Experiment.objects.get(pk=made["id"])
    for number, loss in ((2, 0.5), (5, 0.25)):
        job = sweep.configurations.get(number=number).job
        Job.objects.filter(pk=job.pk).update(loss=loss, step=10)

    def order(query: str) -> list[int]:
        text = member.get(f"/experiments/{sweep.pk}{query}").content.decode()
        return [int(found) for found in re.findall(r'aria-label="Configuration (\d+):', text)]

    assert order("") == [5, 2, 1, 3, 4, 6]
    assert order("?sort=-loss") == [2, 5, 1, 3, 4, 6]
    assert order("?sort=value:seed") == [1, 4, 2, 5, 3, 6]
    assert order("?sort=nothing") == [1, 2, 3, 4, 5, 6]

    Job.objects.filter(configuration__experiment=sweep).update(
        state=JobState.COMPLETED, ended_at=datetime.now(UTC), wait_reason=""
    )
    searches_step(at=datetime.now(UTC), ids=live_ports().ids)
    assert Experiment.objects.get(pk=sweep.pk).state == "done"
    text = member.get(f"/experiments/{sweep.pk}").content.decode().replace("\u00a0", " ")
    assert "The best of 6 configurations: a loss of 0.250 with lr 0.01, seed 2" in text
    assert "All have ended" in text


def test_experiments_by_command(shop: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Listed, shown by name with the best loss first, cancelled; a name of two wants an id."""
    sweep = ["sweep", "spec.yaml", "--grid", "lr=0.1,0.01", "--grid", "seed=1"]
    assert main(sweep) == 0
    first = Experiment.objects.get(name="lr")
    worse, best = (one.job for one in first.configurations.order_by("number"))
    Job.objects.filter(pk=worse.pk).update(loss=0.5, step=10)
    Job.objects.filter(pk=best.pk).update(loss=0.25, step=10)
    capsys.readouterr()

    assert main(["experiments"]) == 0
    assert re.search(rf"lr +vision +\w+ +running +2 of 2 +0\.25 .*{first.pk}", capsys.readouterr().out)
    assert main(["experiment", "get", "lr"]) == 0
    told = capsys.readouterr().out
    assert re.search(rf"J-{best.number} +0\.01 +1 +queued +10 +0\.25[^J]*J-{worse.number} +0\.1 ", told)
    assert main(sweep) == 0
    assert main(["experiment", "cancel", "lr"]) == 2
    assert "2 experiments are named lr" in capsys.readouterr().err
    assert main(["experiment", "cancel", "a/b"]) == 2
    assert "No experiment that you may see is named a/b." in capsys.readouterr().err
    assert main(["experiment", "cancel", first.pk]) == 0
    assert "lr: cancelled" in capsys.readouterr().out
    assert not first.configurations.exclude(job__state=JobState.CANCELLED).exists()


def test_an_array_by_command(shop: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Submitted with its name, shown with its states, cancelled as a whole."""
    Path("array.yaml").write_text("apiVersion: v1\nname: a\nqueue: vision\ncommand: ['true']\narray: 0-2%1\n")
    assert main(["submit", "array.yaml"]) == 0
    key = capsys.readouterr().out.split()[0]
    assert key.startswith("A-")
    assert main(["array", "cancel", key]) == 0
    told = capsys.readouterr().out
    assert f"{key} a: 3 cancelled" in told
    assert main(["array", "retry", key]) == 1
    assert "has failed" in capsys.readouterr().err
