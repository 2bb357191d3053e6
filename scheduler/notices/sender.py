"""Sends due deliveries: signs and posts or mails them, and records the result.

A message is sent at least once; receivers recognise repeats by ``X-Delivery``. A failed one is tried again after 10 s,
then after six times as long each time, and given up after a day and a half.
"""

import hashlib
import hmac
import json
import logging
import smtplib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import quote

from django.conf import settings
from django.core.mail import send_mail
from django.db.models import F

from scheduler.models import Delivery
from scheduler.models.webhook import DeliveryState
from scheduler.notices.safe_http import post
from scheduler.selectors.rows import Json
from scheduler.services.accounts.webhooks import webhook_secret
from scheduler.services.public_address import AddressRefused, Network

log = logging.getLogger(__name__)

RETRY_AFTER_S = (10, 60, 360, 2_160, 12_960, 43_200, 43_200)  # after the first try, the second, ...
SAID = {
    "job.started": "has started",
    "job.finished": "has completed",
    "job.failed": "has failed",
    "job.cancelled": "is cancelled",
    "job.preempted": "is preempted",
}
# A try that never ended, because its process was killed, is repeated after so long.
BEGUN_FOR = timedelta(seconds=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryTry:
    """The result of one try; ``problem`` is empty when the receiver accepted the message."""

    problem: str = ""
    status: int | None = None


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """Return the value of ``X-Signature-256`` over time and body, so that neither can be changed."""
    made = hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256)
    return f"sha256={made.hexdigest()}"


def due(at: datetime) -> list[Delivery]:
    """Return the oldest due deliveries."""
    rows = Delivery.objects.filter(next_at__lte=at).order_by("next_at", "pk")
    return list(rows.select_related("webhook__queue", "mail__user")[:500])


def deliver(delivery: Delivery, *, at: datetime) -> bool:
    """Try one delivery, unless another process does; return whether the receiver accepted it."""
    begun = Delivery.objects.filter(pk=delivery.pk, next_at=delivery.next_at)
    if begun.update(next_at=at + BEGUN_FOR, tries=F("tries") + 1) != 1:
        return False
    started_s = time.monotonic()
    tried = _post(delivery, at) if delivery.webhook is not None else _mail(delivery)
    _keep(delivery, tried, at=at, took_s=time.monotonic() - started_s)
    return not tried.problem


def _post(delivery: Delivery, at: datetime) -> DeliveryTry:
    webhook, body = delivery.webhook, delivery.body.encode()
    assert webhook is not None
    timestamp = str(int(at.timestamp()))
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "clusterweb",
        "X-Delivery": str(delivery.pk),
        "X-Timestamp": timestamp,
        "X-Signature-256": signature(webhook_secret(webhook), timestamp, body),
    }
    networks: Sequence[Network] = settings.WEBHOOK_NETWORKS
    try:
        status = post(webhook.url, body, headers, allowed=networks)
    except AddressRefused as error:
        return DeliveryTry(problem=str(error)[:200])
    return DeliveryTry(status=status, problem="" if 200 <= status < 300 else f"It answered {status}.")


def _mail(delivery: Delivery) -> DeliveryTry:
    assert delivery.mail is not None
    body = json.loads(delivery.body)
    subject, why, path = _said(delivery.notice, body)
    lines = [f"{subject}.", "", f"Queue: {body.get('queue', '')}", f"At: {body['at']}", f"Why: {why}"]
    site = settings.SITE_URL or "Clusterweb: "
    lines += ["", f"{site}{path}", "", f"You chose this mail on {site}/me."]
    try:
        send_mail(" ".join(subject.split()), "\n".join(lines), None, [delivery.mail.user.email])
    except (OSError, smtplib.SMTPException) as error:
        return DeliveryTry(problem=f"The mail server did not take it: {type(error).__name__}.")
    return DeliveryTry()


def _said(notice: str, body: Json) -> tuple[str, str, str]:
    """Return the subject of a mail, the reason, and the page that it leads to."""
    if notice == "quota.answered":
        data, queue = body["data"], body["queue"]
        verb = "granted" if body["reason"] == "grant" else "refused"
        given = f": the quota is {data['given_gpus']}" if data["given_gpus"] is not None else ""
        subject = f"Your request for quota of {queue} was {verb} by {body['by']}{given}"
        return subject, data["reason"], f"/queues/{quote(queue)}?tab=requests"
    job = body["job"]
    return f"J-{job['number']} {job['name']} {SAID[notice]}", body["reason"], job["path"]


def _keep(delivery: Delivery, tried: DeliveryTry, *, at: datetime, took_s: float) -> None:
    tries = delivery.tries + 1
    again = tried.problem and tries <= len(RETRY_AFTER_S)
    state = DeliveryState.WAITING if again else DeliveryState.FAILED if tried.problem else DeliveryState.DELIVERED
    # A delivery revoked meanwhile stays revoked.
    Delivery.objects.filter(pk=delivery.pk, state=DeliveryState.WAITING).update(
        state=state,
        next_at=at + timedelta(seconds=RETRY_AFTER_S[tries - 1]) if again else None,
        ended_at=None if again else at,
        status=tried.status,
        problem=tried.problem,
        took_s=took_s,
    )
    log.info("notice_sent", extra={"delivery": delivery.pk, "state": str(state), "status": tried.status})
