"""The loss of a job: what it reported, else the newest value of the loss that it wrote into files of its own.

What is here for many jobs reads the database alone: ``live/observed/written_losses.py`` reads the files and notes there
what it finds. Nothing that decides or that many look at waits for a file of a job.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scheduler.core.model.lifecycle import TERMINAL
from scheduler.models import Job, WrittenLoss
from scheduler.models.event import SampleScope
from scheduler.selectors.files.scalars import Curve, Scalars
from scheduler.selectors.samples import series_thinned

# What a job does so that its loss is known: the end of a sentence.
HOW = "calls run.report(loss=...), or writes a column loss into metrics.csv"
# Names of a loss, the first that is there: as a job would report it, which is that of training.
NAMES = (
    *("loss", "train_loss", "training_loss", "loss_train", "train_loss_epoch", "train_loss_step", "epoch_loss"),
    *("val_loss", "valid_loss", "validation_loss", "eval_loss", "test_loss", "loss_val", "loss_eval", "loss_test"),
)
_HELD_OUT = re.compile(r"(^|[^a-z])(val|valid|validation|eval|test)([^a-z]|$)", re.IGNORECASE)
_PARTS = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLoss:
    """The loss of a job and its step; ``source`` is empty where it was reported, and where there is none.

    ``source`` says which column of which file: ``loss in metrics.csv``.
    """

    value: float | None = None
    step: int | None = None
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLosses:
    """Losses by job id, and of how many jobs the files are not read yet."""

    by_job: dict[str, JobLoss]
    unread: int


def loss_curve(found: Scalars) -> Curve | None:
    """Return the curve that is the loss; None where there is none. Of several runs it is the one written last."""
    ranked = [(rank, curve) for curve in found.curves if (rank := _rank(curve)) is not None]
    return min(ranked, key=lambda one: one[0])[1] if ranked else None


def _rank(curve: Curve) -> tuple[int, bool, float, str] | None:
    """Return what to sort by, the least first; None for what is no loss."""
    name = _PARTS.sub("_", curve.tag.lower()).strip("_")
    if name not in NAMES:
        return None
    return NAMES.index(name), _HELD_OUT.search(curve.run) is not None, -curve.changed_s, curve.run


def losses_of(jobs: Iterable[Job]) -> JobLosses:
    """Return the losses of jobs that their caller may see: what each reported, else what it wrote."""
    by_job: dict[str, JobLoss] = {}
    silent: list[Job] = []
    for job in jobs:
        by_job[job.pk] = JobLoss(value=job.loss, step=job.step)
        if job.loss is None and job.first_started_at is not None:
            silent.append(job)
    written = WrittenLoss.objects.defer("curve").in_bulk([job.pk for job in silent]) if silent else {}
    unread = 0
    for job in silent:
        found = written.get(job.pk)
        unread += not _is_read(job, found)
        if found is not None and found.loss is not None:
            by_job[job.pk] = JobLoss(value=found.loss, step=found.step, source=found.source)
    return JobLosses(by_job=by_job, unread=unread)


def _is_read(job: Job, found: WrittenLoss | None) -> bool:
    """Return whether no other loss can be in its files than the one that was found."""
    if job.directory_removal_at is not None:
        return True
    return found is not None and (found.is_final if job.state in TERMINAL else found.is_whole)


def curves_written(jobs: Sequence[Job]) -> dict[str, list[list[float]]]:
    """Return steps and losses that each of these jobs wrote, by its id."""
    found = WrittenLoss.objects.in_bulk([job.pk for job in jobs]) if jobs else {}
    return {pk: row.curve for pk, row in found.items()}


def losses_so_far(job: Job) -> list[tuple[float, float]]:
    """Return steps and losses of a job, oldest first: what it reported, else what it wrote. Both are thinned."""
    if job.loss is None:
        return [(step, loss) for step, loss in curves_written([job]).get(job.pk, [])]
    series = series_thinned(scope=SampleScope.JOB, scope_id=job.pk, names=("step", "loss"), since=None)
    return [pair for pair in zip(series["step"], series["loss"], strict=True) if None not in pair]
