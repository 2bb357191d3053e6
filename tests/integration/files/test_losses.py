"""The loss of jobs that report none: which column of which file it is, and within which bounds files are read."""

from pathlib import Path
from typing import Any

import pytest

from scheduler.core.model.lifecycle import JobState
from scheduler.models import Job
from scheduler.selectors.files import losses, scalars
from scheduler.selectors.files.losses import JobLoss, losses_of
from tests.support.rows.factories import AT, ulid_make
from tests.support.rows.files import file_write

NONE = JobLoss(value=None, source="")


@pytest.fixture(autouse=True)
def _patient(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # pytest-django's settings
    """However slow this machine is, a look reads to the end."""
    settings.SHARED_DIR = tmp_path / "shared"
    monkeypatch.setattr(scalars, "LOOK_S", 1e9)
    monkeypatch.setattr(losses, "READ_S", 1e9)


def job_with(*, state: JobState = JobState.COMPLETED, loss: float | None = None, **written: bytes) -> Job:
    """Return a job that has begun and wrote these tables, by folder."""
    job = Job(id=ulid_make(), first_started_at=AT, state=state, loss=loss)
    for folder, content in written.items():
        file_write(job, f"{folder}/metrics.csv", content)
    return job


def loss_of(job: Job) -> JobLoss:
    """Return what a sweep shows of a job."""
    return losses_of([job]).by_job[job.pk]


def test_a_reported_loss_comes_before_that_of_a_file() -> None:
    """And one that was not reported says where it stands."""
    table = b"step,loss\n1,4.0\n2,0.5\n"

    assert loss_of(job_with(loss=3.0, out=table)) == JobLoss(value=3.0, source="")
    assert loss_of(job_with(out=table)) == JobLoss(value=0.5, source="loss in out/metrics.csv")


@pytest.mark.parametrize(
    ("head", "column"),
    [
        (b"val_loss,train/loss,lr", "train/loss"),
        (b"Loss,train_loss,val_loss", "Loss"),
        (b"acc,eval_loss,lr", "eval_loss"),
        (b"glossary,loss_scale,lossless", None),
    ],
)
def test_the_loss_of_training_is_the_loss(head: bytes, column: str | None) -> None:
    """As jobs report that one; other columns are none, whatever is in their name."""
    values = dict(zip(head.decode().split(","), (1.0, 2.0, 3.0), strict=True))
    found = loss_of(job_with(out=head + b"\n1,2,3\n"))

    assert found == (NONE if column is None else JobLoss(value=values[column], source=f"{column} in out/metrics.csv"))


def test_runs_of_held_out_data_come_last() -> None:
    """As some trainers give the same name to both."""
    job = job_with(validation=b"epoch,epoch_loss\n1,9.0\n", train=b"epoch,epoch_loss\n1,2.0\n")

    assert loss_of(job) == JobLoss(value=2.0, source="epoch_loss in train/metrics.csv")


def test_a_job_without_files_has_no_loss() -> None:
    """Before its start, when they are removed, when it wrote none."""
    removed = job_with(out=b"loss\n1\n")
    removed.directory_removal_at = AT

    assert loss_of(Job(id=ulid_make())) == NONE
    assert loss_of(removed) == NONE
    assert loss_of(job_with()) == NONE


def test_running_jobs_are_read_anew_and_ended_ones_are_remembered() -> None:
    """What a job that has ended wrote stays as it is."""
    running, ended = job_with(state=JobState.RUNNING, out=b"loss\n4\n"), job_with(out=b"loss\n4\n")
    losses_of([running, ended])
    for job in (running, ended):
        file_write(job, "out/metrics.csv", b"loss\n4\n2\n")

    assert (loss_of(running).value, loss_of(ended).value) == (2.0, 4.0)


def test_a_look_that_takes_too_long_says_what_it_left() -> None:
    """And reads no file where a transaction waits for it; what is known already is told."""
    first, second = job_with(out=b"loss\n4\n"), job_with(out=b"loss\n2\n")
    losses_of([first])
    found = losses_of([first, second], reads_files=False)

    assert (found.by_job[first.pk].value, found.by_job[second.pk].value, found.unread) == (4.0, None, 1)
    assert losses_of([first, second]).unread == 0
