"""Creates one delivery per event and receiver that chose it.

Events are written in the transaction of the change they describe, so only what happened is sent. Their ids may become
visible out of order: the newest events are read again until they are older than any transaction lasts, and a constraint
refuses a second delivery of one event to one receiver.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from scheduler.models import Delivery, Event, MailChoice, Queue, Webhook
from scheduler.selectors.accounts.notices import KINDS, notice_body, notice_of

SETTLED_AFTER = timedelta(seconds=30)
MOST_EVENTS = 2_000  # of one look
NEWS_FOR = timedelta(days=1)  # older events are not sent any more
Receiver = Webhook | MailChoice


class DeliveryOutbox:
    """Remembers up to which event deliveries exist. One thread calls ``look``; a second process does no harm."""

    def __init__(self) -> None:
        self._settled: int | None = None
        self._told: set[int] = set()

    def look(self, at: datetime) -> int:
        """Create the deliveries of new events; return how many events were new."""
        receivers = _receivers()
        if not receivers:
            # No receivers: later ones get only later events.
            self._settled, self._told = None, set()
            return 0
        if self._settled is None:
            self._settled = _told_before(receivers)
        events = list(
            Event.objects.filter(pk__gt=self._settled, kind__in=KINDS)
            .select_related("job__owner", "job__queue", "queue", "server")
            .defer("job__spec", "server__key_hex")
            .order_by("pk")[:MOST_EVENTS]
        )
        fresh = [event for event in events if event.pk not in self._told]
        made = [row for event in fresh for row in _deliveries(event, receivers, at)]
        Delivery.objects.bulk_create(made, ignore_conflicts=True, batch_size=200)
        self._told |= {event.pk for event in fresh}
        self._settle(events, at)
        return len(fresh)

    def _settle(self, events: list[Event], at: datetime) -> None:
        """Advance past events that no open transaction can still precede."""
        for event in events:
            if at - event.at < SETTLED_AFTER and len(events) < MOST_EVENTS:
                break
            self._settled = event.pk
            self._told.discard(event.pk)


def _receivers() -> list[Receiver]:
    webhooks = Webhook.objects.filter(revoked_at=None).order_by("pk")
    choices = MailChoice.objects.exclude(notices=[]).filter(user__is_active=True).exclude(user__email="")
    return [*webhooks, *choices.select_related("user").order_by("pk")]


def _told_before(receivers: list[Receiver]) -> int:
    """Return the event after which a restarted process looks, by the newest deliveries."""
    first = min(receiver.first_event for receiver in receivers)
    newest = Delivery.objects.exclude(event=None).order_by("-event_id").values_list("event_id", "event__at").first()
    if newest is None:
        return first
    before = Event.objects.filter(pk__lt=newest[0], at__lt=newest[1] - SETTLED_AFTER).order_by("-pk")
    return max(first, before.values_list("pk", flat=True).first() or 0)


def _deliveries(event: Event, receivers: Iterable[Receiver], at: datetime) -> list[Delivery]:
    notice = notice_of(kind=event.kind, old_state=event.old_state, new_state=event.new_state)
    if not notice or at - event.at > NEWS_FOR:
        return []
    found = [one for one in receivers if notice in one.notices and event.pk > one.first_event and _concerns(one, event)]
    if not found:
        return []
    body = notice_body(notice, event)
    return [
        Delivery(
            webhook=one if isinstance(one, Webhook) else None,
            mail=one if isinstance(one, MailChoice) else None,
            event=event,
            notice=notice,
            body=body,
            next_at=at,
            created_at=at,
        )
        for one in found
    ]


def _concerns(receiver: Receiver, event: Event) -> bool:
    """Return whether the receiver may get an event: of its queue or below, or of the user's own job or request."""
    if isinstance(receiver, MailChoice):
        if event.job is None:
            return bool(event.kind == "quota_answer" and event.data.get("user") == receiver.user.username)
        return event.job.owner_id == receiver.user_id
    if receiver.queue_id is None:
        return True
    queue: Queue | None = event.queue
    while queue is not None and queue.pk != receiver.queue_id:
        queue = queue.parent
    return queue is not None
