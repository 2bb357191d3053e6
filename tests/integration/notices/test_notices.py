"""What leaves the house: which events are told to whom, signed how, tried how often."""

import hashlib
import hmac
import json
import socket
from collections.abc import Iterator
from concurrent.futures import Future
from datetime import timedelta
from typing import Any

import pytest
from django.core import mail

from scheduler.core.model.errors import Conflict, NotAllowed, SpecInvalid
from scheduler.core.model.lifecycle import JobState
from scheduler.live.steps import Steps
from scheduler.models import Delivery, Event, Webhook
from scheduler.models.queue import Role
from scheduler.notices import sender
from scheduler.notices.outbox import DeliveryOutbox
from scheduler.notices.sender import deliver, due
from scheduler.notices.worker import Notices
from scheduler.services.accounts.webhooks import (
    mail_choose,
    webhook_create,
    webhook_renew_secret,
    webhook_revoke,
    webhook_secret,
    webhook_test,
)
from scheduler.services.cluster.servers import server_drain
from tests.support.live.ports import MemoryBell
from tests.support.rows.factories import AT, job_make, member_make, queue_make, server_make, user_make
from tests.support.rows.notices import HERE, Receiver, delivery_make, webhook_make

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _allowed(settings: Any) -> Iterator[None]:
    from scheduler import notify

    settings.WEBHOOK_NETWORKS = HERE
    notify.use_bell(MemoryBell())
    yield
    notify.use_bell(None)


class Inline:
    """Runs what it is given at once, in place of a pool of threads."""

    def submit(self, call: Any, *args: Any) -> "Future[None]":
        future: Future[None] = Future()
        future.set_result(call(*args))
        return future


def bodies(webhook: Webhook) -> list[dict[str, Any]]:
    return [json.loads(row.body) for row in webhook.deliveries.order_by("pk")]


def test_message_is_signed_over_its_time_and_body(receiver: Receiver) -> None:
    """Whoever knows the secret can tell that it is ours, whole and recent."""
    admin = user_make(admin=True)
    webhook, secret = webhook_create(
        actor=admin, name="chat", url=receiver.url, notices=["job.started"], queue=None, at=AT
    )
    webhook_test(actor=admin, webhook=webhook, at=AT)

    assert deliver(due(AT)[0], at=AT)

    headers, body = receiver.requests[0]
    expected = hmac.new(secret.encode(), headers["X-Timestamp"].encode() + b"." + body, hashlib.sha256).hexdigest()
    row = webhook.deliveries.get()
    assert headers["X-Signature-256"] == f"sha256={expected}"
    assert headers["X-Timestamp"] == str(int(AT.timestamp()))
    assert headers["X-Delivery"] == str(row.pk)
    assert json.loads(body)["notice"] == "test"
    assert (row.state, row.status, row.tries, row.next_at) == ("delivered", 204, 1, None)


def test_secret_is_nowhere_in_the_database(receiver: Receiver) -> None:
    """It is derived from the key of the installation; another key gives another secret."""
    webhook, secret = webhook_create(
        actor=user_make(admin=True), name="chat", url=receiver.url, notices=["job.started"], queue=None, at=AT
    )
    columns = [str(value) for value in Webhook.objects.filter(pk=webhook.pk).values_list().get()]
    columns += [json.dumps(event.data) for event in Event.objects.all()]

    assert not any(secret in column or secret.removeprefix("cwh_") in column for column in columns)
    assert len(secret) > 40


def test_new_secret_replaces_the_old_one(settings: Any) -> None:
    """A secret that has leaked is worthless after one click; so is every one after the key was changed."""
    admin = user_make(admin=True)
    webhook = webhook_make(admin)
    old = webhook_secret(webhook)
    new = webhook_renew_secret(actor=admin, webhook=webhook, at=AT)
    settings.SECRET_KEY = "k" * 50

    assert len({old, new, webhook_secret(webhook)}) == 3


def test_events_of_a_queue_and_those_below_it_are_told_once() -> None:
    """Other queues, and kinds that were not chosen, are not; looking again tells nothing twice."""
    above = queue_make("org")
    vision, speech = queue_make("vision", parent=above), queue_make("speech")
    lead = member_make(above, Role.LEAD)
    webhook = webhook_make(lead, above, notices=["job.started", "job.finished"])
    job = job_make(vision, state=JobState.COMPLETED, name="mine")
    job_make(speech, state=JobState.COMPLETED, name="theirs")
    job_make(vision, state=JobState.FAILED)
    outbox = DeliveryOutbox()
    outbox.look(AT)
    outbox.look(AT)
    DeliveryOutbox().look(AT)

    told = bodies(webhook)
    assert [(body["notice"], body["job"]["name"]) for body in told] == [
        ("job.started", "mine"),
        ("job.finished", "mine"),
        ("job.started", told[2]["job"]["name"]),
    ]
    assert told[1]["job"]["id"] == job.pk
    assert told[1]["queue"] == "vision"


def test_event_that_becomes_visible_late_is_told_as_well() -> None:
    """A transaction may commit after another one that took a higher number."""
    webhook = webhook_make(user_make(admin=True), notices=["settings.changed"])
    late = Event.objects.create(at=AT, kind="settings", actor="ada", reason="change")
    number = late.pk
    late.delete()
    Event.objects.create(at=AT, kind="settings", actor="ada", reason="change", pk=number + 1)
    outbox = DeliveryOutbox()
    outbox.look(AT)
    Event.objects.create(at=AT, kind="settings", actor="ada", reason="change", pk=number)
    outbox.look(AT)
    outbox.look(AT + timedelta(minutes=5))

    assert webhook.deliveries.count() == 2


def test_webhook_of_the_cluster_is_told_of_servers() -> None:
    """Draining is told with who did it; what happened before the webhook was made is not told."""
    admin = user_make("ada", admin=True)
    server = server_make("gpu-1")
    server_drain(actor=admin, server=server, reason="before", at=AT)
    Event.objects.filter(kind="server_state").update(new_state="up")
    webhook, _ = webhook_create(
        actor=admin, name="ops", url="https://8.8.8.8/x", notices=["server.drained"], queue=None, at=AT
    )
    server_drain(actor=admin, server=server_make("gpu-2"), reason="new fans", at=AT)
    DeliveryOutbox().look(AT)

    assert [(body["server"]["name"], body["by"], body["data"]) for body in bodies(webhook)] == [
        ("gpu-2", "ada", {"detail": "new fans"})
    ]


def test_webhook_of_the_cluster_is_told_of_failing_steps() -> None:
    """An admin hears that a part of the scheduler fails, with the error, and that it works again."""
    webhook, _ = webhook_create(
        actor=user_make("ada", admin=True),
        name="ops",
        url="https://8.8.8.8/x",
        notices=["scheduler.step"],
        queue=None,
        at=AT,
    )
    steps, fails = Steps(), [True]

    def step() -> None:
        if fails:
            raise ValueError(f"odd number {fails.pop()}")

    steps.run("samples", step, at=AT)
    steps.run("samples", step, at=AT)
    DeliveryOutbox().look(AT)

    assert [(body["notice"], body["reason"], body["data"]["step"]) for body in bodies(webhook)] == [
        ("scheduler.step", "failing", "samples"),
        ("scheduler.step", "well", "samples"),
    ]
    assert bodies(webhook)[0]["data"]["error"] == "ValueError: odd number True"


def test_leads_are_not_told_of_the_scheduler() -> None:
    """What fails there is no matter of one queue."""
    queue = queue_make()
    with pytest.raises(SpecInvalid):
        webhook_create(
            actor=member_make(queue, Role.LEAD),
            name="x",
            url="https://8.8.8.8/x",
            notices=["scheduler.step"],
            queue=queue,
            at=AT,
        )


def test_failure_is_tried_again_later_and_later_and_then_given_up(receiver: Receiver) -> None:
    """Every answer but 2xx is a failure; the log says which, and the tries end."""
    webhook = webhook_make(user_make(admin=True), url=receiver.url)
    row = delivery_make(webhook)
    receiver.statuses = [500, 302, 404, *[503] * 20]
    waits, at = [], AT
    while row.state == "waiting":
        assert not deliver(due(at)[0], at=at)
        row.refresh_from_db()
        if row.next_at is not None:
            waits.append((row.next_at - at).total_seconds())
            at = row.next_at

    assert tuple(waits) == sender.RETRY_AFTER_S
    assert row.state == "failed"
    assert row.tries == len(sender.RETRY_AFTER_S) + 1 == len(receiver.requests)
    assert row.problem == "It answered 503."
    assert due(at + timedelta(days=30)) == []


def test_two_processes_send_a_message_once(receiver: Receiver) -> None:
    """Both read the same row; the second finds it taken."""
    delivery_make(webhook_make(user_make(admin=True), url=receiver.url))
    (first,), (second,) = due(AT), due(AT)

    assert deliver(first, at=AT)
    assert not deliver(second, at=AT)
    assert len(receiver.requests) == 1


def test_receiver_that_is_gone_does_not_keep_others_waiting(receiver: Receiver) -> None:
    """One look serves every receiver; messages to a broken one wait after its first failure."""
    admin = user_make(admin=True)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        broken = webhook_make(admin, url=f"http://127.0.0.1:{closed.getsockname()[1]}/")
        good = webhook_make(admin, url=receiver.url)
        for _ in range(3):
            delivery_make(broken)
            delivery_make(good)
        from agents.protocol.clock import SystemClock

        notices = Notices(type("P", (), {"clock": SystemClock()})(), Inline())  # type: ignore[arg-type]
        notices.tick()

    assert good.deliveries.filter(state="delivered").count() == 3
    assert broken.deliveries.filter(tries=1).count() == 1
    assert "connection failed" in broken.deliveries.get(tries=1).problem


def test_revoked_webhook_is_told_nothing_more(receiver: Receiver) -> None:
    """Neither what waits nor what comes."""
    admin = user_make(admin=True)
    webhook = webhook_make(admin, url=receiver.url)
    delivery_make(webhook)
    webhook_revoke(actor=admin, webhook=webhook, at=AT)
    job_make(state=JobState.COMPLETED)
    DeliveryOutbox().look(AT)

    assert due(AT + timedelta(days=1)) == []
    assert webhook.deliveries.get().problem == "The webhook was revoked."
    with pytest.raises(Conflict):
        webhook_test(actor=admin, webhook=webhook, at=AT)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": " "}, "/name"),
        ({"url": "chat.example"}, "/url"),
        ({"url": "https://ada:secret@chat.example/"}, "/url"),
        ({"url": "https://chat.example:99999/"}, "/url"),
        ({"notices": []}, "/notices"),
        ({"notices": ["job.eaten"]}, "/notices"),
        ({"notices": ["server.lost"]}, "/notices"),  # no business of a queue
    ],
)
def test_wrong_webhook_is_refused_with_its_field(changes: dict[str, Any], field: str) -> None:
    """Nothing is stored, and the message says what would be right."""
    queue = queue_make()
    good: dict[str, Any] = {"name": "chat", "url": "https://chat.example/", "notices": ["job.failed"]}

    with pytest.raises(SpecInvalid) as caught:
        webhook_create(actor=member_make(queue, Role.LEAD), queue=queue, at=AT, **{**good, **changes})

    assert [error.pointer for error in caught.value.errors] == [field]
    assert not Webhook.objects.exists()


@pytest.mark.parametrize("role", [Role.VIEWER, Role.MEMBER])
def test_only_leads_and_admins_manage_webhooks(role: Role) -> None:
    """Members cannot send the queue's events anywhere, leads not those of the cluster."""
    queue = queue_make()
    good: dict[str, Any] = {"name": "chat", "url": "https://chat.example/", "notices": ["job.failed"], "at": AT}

    with pytest.raises(NotAllowed):
        webhook_create(actor=member_make(queue, role), queue=queue, **good)
    with pytest.raises(NotAllowed):
        webhook_create(actor=member_make(queue, Role.LEAD), queue=None, **good)


def test_mail_is_sent_to_the_owner_who_chose_it(settings: Any) -> None:
    """Of the own jobs alone, and of nothing that was before the choice."""
    settings.MAILS_ARE_SENT, settings.SITE_URL = True, "https://cluster.example"
    queue = queue_make()
    mia = member_make(queue, name="mia")
    mia.email = "mia@example.org"
    mia.save()
    mail_choose(actor=mia, notices=["job.failed", "job.finished"], at=AT)
    job_make(queue, owner=mia, state=JobState.COMPLETED, name="mine")
    job_make(queue, state=JobState.COMPLETED)
    DeliveryOutbox().look(AT)
    for row in due(AT):
        deliver(row, at=AT)

    (sent,) = mail.outbox
    assert sent.to == ["mia@example.org"]
    assert sent.subject.endswith("has completed")
    assert "https://cluster.example/jobs/J-" in sent.body
    assert Delivery.objects.get().state == "delivered"


def test_mail_without_an_address_or_server_is_refused(settings: Any) -> None:
    """The page says who can help instead of keeping a choice that does nothing."""
    user = user_make()
    settings.MAILS_ARE_SENT = False
    with pytest.raises(SpecInvalid, match="no mail server"):
        mail_choose(actor=user, notices=["job.failed"], at=AT)
    settings.MAILS_ARE_SENT = True
    with pytest.raises(SpecInvalid, match="no mail address"):
        mail_choose(actor=user, notices=["job.failed"], at=AT)
