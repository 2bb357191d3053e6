"""Reads the losses that jobs write into files of their own, for searches, early stop and pages; in a thread of its own.

A look at one job takes so many bytes and so much time at most, whatever it wrote (``selectors/files/scalars.py``), and
the next one goes on there. Jobs come in turn, the one that was read longest ago first, and every other one is a job
whose loss decides something: however many jobs are running, each is read.
"""

import math
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import chain, zip_longest

from django.db.models import F, Q, QuerySet

from agents.protocol.fields import MOST_LOSS, MOST_STEPS
from scheduler.core.model.errors import NotFound
from scheduler.core.model.lifecycle import TERMINAL
from scheduler.models import Job, WrittenLoss
from scheduler.models.experiment import ExperimentState
from scheduler.selectors.files.losses import loss_curve
from scheduler.selectors.files.opening import FilesAway
from scheduler.selectors.files.scalars import Curve, Scalars, scalars_of
from scheduler.selectors.files.survey import job_survey

AGAIN_AFTER = timedelta(seconds=5)
# For how long after its end a job's files are read: once some of them have been read, and while none has been.
AFTER_END, UNREAD_AFTER_END = timedelta(days=1), timedelta(days=30)
AT_LEAST = 2  # jobs read in each call: one whose loss decides something, and one of all in turn
AT_ONCE = 20
POINTS = 200
MOST_NAMES = 20_000  # of files looked at for one job, as on its page
NAMES_S = 0.5


def losses_read(*, at: datetime, go_on: Callable[[], bool] = lambda: True) -> int:
    """Read the files of jobs that reported no loss, and note what is there; return of how many.

    Args:
        go_on: Asked before each job but the first AT_LEAST.
    """
    rows: list[WrittenLoss] = []
    for job in _in_turn(at):
        if len(rows) >= AT_LEAST and not go_on():
            break
        rows.append(_read(job, at=at))
    looked = ["read_at", "is_whole", "is_final"]
    # A loss that was read stays known when its file is gone or cannot be read.
    for found, fields in (
        ([row for row in rows if row.loss is not None], ["source", "curve", "step", "loss", *looked]),
        ([row for row in rows if row.loss is None], looked),
    ):
        WrittenLoss.objects.bulk_create(found, update_conflicts=True, unique_fields=["job"], update_fields=fields)
    return len(rows)


def _in_turn(at: datetime) -> list[Job]:
    """Return jobs to read, in turn one whose loss decides something and one of all."""
    is_due = Q(written_loss=None) | Q(written_loss__read_at__lte=at - AGAIN_AFTER) & (
        Q(ended_at=None) | Q(written_loss__is_final=False)
    )
    silent = Job.objects.filter(loss=None, first_started_at__isnull=False, directory_removal_at=None)
    never = Q(written_loss=None, ended_at__gt=at - UNREAD_AFTER_END)
    due = silent.filter(is_due).filter(Q(ended_at=None) | Q(ended_at__gt=at - AFTER_END) | never)
    decides = Q(configuration__experiment__state=ExperimentState.RUNNING) | Q(spec__progress__early_stop=True)
    pairs = zip_longest(_oldest(due.filter(decides)), _oldest(due))
    return list({job.pk: job for job in chain.from_iterable(pairs) if job is not None}.values())


def _oldest(due: QuerySet[Job]) -> list[Job]:
    rows = due.order_by(F("written_loss__read_at").asc(nulls_first=True), "number")
    return list(rows.only("pk", "state", "first_started_at", "directory_removal_at")[:AT_ONCE])


def _read(job: Job, *, at: datetime) -> WrittenLoss:
    try:
        found = scalars_of(job, job_survey(job, most=MOST_NAMES, most_s=NAMES_S))
    except NotFound as error:  # it has no directory, none that we may read, or none now
        found = Scalars(files=0, folder="", curves=[], notes=[], is_whole=not isinstance(error, FilesAway))
    curve = loss_curve(found)
    points = [] if curve is None else _points(curve)
    row = WrittenLoss(job=job, read_at=at, is_whole=found.is_whole, is_final=found.is_whole and job.state in TERMINAL)
    if curve is not None and points:
        row.source, row.curve = _shown(curve.source), points
        row.step, row.loss = int(points[-1][0]), points[-1][1]
    return row


def _points(curve: Curve) -> list[tuple[float, float]]:
    """Return the points of a curve that a job could have reported, thinned, the newest among them."""
    every = [pair for part in curve.parts for pair in zip(*part.points(), strict=True)]
    fit = [(step, loss) for step, loss in every if 0 <= step <= MOST_STEPS and abs(loss) <= MOST_LOSS]
    stride = math.ceil(len(fit) / POINTS) or 1
    return fit[::-1][::stride][::-1]


def _shown(source: str) -> str:
    """Return a source as a page can show it: a job chose the words."""
    text = "".join(letter if letter.isprintable() else "\ufffd" for letter in source)
    return text if len(text) <= 300 else f"{text[:299]}…"
