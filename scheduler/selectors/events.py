"""Events as rows, and the feed: the newest events that a user may see. Hides what names other jobs and queues."""

from django.db.models import Q, QuerySet

from scheduler.models import Event
from scheduler.selectors.rows import EventRow
from scheduler.selectors.times import iso
from scheduler.selectors.visibility import Actor, access_of

# Names of other jobs and queues: receipts and explanations tell them, to users who may see these.
HIDDEN_DATA = frozenset({"by_job", "job_id", "queue_id", "other_queue_id", "by_queue", "job", "other_queue"})
# Of no queue and no job; every user who is signed in may see them.
PUBLIC_KINDS = ("server_state", "settings")
# Too many to be news: every new reason to wait, every start that is given a secret.
NOT_NEWS = ("job_wait", "secret", "code")


def event_row(event: Event) -> EventRow:
    """Return one event as plain JSON data that every user who sees its queue may read."""
    job, queue, server = event.job, event.queue, event.server
    return {
        "id": event.pk,
        "number": event.number,
        "at": iso(event.at),
        "kind": event.kind,
        "actor": event.actor,
        "job_id": event.job_id,
        "job_number": job.number if job else None,
        "job_name": job.name if job else None,
        "queue": queue.name if queue else None,
        "color_slot": queue.color_slot if queue else None,
        "server": server.name if server else None,
        "old_state": event.old_state,
        "new_state": event.new_state,
        "reason": event.reason,
        "data": {key: value for key, value in event.data.items() if key not in HIDDEN_DATA},
    }


def events_joined(events: QuerySet[Event]) -> QuerySet[Event]:
    """Return the events with what ``event_row`` reads, in one query and without the specs of the jobs."""
    return events.select_related("job", "queue", "server").defer("job__spec", "server__key_hex")


def events_of_feed(user: Actor) -> QuerySet[Event]:
    """Return the events that are news to ``user``: those of the queues that they see; an admin sees all of them."""
    if not (user.is_authenticated and user.is_active):
        return Event.objects.none()
    access = access_of(user)
    events = Event.objects.exclude(kind__in=NOT_NEWS)
    if not access.is_admin:
        public = Q(queue__isnull=True, job__isnull=True, kind__in=PUBLIC_KINDS)
        events = events.filter(Q(queue_id__in=list(access.roles)) | public)
    return events


def feed(user: Actor, limit: int) -> list[EventRow]:
    """Return the newest events that ``user`` may see, newest first."""
    return [event_row(event) for event in events_joined(events_of_feed(user)).order_by("-id")[:limit]]
