"""What the pages of experiments say: the best so far, why each configuration is where it is, what was mistyped."""

import html
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client

from scheduler import notify
from scheduler.core.model.lifecycle import JobState
from scheduler.live.observed.written_losses import losses_read
from scheduler.models import Configuration, Experiment, Server
from scheduler.models.queue import Role
from tests.support.live.ports import MemoryBell
from tests.support.rows.experiments import experiment_make
from tests.support.rows.factories import AT, job_make, member_make, queue_make, server_make
from tests.support.rows.files import file_write

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _quiet(settings: Any, tmp_path: Path) -> Iterator[None]:  # pytest-django's settings take any name
    """Static files as they lie in the tree, no broker."""
    settings.STATIC_ROOT = tmp_path
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}
    notify.use_bell(MemoryBell())
    yield
    notify.use_bell(None)


def signed_in(user: User) -> Client:
    """Return a browser of a user."""
    client = Client()
    client.force_login(user)
    return client


def searched() -> tuple[Experiment, User]:
    """Return an experiment with a configuration of each kind, and its owner."""
    queue, server = queue_make("vision"), server_make("gpu-01", gpus=8)
    owner = member_make(queue)
    experiment = experiment_make(queue, owner, size=20)  # its one configuration has not been looked at
    kinds: list[tuple[str, JobState, float, float]] = [
        ("promising", JobState.RUNNING, 0.2, 0.9),
        ("opportunistic", JobState.RUNNING, 0.4, 0.3),
        ("poor", JobState.CANCELLED, 1.7, 0.01),
    ]
    for number, (promise, state, loss, chance) in enumerate(kinds, start=2):
        job = job_make(
            queue, owner=owner, state=state, server=server, step=40, loss=loss, attained_gpu_s=1_800.0,
            name=f"search-{number}",
        )  # fmt: skip
        Configuration.objects.create(
            experiment=experiment, number=number, job=job, values={"lr": number / 100}, promise=promise,
            curve=[[20, loss + 1], [40, loss]], looked_step=40, chance=chance, heading_for=loss / 2,
        )  # fmt: skip
    return experiment, owner


def test_time_of_cpu_slots_is_not_called_gpu_time() -> None:
    """Tiles and heads of a cluster without GPUs say what it has."""
    experiment, owner = searched()
    Server.objects.update(device_kind="cpu_slot", last_report_at=AT)

    text = signed_in(owner).get(f"/experiments/{experiment.pk}").content.decode()

    assert "CPU slot time" in text
    assert "GPU time" not in text


def test_page_says_the_best_and_a_reason_for_every_configuration() -> None:
    """The finding is the title; each verdict has its numbers; the charts have tables; GPU time is added up."""
    experiment, owner = searched()

    text = signed_in(owner).get(f"/experiments/{experiment.pk}").content.decode().replace("\u00a0", " ")

    assert "Best so far: a loss of 0.200 with lr 0.02" in text
    assert "Heads for 0.100, 90 % chance to reach 0.100. Has a CPU slot of its own." in text
    assert "Takes turns on what is left." in text
    assert "Poor: heads for 0.850, 1 % chance to reach 0.100." in text
    assert "No verdict before its first look, after 10 steps." in text
    assert "Configuration 2 leads with 0.200, 1 of 3 are given up" in text
    assert "The best so far has lr 0.02" in text
    assert ">1.50<" in text  # GPU-hours of three jobs
    figure = json.loads(text.split('id="parallel-figure" type="application/json">')[1].split("</script>")[0])
    assert len(figure["data"]) == 3


@pytest.mark.parametrize(("state", "is_over"), [("running", False), ("done", True)])
def test_yet_is_said_while_a_loss_may_still_come(state: str, *, is_over: bool) -> None:
    """And how a job tells its loss, by three lines."""
    queue = queue_make("vision")
    owner = member_make(queue)
    experiment = experiment_make(queue, owner, state=state, target_loss=None)
    Configuration.objects.update(
        job=job_make(queue, owner=owner, state=JobState.COMPLETED if is_over else JobState.QUEUED)
    )
    (Path(settings.SHARED_DIR) / "jobs").mkdir(parents=True, exist_ok=True)
    losses_read(at=AT)

    text = signed_in(owner).get(f"/experiments/{experiment.pk}").content.decode()

    assert ("No configuration of search has a loss yet" in text) == (not is_over)
    assert ("none with a loss yet" in text) == (not is_over)
    assert ("none yet" in text) == (not is_over)
    assert ("none yet" in signed_in(owner).get("/experiments").content.decode()) == (not is_over)
    assert "run.report(loss=train_one_step())" in text


def test_losses_of_files_rank_configurations_and_say_where_they_stand(settings: Any, tmp_path: Path) -> None:
    """Best, order, curve, tiles and target count them, on the page, in the list and by REST."""
    settings.SHARED_DIR = tmp_path / "shared"
    experiment, owner = searched()
    silent = job_make(experiment.queue, owner=owner, state=JobState.RUNNING)
    Configuration.objects.filter(experiment=experiment, number=1).update(job=silent)
    file_write(silent, "metrics.csv", b"step,loss\n1,0.5\n2,0.05\n")
    losses_read(at=AT)

    text = signed_in(owner).get(f"/experiments/{experiment.pk}").content.decode().replace("\u00a0", " ")
    row = signed_in(owner).get(f"/api/v1/experiments/{experiment.pk}").json()

    assert "Best so far: a loss of 0.0500 with lr 0.01" in text
    assert "1 loss read from the job's files: loss in metrics.csv." in html.unescape(text)
    assert "Reached the target" in text
    assert (row["best_loss"], row["members"][0]["loss_source"]) == (0.05, "loss in metrics.csv")
    assert row["members"][0]["curve"] == [[1, 0.5], [2, 0.05]]
    [listed] = signed_in(owner).get("/api/v1/experiments").json()["results"]
    assert (listed["best_loss"], listed["best_loss_is_written"]) == (0.05, True)
    shown = signed_in(owner).get("/experiments").content.decode()
    assert "0.0500 <span" in shown
    assert ">from files</span>" in shown


def test_only_owner_and_leads_may_cancel_and_others_get_no_button() -> None:
    """A member who reads along sees no button, and is refused when sending the form anyway."""
    experiment, owner = searched()
    reader = member_make(experiment.queue)
    lead = member_make(experiment.queue, Role.LEAD)
    path = f"/experiments/{experiment.pk}"

    assert "Cancel search" not in signed_in(reader).get(path).content.decode()
    assert signed_in(reader).post(path).status_code == 403
    assert "Cancel search" in signed_in(owner).get(path).content.decode()
    assert signed_in(lead).post(path).status_code == 302
    experiment.refresh_from_db()
    assert experiment.state == "cancelled"


def test_form_names_every_mistake_and_keeps_what_was_typed() -> None:
    """A number that is none, YAML that is none, a parameter without an end: all at once, nothing lost."""
    client = signed_in(member_make(queue_make("vision")))
    sent = {
        "job": "name: x\nqueue: [", "space": "lr: {low: 1}", "sampler": "random", "configurations": "many",
        "total_steps": "100", "feedback_steps": "10", "target_loss": "low", "seed": "0",
    }  # fmt: skip

    answer = client.post("/experiments/new", sent)
    fixed = client.post(
        "/experiments/new",
        {**sent, "job": '{"apiVersion": "v1", "name": "x", "queue": "vision", "command": ["t", "{lr}"]}',
         "configurations": "2", "target_loss": "0.1"},
    )  # fmt: skip

    text = answer.content.decode()
    assert answer.status_code == 422
    assert "Configurations must be a whole number." in text
    assert "Target loss must be a number." in text
    assert "Job: Line 3" in text
    assert "lr: {low: 1}" in text
    assert fixed.status_code == 422
    assert "lr needs low and high, both numbers, or choices." in fixed.content.decode()
    assert not Experiment.objects.exists()


def test_list_is_empty_for_who_sees_no_queue_and_says_how_to_begin() -> None:
    """Members get a button and a command; a stranger sees neither experiments nor a button."""
    experiment, owner = searched()
    stranger = member_make(queue_make("nlp"), Role.VIEWER)

    theirs = signed_in(stranger).get("/experiments").content.decode()

    assert experiment.name in signed_in(owner).get("/experiments").content.decode()
    assert "No experiment yet." in theirs
    assert "Begin an experiment" not in theirs
