"""The loss of a job that reported none: the newest value of the loss that it wrote into files of its own.

What a job reports always comes first. Pages and REST of a sweep ask for many jobs at once: a look takes READ_S at most.
What an ended job wrote is remembered in the memory of this process, so the next look goes on with the jobs after it.
"""

import re
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from scheduler.core.model.errors import NotFound
from scheduler.core.model.lifecycle import TERMINAL
from scheduler.models import Job
from scheduler.selectors.files.scalars import Curve, Scalars, scalars_of
from scheduler.selectors.files.survey import job_survey

# What a job does so that its loss is known: the end of a sentence.
HOW = "calls run.report(loss=...), or writes a column loss into metrics.csv"
# Names of a loss, the first that is there: as a job would report it, which is that of training.
NAMES = (
    *("loss", "train_loss", "training_loss", "loss_train", "train_loss_epoch", "train_loss_step", "epoch_loss"),
    *("val_loss", "valid_loss", "validation_loss", "eval_loss", "test_loss", "loss_val", "loss_eval", "loss_test"),
)
_HELD_OUT = re.compile(r"(^|[^a-z])(val|valid|validation|eval|test)([^a-z]|$)", re.IGNORECASE)
_PARTS = re.compile(r"[^a-z0-9]+")
READ_S = 0.5
MOST_NAMES = 20_000  # of files looked at for one job, as on its page
JOBS_KEPT = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLoss:
    """The newest loss in a job's files; ``source`` says which column of which file: ``loss in metrics.csv``."""

    value: float
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLoss:
    """The loss of a job; ``source`` is empty where it was reported, and where there is none."""

    value: float | None
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLosses:
    """Losses by job id, and of how many jobs the files are not read yet."""

    by_job: dict[str, JobLoss]
    unread: int


_kept: OrderedDict[str, FileLoss | None] = OrderedDict()
_lock = threading.Lock()


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


def losses_of(jobs: Iterable[Job], *, reads_files: bool = True) -> JobLosses:
    """Return the losses of jobs that their caller may see: what each reported, else what it wrote.

    Within a transaction that writes, no file is read: ``reads_files`` is False there.
    """
    end_s, unread = time.monotonic() + (READ_S if reads_files else 0.0), 0
    by_job: dict[str, JobLoss] = {}
    for job in jobs:
        by_job[job.pk] = JobLoss(value=job.loss, source="")
        if job.loss is not None or job.first_started_at is None or job.directory_removal_at is not None:
            continue
        if job.pk not in _kept and time.monotonic() >= end_s:
            unread += 1
            continue
        found, is_all_read = _of_files(job)
        unread += not is_all_read
        if found is not None:
            by_job[job.pk] = JobLoss(value=found.value, source=found.source)
    return JobLosses(by_job=by_job, unread=unread)


def _of_files(job: Job) -> tuple[FileLoss | None, bool]:
    """Return the loss in a job's files as far as they are read, and whether that is all there is."""
    with _lock:
        if job.pk in _kept:
            _kept.move_to_end(job.pk)
            return _kept[job.pk], True
    try:
        scalars = scalars_of(job, job_survey(job, most=MOST_NAMES))
    except NotFound:
        return None, True
    curve = loss_curve(scalars)
    found = None if curve is None else FileLoss(value=curve.last[1], source=curve.source)
    if scalars.is_whole and job.state in TERMINAL:
        with _lock:
            _kept[job.pk] = found
            while len(_kept) > JOBS_KEPT:
                _kept.popitem(last=False)
    return found, scalars.is_whole
