"""Webhooks that a user may manage, with their deliveries."""

from django.db.models import Count, Max, Q, QuerySet

from scheduler.core.model.errors import NotFound
from scheduler.core.spec.reading import shown
from scheduler.models import Delivery, MailChoice, Webhook
from scheduler.models.queue import Role
from scheduler.models.webhook import DeliveryState
from scheduler.selectors.accounts.rows import DeliveryCounts, DeliveryRow, WebhookRow
from scheduler.selectors.times import iso
from scheduler.selectors.visibility import Actor, access_of


def webhooks_visible(user: Actor) -> QuerySet[Webhook]:
    """Return the webhooks of the queues that ``user`` leads; for an admin all, also those of the whole cluster."""
    access = access_of(user)
    rows = Webhook.objects.select_related("queue", "created_by")
    if access.is_admin:
        return rows
    led = [pk for pk in access.roles if access.at_least(pk, Role.LEAD)]
    return rows.filter(queue_id__in=led)


def require_webhook(user: Actor, webhook_id: int) -> Webhook:
    """Return the webhook with this number.

    Raises:
        NotFound: There is none, or ``user`` may not manage it; the two look alike.
    """
    webhook = webhooks_visible(user).filter(pk=webhook_id).first() if 0 <= webhook_id < 2**63 else None
    if webhook is None:
        raise NotFound(f"There is no webhook {shown(webhook_id)} that you may manage.")
    return webhook


def webhook_row(webhook: Webhook) -> WebhookRow:
    """Return one webhook; never its secret."""
    return {
        "id": str(webhook.pk),
        "name": webhook.name,
        "queue": webhook.queue.name if webhook.queue else None,
        "url": webhook.url,
        "notices": webhook.notices,
        "created_by": webhook.created_by.username,
        "created_at": iso(webhook.created_at),
        "revoked_at": iso(webhook.revoked_at),
    }


def delivery_row(delivery: Delivery) -> DeliveryRow:
    """Return one delivery with the body that was sent."""
    return {
        "id": str(delivery.pk),
        "notice": delivery.notice,
        "state": delivery.state,
        "tries": delivery.tries,
        "status": delivery.status,
        "problem": delivery.problem,
        "took_s": delivery.took_s,
        "created_at": iso(delivery.created_at),
        "next_at": iso(delivery.next_at),
        "ended_at": iso(delivery.ended_at),
        "body": delivery.body,
    }


def delivery_counts(webhooks: list[Webhook]) -> dict[int, DeliveryCounts]:
    """Return the messages of each webhook by state and its newest delivery; none for webhooks without messages."""
    rows = Delivery.objects.filter(webhook__in=webhooks).order_by().values("webhook_id")
    counted = rows.annotate(
        waiting=Count("pk", filter=Q(state=DeliveryState.WAITING)),
        delivered=Count("pk", filter=Q(state=DeliveryState.DELIVERED)),
        failed=Count("pk", filter=Q(state=DeliveryState.FAILED)),
        last_at=Max("ended_at", filter=Q(state=DeliveryState.DELIVERED)),
    )
    return {
        row["webhook_id"]: {
            "waiting": row["waiting"],
            "delivered": row["delivered"],
            "failed": row["failed"],
            "last_at": row["last_at"],
        }
        for row in counted
    }


def mail_notices(user: Actor) -> list[str]:
    """Return the names of the notices that ``user`` gets by mail."""
    choice = MailChoice.objects.filter(user__username=user.get_username()).first()
    return list(choice.notices) if choice else []
