"""Has the directories of jobs removed that are kept no longer, and notes which are gone.

Too old are those that neither their queue nor a user keeps (``selectors/directories.py``). Beyond a limit on bytes
the oldest go earlier, whatever date a user set: else few jobs of one user could take all the room of a queue.
Agents remove them (``services/jobs/directory.py``); one is gone when nothing of its name is left.
"""

import contextlib
import json
import os
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

from django.conf import settings
from django.db import transaction
from django.db.models import F, QuerySet, Sum
from django.db.models.functions import Greatest

from agents.protocol.shared_dir import FILE_REMOVALS_DIR, GONE, JOBS_DIR, REMOVALS_DIR
from scheduler.core.model.errors import NotFound
from scheduler.models import Job, Queue
from scheduler.models.job import ENDED
from scheduler.selectors.directories import KEPT_AT_LEAST, too_old
from scheduler.selectors.files.chosen import is_there
from scheduler.selectors.files.opening import job_files
from scheduler.selectors.queues.stored import beyond_limits, kept_directories
from scheduler.services.jobs.directory import directory_ask, directory_name, files_give_up
from scheduler.services.retention.policy import Kept

JOBS_A_CHUNK = 20
OLDEST_OF_LIMIT = 100
LOOKED_AT = 1_000
GIVEN_UP_AFTER = timedelta(days=1)  # agents look at requests each minute


def directories_chunk_remove(kept: Kept, *, at: datetime) -> int:
    """Ask for the oldest directories beyond what a queue keeps, or note which are gone; return how many."""
    return _ask(kept, at=at) or _note_gone(at) or _note_files_gone(at)


def _ask(kept: Kept, *, at: datetime) -> int:
    for queue in Queue.objects.order_by("pk"):
        ended = kept.rows.filter(queue=queue, directory_removal_at=None).order_by("ended_at", "pk")
        old = ended.filter(too_old(queue, at))
        asked = _ask_each(old, old[:JOBS_A_CHUNK], reason="age", at=at)
        if not asked:
            over = _beyond_limits(queue, list(ended.filter(ended_at__lt=at - KEPT_AT_LEAST)[:OLDEST_OF_LIMIT]))
            asked = _ask_each(ended, over[:JOBS_A_CHUNK], reason="limit", at=at)
        if asked:
            return asked
    return 0


def _ask_each(still: QuerySet[Job], found: Iterable[Job], *, reason: str, at: datetime) -> int:
    """Ask for the directories of jobs that were found without a lock, of those that are ``still`` to go."""
    pks = [job.pk for job in found]
    if not pks:
        return 0
    with transaction.atomic():
        jobs = list(still.filter(pk__in=pks).select_for_update())
        for job in jobs:
            directory_ask(job, actor="scheduler", reason=reason, at=at)
    return len(jobs)


def _beyond_limits(queue: Queue, oldest: list[Job]) -> list[Job]:
    if queue.directories_most_bytes is None and queue.user_directories_most_bytes is None:
        return []
    rows = kept_directories(queue).order_by().values_list("owner").annotate(sum=Sum("directory_bytes"))
    return beyond_limits(queue, dict(rows), oldest)


def _note_gone(at: datetime) -> int:
    asked = Job.objects.filter(directory_removal_at__isnull=False, directory_removed_at=None, state__in=ENDED)
    gone = list(
        _without_directory(asked.order_by("directory_removal_at", "pk").values_list("pk", flat=True)[:LOOKED_AT])
    )
    Job.objects.filter(pk__in=gone).update(directory_removed_at=at, directory_bytes=0)
    for job_id in gone:
        with contextlib.suppress(OSError):
            os.unlink(Path(settings.SHARED_DIR) / REMOVALS_DIR / job_id)
    return len(gone)


def _note_files_gone(at: datetime) -> int:
    """Take back requests of which no file is left; the bytes are the job's no more. Return how many.

    What no agent could do within a day is taken back too: its files stay, and an event of the job says so.
    """
    folder = Path(settings.SHARED_DIR) / FILE_REMOVALS_DIR
    try:
        names = sorted(name for name in os.listdir(folder) if not name.startswith("."))[:LOOKED_AT]
    except OSError:
        return 0
    jobs = Job.objects.defer("spec").in_bulk({name.partition(".")[0] for name in names})
    done = 0
    for name in names:
        job = jobs.get(name.partition(".")[0])
        if job is not None and job.directory_removal_at is None:
            freed = _bytes_freed(job, folder / name)
            if freed is None:
                done += _give_up_late(job, folder / name, at)
                continue
            Job.objects.filter(pk=job.pk).update(directory_bytes=Greatest(0, F("directory_bytes") - freed))
        with contextlib.suppress(OSError):
            os.unlink(folder / name)
            done += 1
    return done


def _give_up_late(job: Job, request: Path, at: datetime) -> bool:
    """Take a request back that is older than a day; return whether it is gone."""
    try:
        if at.timestamp() - request.stat().st_mtime < GIVEN_UP_AFTER.total_seconds():
            return False
        files_give_up(job.pk, request, paths=json.loads(request.read_bytes())["paths"], at=at)
    except OSError:
        return False
    return True


def _bytes_freed(job: Job, request: Path) -> int | None:
    """Return how many bytes a request has freed; None while a file of it is there, or where that cannot be seen.

    None at all by one that cannot be read: it is taken back.
    """
    try:
        asked = json.loads(request.read_bytes())
        with job_files(job) as files:
            return None if any(is_there(files, tuple(parts)) for parts in asked["paths"]) else int(asked["disk_bytes"])
    except (OSError, NotFound):
        return None
    except (ValueError, KeyError, TypeError):  # cut off, as by a power cut: no agent can do it
        return 0


def _without_directory(job_ids: Iterable[str]) -> Iterator[str]:
    jobs = Path(settings.SHARED_DIR) / JOBS_DIR
    if not jobs.is_dir():  # not mounted: that says nothing
        return
    for job_id in job_ids:
        if os.path.lexists(jobs / job_id) or os.path.lexists(jobs / (GONE + job_id)):
            directory_name(job_id)
        else:
            yield job_id
