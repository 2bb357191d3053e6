"""Has the directories of jobs removed that are kept no longer, and notes which are gone.

Too old are those that neither their queue nor a user keeps (``selectors/directories.py``). Beyond a limit on bytes
the oldest go earlier, whatever date a user set: else few jobs of one user could take all the room of a queue.
Agents remove them (``services/jobs/directory.py``); one is gone when nothing of its name is left.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path

from django.conf import settings
from django.db import transaction
from django.db.models import Sum

from agents.protocol.shared_dir import GONE, JOBS_DIR, REMOVALS_DIR
from scheduler.models import Job, Queue
from scheduler.models.job import ENDED
from scheduler.selectors.directories import KEPT_AT_LEAST, too_old
from scheduler.selectors.queues.stored import beyond_limits, kept_directories
from scheduler.services.jobs.directory import directory_ask, directory_name
from scheduler.services.retention.policy import Kept

JOBS_A_CHUNK = 100
LOOKED_AT = 1_000


def directories_chunk_remove(kept: Kept, *, at: datetime) -> int:
    """Ask for the oldest directories beyond what a queue keeps, or note which are gone; return how many."""
    return _ask(kept, at=at) or _note_gone(at)


@transaction.atomic
def _ask(kept: Kept, *, at: datetime) -> int:
    for queue in Queue.objects.order_by("pk"):
        ended = kept.rows.filter(queue=queue, directory_removal_at=None).order_by("ended_at", "pk").select_for_update()
        old = list(ended.filter(too_old(queue, at))[:JOBS_A_CHUNK])
        for job in old:
            directory_ask(job, actor="scheduler", reason="age", at=at)
        over = [] if old else _beyond_limits(queue, list(ended.filter(ended_at__lt=at - KEPT_AT_LEAST)[:JOBS_A_CHUNK]))
        for job in over:
            directory_ask(job, actor="scheduler", reason="limit", at=at)
        if old or over:
            return len(old) + len(over)
    return 0


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


def _without_directory(job_ids: Iterable[str]) -> Iterator[str]:
    jobs = Path(settings.SHARED_DIR) / JOBS_DIR
    if not jobs.is_dir():  # not mounted: that says nothing
        return
    for job_id in job_ids:
        if os.path.lexists(jobs / job_id) or os.path.lexists(jobs / (GONE + job_id)):
            directory_name(job_id)
        else:
            yield job_id
