"""Creates and revokes webhooks, and keeps each user's choice of mails. ``scheduler.notices`` sends both."""

import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import Sequence
from datetime import datetime
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction

from scheduler.core.model.errors import Conflict, NotAllowed
from scheduler.models import Delivery, Event, MailChoice, Queue, Webhook
from scheduler.models.queue import Role
from scheduler.selectors.accounts.notices import NOTICES, OF_A_QUEUE, OF_A_USER, TEST
from scheduler.selectors.times import iso
from scheduler.selectors.visibility import Actor, access_of
from scheduler.services.events import event_record
from scheduler.services.inputs import Problems
from scheduler.services.permission import require_admin
from scheduler.services.public_address import AddressRefused, check_address, written_addresses

NAME_CHARS = 80
URL_CHARS = 500
MOST_WEBHOOKS = 50  # live ones of one queue, or of the cluster
SECRET_PREFIX = "cwh_"  # noqa: S105  (how secrets begin, not one)


def webhook_secret(webhook: Webhook) -> str:
    """Return the secret of a webhook, derived so that the database alone does not reveal it."""
    key = hashlib.sha256(b"clusterweb.webhook\x00" + settings.SECRET_KEY.encode()).digest()
    made = hmac.new(key, f"{webhook.pk}:{webhook.nonce}".encode(), hashlib.sha256).digest()
    return SECRET_PREFIX + base64.urlsafe_b64encode(made).decode().rstrip("=")


def webhook_create(
    *, actor: Actor, name: str, url: str, notices: Sequence[str], queue: Queue | None, at: datetime
) -> tuple[Webhook, str]:
    """Return a new webhook and its secret, which is shown once.

    Args:
        queue: It gets the events of this queue and those below it; None for the whole cluster.

    Raises:
        NotAllowed: ``actor`` leads neither the queue nor, for the whole cluster, is an admin.
        SpecInvalid: A bad name, address or notice.
    """
    user = _require_right(actor, queue)
    problems = Problems()
    name = problems.text("name", name, least=1, most=NAME_CHARS)
    url = _checked_url(problems, url)
    kept = _checked_notices(problems, notices, known=tuple(NOTICES) if queue is None else OF_A_QUEUE)
    if Webhook.objects.filter(queue=queue, revoked_at=None).count() >= MOST_WEBHOOKS:
        problems.add("name", "count", f"There are {MOST_WEBHOOKS} webhooks here. Revoke one first.")
    problems.refuse()
    with transaction.atomic():
        webhook = Webhook.objects.create(
            name=name,
            queue=queue,
            url=url,
            notices=kept,
            nonce=secrets.token_urlsafe(32),
            created_by=user,
            created_at=at,
            first_event=_newest_event(),
        )
        _record(webhook, actor=actor, at=at, reason="create", after={"url": url, "notices": kept})
    return webhook, webhook_secret(webhook)


def webhook_renew_secret(*, actor: Actor, webhook: Webhook, at: datetime) -> str:
    """Give a webhook another secret and return it; the old one signs nothing from now on.

    Raises:
        NotAllowed: As for ``webhook_create``.
        Conflict: It is revoked.
    """
    _require_right(actor, webhook.queue)
    with transaction.atomic():
        webhook.nonce = secrets.token_urlsafe(32)
        if Webhook.objects.filter(pk=webhook.pk, revoked_at=None).update(nonce=webhook.nonce) != 1:
            raise Conflict(f"The webhook {webhook.name} is revoked.")
        _record(webhook, actor=actor, at=at, reason="new_secret", after=None)
    return webhook_secret(webhook)


def webhook_revoke(*, actor: Actor, webhook: Webhook, at: datetime) -> None:
    """Revoke a webhook and its waiting deliveries at once; revoking it again changes nothing."""
    _require_right(actor, webhook.queue)
    with transaction.atomic():
        if Webhook.objects.filter(pk=webhook.pk, revoked_at=None).update(revoked_at=at):
            webhook.revoked_at = at
            Delivery.objects.filter(webhook=webhook, state="waiting").update(
                state="failed", next_at=None, ended_at=at, problem="The webhook was revoked."
            )
            _record(webhook, actor=actor, at=at, reason="revoke", after=None)


def webhook_test(*, actor: Actor, webhook: Webhook, at: datetime) -> Delivery:
    """Queue a test message to a webhook; it is sent like any other.

    Raises:
        NotAllowed: As for ``webhook_create``.
        Conflict: It is revoked.
    """
    _require_right(actor, webhook.queue)
    if webhook.revoked_at is not None:
        raise Conflict(f"The webhook {webhook.name} is revoked.")
    body = json.dumps({"notice": TEST, "at": iso(at), "by": actor.username}, separators=(",", ":"))
    with transaction.atomic():
        delivery = Delivery.objects.create(webhook=webhook, notice=TEST, body=body, next_at=at, created_at=at)
        _record(webhook, actor=actor, at=at, reason="test", after=None)
    return delivery


def mail_choose(*, actor: Actor, notices: Sequence[str], at: datetime) -> MailChoice:
    """Keep which notices of the own jobs ``actor`` gets by mail; an empty choice sends none.

    Raises:
        NotAllowed: Not signed in.
        SpecInvalid: An unknown notice, or no address to write to.
    """
    if not (isinstance(actor, User) and actor.is_active):
        raise NotAllowed("Sign in to choose.")
    problems = Problems()
    kept = _checked_notices(problems, notices, known=OF_A_USER, may_be_empty=True)
    if kept and not settings.MAILS_ARE_SENT:
        problems.add("notices", "no_mail", "This installation sends no mails: no mail server is set.")
    elif kept and not actor.email:
        problems.add("notices", "no_address", "There is no mail address of yours. An admin can enter it.")
    problems.refuse()
    with transaction.atomic():
        choice, is_new = MailChoice.objects.get_or_create(
            user=actor, defaults={"notices": kept, "first_event": _newest_event()}
        )
        before = [] if is_new else choice.notices
        if before != kept:
            choice.notices, choice.first_event = kept, _newest_event()
            choice.save(update_fields=["notices", "first_event"])
            data = {"before": {"notices": before}, "after": {"notices": kept}}
            event_record(kind="mail_choice", actor=actor, at=at, reason="change", data=data)
    return choice


def _require_right(actor: Actor, queue: Queue | None) -> User:
    if queue is None:
        require_admin(actor, "manage webhooks of the whole cluster")
    elif not access_of(actor).at_least(queue.pk, Role.LEAD):
        raise NotAllowed(f"Only a lead of {queue.name} may manage its webhooks.")
    assert isinstance(actor, User)  # only signed-in users have roles
    return actor


def _checked_url(problems: Problems, text: str) -> str:
    """Return the address; where a name leads is checked at each use, because names change their addresses."""
    url = problems.text("url", text, least=1, most=URL_CHARS)
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        has_host = False
    if not has_host or not url.isascii() or any(letter.isspace() for letter in url):
        problems.add("url", "invalid", "url must be an address such as https://chat.example/hooks/room.")
    elif parts.username is not None or parts.password is not None:
        problems.add("url", "invalid", "url must not hold a user name or password: it is shown to leads.")
    elif parts.scheme != "https" and not (parts.scheme == "http" and settings.WEBHOOK_NETWORKS):
        problems.add("url", "scheme", "url must begin with https://.")
    elif ips := written_addresses(parts.hostname or ""):
        try:
            check_address(url, allowed=settings.WEBHOOK_NETWORKS, resolve=lambda *_: ips)
        except AddressRefused as error:
            problems.add("url", "address", f"{error} Such networks are allowed by WEBHOOK_NETWORKS.")
    return url


def _checked_notices(
    problems: Problems, notices: Sequence[str], *, known: Sequence[str], may_be_empty: bool = False
) -> list[str]:
    unknown = [name for name in notices if name not in known]
    if unknown or not (notices or may_be_empty):
        problems.add("notices", "unknown", f"notices must be some of {', '.join(known)}.")
    return [name for name in known if name in notices]


def _newest_event() -> int:
    return Event.objects.order_by("-pk").values_list("pk", flat=True).first() or 0


def _record(webhook: Webhook, *, actor: Actor, at: datetime, reason: str, after: dict[str, object] | None) -> None:
    data = {"name": webhook.name, "id": webhook.pk} | ({"after": after} if after else {})
    event_record(kind="webhook", actor=actor, at=at, reason=reason, data=data, queue=webhook.queue)
