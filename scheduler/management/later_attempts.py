"""After a restore: finds the attempts that began after the backup was written, in the shared directory.

The database knows nothing of them, so their agents stop them as soon as they hear of the new epoch. They are recorded
as given up, so that their jobs resume from the checkpoints that they wrote, and their logs can be read.
"""

import json
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from django.conf import settings
from django.db import transaction
from django.db.models import Max

from agents.protocol.desired_state import AttemptWanted
from agents.protocol.errors import Malformed
from scheduler.core.model.lifecycle import TERMINAL, EndCause
from scheduler.live.servers.lost import lost_after_s
from scheduler.models import Attempt, Job
from scheduler.models.job import AttemptState
from scheduler.services.jobs.state import job_event

ATTEMPT_ID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")
LAUNCH_FILE = "launch.json"  # made by the agent, see ``agents/core/records.py``
MOST_BYTES = 8 * 2**20
DETAIL = "It began after the backup that was restored had been written."


@dataclass(frozen=True, slots=True, kw_only=True)
class _Launch:
    """How and when an agent launched an attempt."""

    order: AttemptWanted
    epoch: int
    at: datetime


def later_attempts_record(*, at: datetime) -> int:
    """Record them as given up, oldest first; return how many. Of a gang, its leader stands for all."""
    directory = Path(settings.SHARED_DIR) / "attempts"
    newest = Attempt.objects.aggregate(newest=Max("pk"))["newest"] or ""
    names: list[str] = []
    with suppress(OSError):
        names = sorted(name for name in os.listdir(directory) if ATTEMPT_ID.fullmatch(name) and name > newest)
    return sum(_record(directory, name, at=at) for name in names)


@transaction.atomic
def _record(directory: Path, attempt_id: str, *, at: datetime) -> bool:
    launch = _launch(directory, attempt_id)
    if launch is None:
        return False
    order = launch.order
    job = Job.objects.filter(pk=order.job_id).exclude(state__in=TERMINAL).first()
    if job is None or (order.gang is not None and not order.gang.members):
        return False
    number = (job.attempts.aggregate(newest=Max("number"))["newest"] or 0) + 1
    Attempt.objects.create(
        id=attempt_id,
        job=job,
        number=number,
        state=AttemptState.ENDED,
        num_gpus=max(1, len(order.gpu_indexes)),
        epoch=launch.epoch,
        round_number=0,
        resume_attempt_id=order.resume_attempt_id,
        resume_name=order.resume_name,
        created_at=min(at, launch.at),
        ended_at=at,
        end_cause=EndCause.SERVER_LOST,
        end_detail=DETAIL,
    )
    # Its server may not have heard of the new epoch yet: by then its lease is over.
    waits = {"retry_after": at + timedelta(seconds=lost_after_s())}
    data = {"attempt": number, "detail": DETAIL}
    job_event(job=job, kind="job_restored", at=at, actor="scheduler", reason="restore", data=data, changes=waits)
    return True


def _launch(directory: Path, attempt_id: str) -> _Launch | None:
    """Return how an attempt was launched; None when that cannot be read. No symbolic link is followed."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        folder = os.open(directory / attempt_id, flags | os.O_DIRECTORY)
        try:
            descriptor = os.open(LAUNCH_FILE, flags | os.O_NONBLOCK, dir_fd=folder)
        finally:
            os.close(folder)
        with open(descriptor, "rb") as file:
            written_s = os.fstat(descriptor).st_mtime
            data = json.loads(file.read(MOST_BYTES))
        return _Launch(
            order=AttemptWanted.parse(data["order"]),
            epoch=min(2**62, max(0, int(data["epoch"]))),
            at=datetime.fromtimestamp(written_s, tz=UTC),
        )
    except (OSError, Malformed, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
