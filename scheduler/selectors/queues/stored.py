"""What the directories of a queue's jobs take, against what the queue keeps, and what another rule would remove."""

import copy
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet, Sum

from scheduler.models import Job, Queue
from scheduler.models.job import ENDED
from scheduler.selectors.directories import KEPT_AT_LEAST, is_too_old

LARGEST = 3
LIMITS = ("directories_most_bytes", "user_directories_most_bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """Bytes in the directories of a queue, those that are being removed left out.

    Attributes:
        most_bytes: None for no limit.
        free_from: When the first directory may go because of the limit; None when none has to.
    """

    num_bytes: int
    most_bytes: int | None
    free_from: datetime | None


def kept_directories(queue: Queue) -> QuerySet[Job]:
    """Return the jobs of a queue whose directories are there to stay for now."""
    kept = Job.objects.filter(queue=queue, directory_bytes__isnull=False, directory_removed_at=None)
    return kept.filter(directory_removal_at=None)


def queue_stored(queue: Queue) -> Stored:
    """Return what the jobs of a queue store."""
    kept = kept_directories(queue)
    num_bytes = kept.aggregate(sum=Sum("directory_bytes"))["sum"] or 0
    most, free_from = queue.directories_most_bytes, None
    if most is not None and num_bytes > most:
        oldest = kept.filter(state__in=ENDED).order_by("ended_at").values_list("ended_at", flat=True).first()
        free_from = oldest and oldest + KEPT_AT_LEAST
    return Stored(num_bytes=num_bytes, most_bytes=most, free_from=free_from)


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """Directories that go within three days under another rule of their queue, and stay for longer under the present.

    Attributes:
        now_jobs: How many of them go within minutes; the others when their jobs ended three days ago, or grow too old.
        largest: Number of the job and bytes of the largest few, largest first.
        within_days: When the last of them have gone.
    """

    num_jobs: int
    num_bytes: int
    now_jobs: int
    largest: tuple[tuple[int, int], ...]
    within_days: int = KEPT_AT_LEAST.days


def rule_removes(queue: Queue, rule: Mapping[str, int | None], at: datetime) -> Removal:
    """Return what other columns of its rule would remove from a queue; one query at most, for any number of jobs."""
    other = copy.copy(queue)
    for column, value in rule.items():
        setattr(other, column, value)
    if not _is_shorter(queue, other):
        return Removal(num_jobs=0, num_bytes=0, now_jobs=0, largest=())
    columns = ("number", "owner_id", "state", "directory_bytes", "ended_at", "keep_directory_until")
    jobs = list(kept_directories(queue).only(*columns).order_by("ended_at", "pk"))
    then = at + KEPT_AT_LEAST
    now, later = _gone(other, jobs, at, then)
    anyway = set().union(*_gone(queue, jobs, at, then))
    gone = sorted((now | later) - anyway, key=lambda job: (-(job.directory_bytes or 0), job.number))
    return Removal(
        num_jobs=len(gone),
        num_bytes=sum(job.directory_bytes or 0 for job in gone),
        now_jobs=len(now - anyway),
        largest=tuple((job.number, job.directory_bytes or 0) for job in gone[:LARGEST]),
    )


def _is_shorter(queue: Queue, other: Queue) -> bool:
    lower = any(
        (most := getattr(other, limit)) is not None and most < (getattr(queue, limit) or float("inf"))
        for limit in LIMITS
    )
    return lower or other.keep_directories_days < queue.keep_directories_days


def _gone(queue: Queue, jobs: list[Job], *moments: datetime) -> list[set[Job]]:
    """Return what the sweep takes at each of the moments, of jobs in the order of their ends."""
    held: Counter[int] = Counter()
    for job in jobs:
        held[job.owner_id] += job.directory_bytes or 0
    left, found = [job for job in jobs if job.state in ENDED], []
    for at in moments:
        gone = {job for job in left if is_too_old(queue, job, at)}
        for job in gone:
            held[job.owner_id] -= job.directory_bytes or 0
        oldest = (job for job in left if job not in gone and job.ended_at and job.ended_at < at - KEPT_AT_LEAST)
        gone |= set(beyond_limits(queue, held, list(oldest)))
        left = [job for job in left if job not in gone]
        found.append(gone)
    return found


def beyond_limits(queue: Queue, held: dict[int, int], oldest: Iterable[Job]) -> list[Job]:
    """Return those of the oldest directories that have to go for the limits of the queue and of its users.

    Args:
        held: Bytes of each owner, by key; what goes is taken from it.
    """
    most, most_of_user, total = queue.directories_most_bytes, queue.user_directories_most_bytes, sum(held.values())
    gone = []
    for job in oldest:
        is_over = most is not None and total > most
        if is_over or (most_of_user is not None and held[job.owner_id] > most_of_user):
            held[job.owner_id] -= job.directory_bytes or 0
            total -= job.directory_bytes or 0
            gone.append(job)
    return gone
