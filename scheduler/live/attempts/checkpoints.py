"""Finds the checkpoint that the next attempt of a job starts from.

The job's row has the newest one that was reported. An attempt that was given up unheard may have written later ones,
which count now that it is over. Only names are read here; the job-side runtime checks the content against the hash in
the name and falls back to an older one. Where jobs run as users of their own, their directories are closed to this
process: then what was reported counts.
"""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from django.conf import settings

from scheduler.core.model.lifecycle import EndCause
from scheduler.models import Attempt, Job
from scheduler.models.job import AttemptKind

# As ``agents/runtime/checkpoints.py`` names them, in the directory of their attempt.
NAME = re.compile(r"step-(\d{6,18})-[0-9a-f]{16}\.(?:pt|json)")
DIRECTORY = "checkpoints"
ATTEMPT_ID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")
# End causes after which a checkpoint may be there that no report has named.
UNHEARD = frozenset({EndCause.SERVER_LOST, EndCause.SUPERVISOR_LOST, EndCause.LAUNCH_UNCONFIRMED})
ATTEMPTS_LOOKED_AT = 8
FILES_LOOKED_AT = 1_000  # the runtime keeps two; a job may write what it likes


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """One checkpoint of a job."""

    attempt_id: str
    name: str
    step: int | None


def resume_from(job: Job) -> Checkpoint | None:
    """Return the newest checkpoint of a job without open attempt: of equal steps the one that was reported."""
    newest = None
    if job.checkpoint_attempt_id:
        newest = Checkpoint(attempt_id=job.checkpoint_attempt_id, name=job.checkpoint_name, step=job.checkpoint_step)
    ran = Attempt.objects.filter(job=job).exclude(kind=AttemptKind.SMOKE).order_by("-number")
    for attempt_id, end_cause in ran.values_list("pk", "end_cause")[:ATTEMPTS_LOOKED_AT]:
        if end_cause not in UNHEARD:
            break  # its end was reported, and with it the newest checkpoint up to then
        found = _newest_of(attempt_id)
        if found is not None and (newest is None or (found.step or 0) > (newest.step or 0)):
            newest = found
    return newest


def _newest_of(attempt_id: str) -> Checkpoint | None:
    """Return the checkpoint with the highest step in the directory of an attempt."""
    newest: Checkpoint | None = None
    with suppress(OSError), _opened(attempt_id) as directory, os.scandir(directory) as entries:
        for entry in islice(entries, FILES_LOOKED_AT):
            match = NAME.fullmatch(entry.name)
            if match is None or (newest is not None and int(match[1]) <= (newest.step or 0)):
                continue
            status = os.stat(entry.name, dir_fd=directory, follow_symlinks=False)
            if stat.S_ISREG(status.st_mode) and status.st_size:
                newest = Checkpoint(attempt_id=attempt_id, name=entry.name, step=int(match[1]))
    return newest


@contextmanager
def _opened(attempt_id: str) -> Iterator[int]:
    """Open the directory of an attempt's checkpoints; no symbolic link is followed. Raises OSError."""
    if not ATTEMPT_ID.fullmatch(attempt_id):
        raise FileNotFoundError(attempt_id)
    descriptor: int | None = None
    try:
        for name in (str(Path(settings.SHARED_DIR) / "attempts"), attempt_id, DIRECTORY):
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=descriptor)
            if descriptor is not None:
                os.close(descriptor)
            descriptor = inner
        assert descriptor is not None
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)
