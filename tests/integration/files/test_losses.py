"""The loss of jobs that report none: which column of which file it is, and that each job's files are read in turn."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from scheduler.core.model.lifecycle import JobState
from scheduler.live.observed import written_losses
from scheduler.live.observed.written_losses import losses_read
from scheduler.models import Job, Queue, Server, WrittenLoss
from scheduler.selectors.files import scalars
from scheduler.selectors.files.losses import JobLoss, losses_of, losses_so_far
from tests.support.rows.experiments import experiment_make
from tests.support.rows.factories import AT, job_make, queue_make, server_make, user_make
from tests.support.rows.files import file_write

pytestmark = pytest.mark.django_db
NONE = JobLoss()
LATER = AT + timedelta(minutes=1)


@pytest.fixture(autouse=True)
def _patient(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # pytest-django's settings
    """However slow this machine is, a look reads to the end."""
    settings.SHARED_DIR = tmp_path / "shared"
    monkeypatch.setattr(scalars, "LOOK_S", 1e9)
    monkeypatch.setattr(written_losses, "NAMES_S", 1e9)


def place() -> tuple[Queue, Server]:
    """Return a queue, and a server with room for all jobs of a test."""
    return queue_make(), server_make(gpus=64)


def job_with(*, state: JobState = JobState.COMPLETED, loss: float | None = None, **written: bytes) -> Job:
    """Return a job that has begun and wrote these tables, by folder."""
    job = job_make(state=state, loss=loss)
    for folder, content in written.items():
        file_write(job, f"{folder}/metrics.csv", content)
    return job


def loss_of(job: Job) -> JobLoss:
    """Return the loss of a job when its files are read."""
    losses_read(at=LATER)
    return losses_of([job]).by_job[job.pk]


def test_a_reported_loss_comes_before_that_of_a_file() -> None:
    """And one that was not reported says where it stands."""
    table = b"step,loss\n1,4.0\n2,0.5\n"

    assert loss_of(job_with(loss=3.0, out=table)) == JobLoss(value=3.0)
    assert loss_of(job_with(out=table)) == JobLoss(value=0.5, step=2, source="loss in out/metrics.csv")


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

    source = f"{column} in out/metrics.csv"
    assert found == (NONE if column is None else JobLoss(value=values[column], step=0, source=source))


def test_runs_of_held_out_data_come_last() -> None:
    """As some trainers give the same name to both."""
    job = job_with(validation=b"epoch,epoch_loss\n1,9.0\n", train=b"epoch,epoch_loss\n1,2.0\n")

    assert loss_of(job) == JobLoss(value=2.0, step=1, source="epoch_loss in train/metrics.csv")


def test_a_job_without_files_has_no_loss() -> None:
    """Before its start, when its directory went before a look, when it wrote none; nothing is left to read."""
    jobs = [job_make(), job_with(out=b"loss\n1\n"), job_with()]
    Job.objects.filter(pk=jobs[1].pk).update(directory_removal_at=AT)
    jobs[1].refresh_from_db()
    losses_read(at=LATER)
    found = losses_of(jobs)

    assert ([*found.by_job.values()], found.unread) == ([NONE] * 3, 0)


def test_a_loss_outlives_the_files_it_was_read_from() -> None:
    """A sweep stays ranked when directories are removed."""
    job = job_with(out=b"loss\n4\n")
    losses_read(at=LATER)
    Job.objects.update(directory_removal_at=LATER)
    job.refresh_from_db()
    found = losses_of([job])

    assert (found.by_job[job.pk].value, found.unread) == (4.0, 0)


def test_running_jobs_are_read_anew_and_ended_ones_to_their_end() -> None:
    """What a job that has ended wrote stays as it is; until it is read, a page says so."""
    running, ended = job_with(state=JobState.RUNNING, out=b"loss\n4\n"), job_with(out=b"loss\n4\n")

    assert losses_of([running, ended]).unread == 2
    losses_read(at=LATER)
    for job in (running, ended):
        file_write(job, "out/metrics.csv", b"loss\n4\n2\n")
    losses_read(at=LATER + written_losses.AGAIN_AFTER)
    found = losses_of([running, ended])
    assert ([one.value for one in found.by_job.values()], found.unread) == ([2.0, 4.0], 0)


def test_every_running_job_is_read_however_little_time_there_is() -> None:
    """Two jobs a look, which is all that a busy machine leaves: one that decides something, and one in turn of all."""
    queue, server = place()
    owner = user_make()
    jobs = [job_make(queue, owner=owner, server=server, state=JobState.RUNNING) for _ in range(7)]
    for number, job in enumerate(jobs):
        file_write(job, "metrics.csv", b"loss\n%d\n" % number)
    search = experiment_make(queue, owner)
    template = search.configurations.get()
    template.delete()
    for number, job in enumerate(jobs[4:], start=1):
        search.configurations.create(number=number, job=job, values=template.values)
    looks = 6
    for look in range(looks):  # so far apart that those that decide are due again
        assert losses_read(at=LATER + look * written_losses.AGAIN_AFTER, go_on=lambda: False) == 2

    assert {one.value for one in losses_of(jobs).by_job.values()} == set(range(7))


def test_a_disk_that_is_away_changes_nothing_that_is_known(tmp_path: Path) -> None:
    """Nor is it the end of what an ended job wrote: it is read when the disk is back."""
    known, unread = job_with(out=b"loss\n4\n"), job_with(out=b"loss\n2\n")
    Job.objects.filter(pk=unread.pk).update(directory_removal_at=AT)
    losses_read(at=LATER)
    Job.objects.filter(pk=unread.pk).update(directory_removal_at=None)
    WrittenLoss.objects.filter(job=known).update(is_final=False)
    jobs = tmp_path / "shared" / "jobs"
    jobs.rename(tmp_path / "away")
    again = LATER + written_losses.AGAIN_AFTER
    losses_read(at=again)
    away = losses_of(Job.objects.all())
    (tmp_path / "away").rename(jobs)
    losses_read(at=again + written_losses.AGAIN_AFTER)
    back = losses_of(Job.objects.all())

    assert (away.by_job[known.pk].value, away.by_job[unread.pk].value, away.unread) == (4.0, None, 2)
    assert (back.by_job[known.pk].value, back.by_job[unread.pk].value, back.unread) == (4.0, 2.0, 0)


def test_a_job_of_before_is_read_once() -> None:
    """A sweep that ended last week, before anything was read, is ranked by its files."""
    job = job_with(out=b"loss\n4\n")
    Job.objects.filter(pk=job.pk).update(ended_at=AT - timedelta(days=7))

    assert loss_of(job).value == 4.0
    assert losses_read(at=LATER + written_losses.AGAIN_AFTER) == 0


def test_a_look_is_bounded_and_the_next_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of many lines keeps no other from being read; what is known of it so far is told."""
    monkeypatch.setattr(scalars, "LOOK_BYTES", 1)
    monkeypatch.setattr(scalars, "PIECE_BYTES", 1_000)
    large = job_with(state=JobState.RUNNING, out=b"loss\n" + b"5.0\n" * 600)
    small = job_with(state=JobState.RUNNING, out=b"loss\n4\n")
    losses_read(at=LATER)
    first = losses_of([large, small])
    for look in range(1, 5):
        losses_read(at=LATER + look * written_losses.AGAIN_AFTER)

    assert [one.step for one in first.by_job.values()] == [247, 0]
    assert first.unread == 2  # a look that spent all its bytes does not know whether there are more
    assert losses_of([large]).by_job[large.pk].step == 599


def test_words_of_a_hostile_job_are_kept_as_far_as_they_could_be_reported() -> None:
    """No number that is none, none beyond what a report may say, no letter that a page or a database cannot take."""
    lines = [
        b'{"step": 1, "lo\\u0000ss ": 9}',
        b'{"step": 1, "loss\\u0000": 1e999}',
        b'{"step": 2, "loss\\u0000": 1e300}',
        b'{"step": 1e300, "loss\\u0000": 1}',
        b'{"step": -5, "loss\\u0000": 1}',
        b'{"step": 3, "loss\\u0000": 7}',
        *(b'{"step": %d, "loss\\u0000": 7}' % step for step in range(4, 5_000)),
        b'{"step": 5000, "loss\\u0000": NaN}',
    ]
    job = job_make(state=JobState.RUNNING)
    file_write(job, f"{'d' * 250}/{'e' * 250}/log.jsonl", b"\n".join(lines) + b"\n")
    found = loss_of(job)

    assert (found.value, found.step) == (7.0, 4_999)
    assert found.source.startswith("loss\ufffd in ddd")
    assert len(found.source) == 300
    assert len(losses_so_far(job)) <= written_losses.POINTS


def test_losses_so_far_are_those_of_the_file_where_none_was_reported() -> None:
    """Of a run that went back to a checkpoint in the order in which they were written."""
    job = job_with(out=b"step,loss\n10,4\n20,3\n10,3.5\n20,2\n")
    losses_read(at=LATER)

    assert losses_so_far(job) == [(10, 4), (20, 3), (10, 3.5), (20, 2)]
