"""What changed since a moment: how many jobs began, completed and failed, and the events themselves."""

from datetime import datetime
from typing import Annotated, TypedDict

from django.db.models import Count, Q

from scheduler.core.model.lifecycle import JobState
from scheduler.models import Event
from scheduler.selectors.events import event_row, events_joined, events_of_feed
from scheduler.selectors.rows import EventRow, Moment
from scheduler.selectors.times import iso
from scheduler.selectors.visibility import Actor, access_of


class ChangesRow(TypedDict):
    """Jobs of queues that you may see, since a moment."""

    since: Moment
    submitted: int
    completed: int
    failed: int
    preempted: Annotated[int, "Preemptions; one job may have several."]


def changes_since(user: Actor, since: datetime) -> ChangesRow:
    """Return how many jobs changed in which way after ``since``, by one query beside those for the roles."""
    access = access_of(user)
    moved = Event.objects.filter(kind="job_state", at__gt=since)
    if not access.is_admin:
        moved = moved.filter(queue_id__in=list(access.roles))
    counts = moved.order_by().aggregate(
        submitted=Count("pk", filter=Q(old_state="")),
        completed=Count("pk", filter=Q(new_state=JobState.COMPLETED)),
        failed=Count("pk", filter=Q(new_state=JobState.FAILED)),
        preempted=Count("pk", filter=Q(new_state=JobState.PREEMPTING)),
    )
    return {
        "since": iso(since),
        "submitted": counts["submitted"],
        "completed": counts["completed"],
        "failed": counts["failed"],
        "preempted": counts["preempted"],
    }


def events_since(user: Actor, since: datetime, *, limit: int) -> list[EventRow]:
    """Return the events after ``since`` that ``user`` may see, newest first."""
    events = events_of_feed(user).filter(at__gt=since)
    return [event_row(event) for event in events_joined(events).order_by("-id")[:limit]]
