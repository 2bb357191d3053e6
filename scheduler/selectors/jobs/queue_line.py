"""The jobs that wait in a queue, in the order of the policy, each with its place in the cluster as it is now."""

from bisect import bisect_left
from typing import TypedDict

from django.db.models import F

from scheduler.core.model.lifecycle import WAITING
from scheduler.models import Job, Queue
from scheduler.selectors.jobs.listing import JobFilters, job_list, job_row
from scheduler.selectors.jobs.rows import JobRow
from scheduler.selectors.visibility import Actor


class QueueLine(TypedDict):
    """The first jobs that wait in a queue; ``elsewhere`` are those among or before them that are no rows of it."""

    jobs: list[JobRow]
    more: int
    elsewhere: int


def queue_line(user: Actor, queue: Queue, *, most: int) -> QueueLine:
    """Return at most so many waiting jobs; those without a place in line stand last.

    A place counts what goes first now: jobs that left the line since the last round do not.
    """
    waiting = job_list(user, JobFilters(states=tuple(sorted(WAITING)), queue=queue.name))
    first = list(waiting.order_by(F("wait_position").asc(nulls_last=True), "number")[:most])
    in_line = [job for job in first if job.wait_position is not None]
    others = _other_places(in_line)
    for at, job in enumerate(in_line, start=1):
        job.wait_position = at + bisect_left(others, job.wait_position or 0)
    return {
        "jobs": [job_row(job) for job in first],
        "more": max(0, waiting.count() - most),
        "elsewhere": len(others),
    }


def _other_places(shown: list[Job]) -> list[int]:
    """Return the places before the last of these jobs that other jobs have, ascending."""
    if not shown:
        return []
    before = Job.objects.filter(state__in=sorted(WAITING), wait_position__lt=shown[-1].wait_position)
    places = before.exclude(pk__in=[job.pk for job in shown]).values_list("wait_position", flat=True)
    return sorted(place for place in places if place is not None)
