"""How long the directory of a job is kept: the one rule of pages, REST and the sweep that has directories removed."""

from datetime import datetime, timedelta

from django.db.models import Q

from scheduler.models import Job, Queue

# Nothing goes sooner after the end of its job, whatever a queue says, and beyond a limit too.
KEPT_AT_LEAST = timedelta(days=3)
KEPT_AHEAD = timedelta(days=365)  # what is to stay for longer is asked for again, or belongs elsewhere


def kept_for(queue: Queue) -> timedelta:
    """Return how long after the end of a job its queue keeps the directory; older rules may say less than the least."""
    return max(KEPT_AT_LEAST, timedelta(days=queue.keep_directories_days))


def queue_keeps_until(job: Job) -> datetime | None:
    """Return until when the rule of its queue keeps the directory of a job; None without a directory or an end."""
    if job.directory_bytes is None or job.ended_at is None:
        return None
    return job.ended_at + kept_for(job.queue)


def directory_kept_until(job: Job) -> datetime | None:
    """Return until when the directory of a job is kept: by its queue, or later where a user asked for it.

    A limit of the queue on bytes may remove it before. ``too_old`` is the same for many jobs.
    """
    by_queue = queue_keeps_until(job)
    return by_queue and max(by_queue, job.keep_directory_until or by_queue)


def has_later_day(job: Job, at: datetime) -> bool:
    """Return whether there is a day, a year ahead at most, that is later than the rule of its queue."""
    return max(at, queue_keeps_until(job) or at) + timedelta(days=1) <= at + KEPT_AHEAD


def is_too_old(queue: Queue, job: Job, at: datetime) -> bool:
    """Return whether ``directory_kept_until`` of an ended job is over; ``too_old`` is the same for many jobs."""
    assert job.ended_at is not None
    asked = job.keep_directory_until
    return job.ended_at < at - kept_for(queue) and (asked is None or asked < at)


def too_old(queue: Queue, at: datetime) -> Q:
    """Return what selects those ended jobs of a queue whose ``directory_kept_until`` is over."""
    asked_is_over = Q(keep_directory_until=None) | Q(keep_directory_until__lt=at)
    return asked_is_over & Q(ended_at__lt=at - kept_for(queue))
