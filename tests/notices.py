"""Rows for tests of webhooks and mails."""

from typing import Any

from django.contrib.auth.models import User

from scheduler.models import Delivery, Queue, Webhook
from tests.factories import AT


def webhook_make(user: User, queue: Queue | None = None, **columns: Any) -> Webhook:
    """Return a webhook that is told of everything from the first event on."""
    from scheduler.selectors.notices import NOTICES

    defaults: dict[str, Any] = {
        "name": "chat",
        "url": "https://hooks.example/room",
        "notices": list(NOTICES),
        "nonce": "n" * 43,
        "created_at": AT,
        "first_event": 0,
    }
    return Webhook.objects.create(created_by=user, queue=queue, **{**defaults, **columns})


def delivery_make(webhook: Webhook, **columns: Any) -> Delivery:
    """Return a delivery that waits for its first try."""
    defaults: dict[str, Any] = {"notice": "test", "body": "{}", "next_at": AT, "created_at": AT}
    return Delivery.objects.create(webhook=webhook, **{**defaults, **columns})
