"""Requests for quota: who asks, who answers, what the answer changes, and who is told."""

from datetime import date, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core import mail

from scheduler.core.model.errors import Conflict, NotAllowed, SpecInvalid
from scheduler.models import Delivery, Event, MailChoice, Membership, Queue, QuotaRequest
from scheduler.models.queue import RequestState, Role
from scheduler.models.server import ServerState
from scheduler.notices.outbox import DeliveryOutbox
from scheduler.notices.sender import deliver
from scheduler.selectors.cluster.alerts import alerts
from scheduler.services.queues.quotas import Quota, queue_change_quota
from scheduler.services.queues.requests import (
    quota_request_change,
    quota_request_create,
    quota_request_grant,
    quota_request_refuse,
    quota_request_withdraw,
)
from tests.support.rows.factories import AT, member_make, queue_make, quota_request_make, server_make, user_make

pytestmark = pytest.mark.django_db


def quota(gpus: int) -> Quota:
    """Return a quota of so many GPUs."""
    return Quota(quota_gpus=gpus, max_gpus=None, weight=1.0, may_borrow=True)


def ask(actor: Any, queue: Queue, **values: Any) -> QuotaRequest:
    """Ask for 8 GPUs until a week from now, or for something else."""
    asked = {"quota_gpus": 8, "until": AT.date() + timedelta(days=7), "reason": "Paper deadline", **values}
    return quota_request_create(actor=actor, queue=queue, at=AT, **asked)


def asked_alerts() -> list[tuple[str, str]]:
    """Return kind and queue of the alerts of requests that an admin sees."""
    admin = user_make(admin=True)
    return [(row["kind"], row["subject"]) for row in alerts(admin, AT) if row["kind"].startswith("quota")]


def test_grant_changes_the_quota_and_ends_the_alert() -> None:
    """One transaction: quota, answer, two events; the inbox tells of it until then."""
    queue, admin = queue_make("vision", quota_gpus=4), user_make("ada", admin=True)
    request = ask(member_make(queue, name="mia"), queue)
    before = asked_alerts()

    quota_request_grant(
        actor=admin, request=request, quota=quota(6), reason="for you", expected_version=queue.version, at=AT
    )

    queue.refresh_from_db()
    assert before == [("quota_asked", "vision")]
    assert asked_alerts() == []
    assert (queue.quota_gpus, request.state, request.given_gpus, request.before_gpus) == (6, "granted", 6, 4)
    assert [(event.kind, event.reason, event.actor) for event in Event.objects.order_by("pk")] == [
        ("quota_request", "ask", "mia"),
        ("quota_answer", "grant", "ada"),
        ("quota", "change", "ada"),
    ]


def test_refused_inputs_name_their_field() -> None:
    """A viewer may not ask; less than now, a past day and no reason are refused; a second open request conflicts."""
    queue = queue_make("vision", quota_gpus=4)
    member = member_make(queue)

    with pytest.raises(NotAllowed):
        ask(member_make(queue, Role.VIEWER), queue)
    with pytest.raises(SpecInvalid) as refused:
        ask(member, queue, quota_gpus=4, until=AT.date() - timedelta(days=1), reason=" ")
    assert {error.pointer for error in refused.value.errors} == {"/quota_gpus", "/reason", "/until"}
    assert f"until must be today ({AT.date()}) or later" in str(refused.value)
    with pytest.raises(SpecInvalid, match="until is too far away: 9999-12-31"):
        ask(member, queue, until=date(9999, 12, 31))
    with pytest.raises(SpecInvalid, match="more than the present 4"):
        ask(member, queue, quota_gpus=4)
    ask(member, queue)
    with pytest.raises(Conflict, match="withdraw it first"):
        ask(member, queue)


def test_more_than_the_cluster_has_is_refused_with_what_would_be_right() -> None:
    """Of a new and of a changed request; servers that are gone do not count, those that are drained do."""
    queue = queue_make("vision", quota_gpus=4)
    member = member_make(queue)
    server_make(gpus=8)
    server_make(gpus=4, state=ServerState.DRAINING)
    server_make(gpus=32, state=ServerState.LOST, removed_at=AT)
    said = "^/quota_gpus: quota may be at most 12: the whole cluster has 12 GPUs. You asked for "

    with pytest.raises(SpecInvalid, match=f"{said}13"):
        ask(member, queue, quota_gpus=13)
    request = ask(member, queue, quota_gpus=12)
    values: Any = {"actor": member, "request": request, "until": None, "reason": "One more seed", "at": AT}
    with pytest.raises(SpecInvalid, match=f"{said}100"):
        quota_request_change(quota_gpus=100, **values)
    assert QuotaRequest.objects.get().state == RequestState.OPEN
    Queue.objects.filter(pk=queue.pk).update(quota_gpus=12)
    queue.refresh_from_db()
    with pytest.raises(SpecInvalid, match="quota is 12 already: the whole cluster has 12 GPUs"):
        ask(member, queue, quota_gpus=13)


def test_only_those_who_may_change_the_quota_answer() -> None:
    """The lead of the queue asks like a member; the lead of the queue above answers; the asker withdraws."""
    org = queue_make("org", quota_gpus=8)
    queue = queue_make("org/vision", parent=org, quota_gpus=4)
    lead, above, member = member_make(queue, Role.LEAD), member_make(org, Role.LEAD), member_make(queue)
    first, second = ask(member, queue), ask(lead, queue)

    with pytest.raises(NotAllowed):
        quota_request_refuse(actor=lead, request=first, reason="no room", at=AT)
    with pytest.raises(NotAllowed):
        quota_request_withdraw(actor=lead, request=first, at=AT)
    with pytest.raises(SpecInvalid):
        quota_request_refuse(actor=above, request=first, reason="", at=AT)
    quota_request_refuse(actor=above, request=first, reason="no room", at=AT)
    quota_request_withdraw(actor=lead, request=second, at=AT)
    with pytest.raises(Conflict, match="refused already"):
        quota_request_withdraw(actor=member, request=first, at=AT)

    assert (first.state, first.answer, second.state) == ("refused", "no room", "withdrawn")
    withdrawal = Event.objects.get(kind="quota_withdrawal")
    assert (withdrawal.actor, withdrawal.data["request"]) == (lead.username, second.pk)


def test_grant_that_does_not_add_up_leaves_the_request_open() -> None:
    """Nothing is half done: neither the answer nor its event is kept, and a stale version is a conflict."""
    org = queue_make("org", quota_gpus=8)
    queue, _ = queue_make("org/vision", parent=org, quota_gpus=4), queue_make("org/speech", parent=org, quota_gpus=4)
    request, admin = ask(member_make(queue), queue), user_make(admin=True)

    for version, error in ((queue.version, SpecInvalid), (queue.version - 1, Conflict)):
        with pytest.raises(error):
            quota_request_grant(
                actor=admin, request=request, quota=quota(8), reason="for you", expected_version=version, at=AT
            )

    request = QuotaRequest.objects.get()
    assert (request.state, request.answered_by) == (RequestState.OPEN, "")
    assert not Event.objects.filter(kind="quota_answer").exists()


def test_grant_of_an_old_request_does_not_lower_the_quota() -> None:
    """The quota grew past what was asked for: the request stays open until it is refused or more is given."""
    queue, admin = queue_make("vision", quota_gpus=4), user_make(admin=True)
    request = ask(member_make(queue), queue, quota_gpus=8)
    Queue.objects.filter(pk=queue.pk).update(quota_gpus=16)

    for gpus in (8, 16):
        with pytest.raises(SpecInvalid, match="more than the present 16"):
            quota_request_grant(
                actor=admin, request=request, quota=quota(gpus), reason="for you", expected_version=queue.version, at=AT
            )

    queue.refresh_from_db()
    request.refresh_from_db()
    assert (queue.quota_gpus, request.state) == (16, RequestState.OPEN)


def test_quota_whose_last_day_is_over_is_told_until_someone_saves_one() -> None:
    """The last day itself is not over; a change of the quota, even to the same value, ends the alert."""
    queue, admin = queue_make("vision", quota_gpus=8), user_make(admin=True)
    request = quota_request_make(
        queue, member_make(queue), state=RequestState.GRANTED, given_gpus=8, before_gpus=4, until=AT.date(),
        answered_at=AT - timedelta(days=3), answered_by="ada",
    )  # fmt: skip
    on_the_day = asked_alerts()
    QuotaRequest.objects.filter(pk=request.pk).update(until=AT.date() - timedelta(days=1))
    after = asked_alerts()

    queue_change_quota(
        actor=admin, queue=queue, quota_gpus=8, max_gpus=None, weight=1.0, may_borrow=True, reason="keeps it",
        expected_version=queue.version, at=AT,
    )  # fmt: skip

    assert (on_the_day, after, asked_alerts()) == ([], [("quota_overdue", "vision")], [])
    Queue.objects.filter(pk=queue.pk).update(quota_gpus=4)
    Event.objects.all().delete()
    assert asked_alerts() == []  # it was returned, long ago


def test_asker_gets_a_mail_that_says_what_was_given() -> None:
    """Only the one who asked, only with an address, and only if it was chosen."""
    queue, admin = queue_make("vision", quota_gpus=4), user_make(admin=True)
    member, other = member_make(queue, name="mia"), member_make(queue, name="max")
    for user in (member, other):
        user.email = f"{user.username}@example.org"
        user.save()
        MailChoice.objects.create(user=user, notices=["quota.answered"], first_event=0)
    request = ask(member, queue)
    quota_request_grant(
        actor=admin, request=request, quota=quota(6), reason="two for now", expected_version=queue.version, at=AT
    )

    DeliveryOutbox().look(AT)
    for delivery in Delivery.objects.select_related("mail__user"):
        deliver(delivery, at=AT)

    assert [message.to for message in mail.outbox] == [["mia@example.org"]]
    assert "quota of vision was granted" in mail.outbox[0].subject
    assert "the quota is 6" in mail.outbox[0].subject
    assert "Why: two for now" in mail.outbox[0].body
    assert "/queues/vision?tab=requests" in mail.outbox[0].body


def test_answered_request_and_that_of_another_user_are_not_changed() -> None:
    """Only its author changes a request, and only until it is answered."""
    queue = queue_make("vision", quota_gpus=4)
    member, admin = member_make(queue), user_make(admin=True)
    request = ask(member, queue)
    values: Any = {"request": request, "quota_gpus": 9, "until": None, "reason": "One more seed", "at": AT}

    with pytest.raises(NotAllowed):
        quota_request_change(actor=admin, **values)
    Membership.objects.filter(user=member).update(role=Role.VIEWER)
    with pytest.raises(NotAllowed, match="no member of it"):
        quota_request_change(actor=User.objects.get(pk=member.pk), **values)
    Membership.objects.filter(user=member).update(role=Role.MEMBER)
    quota_request_refuse(actor=admin, request=QuotaRequest.objects.get(), reason="no room", at=AT)
    with pytest.raises(Conflict, match="refused already"):
        quota_request_change(actor=member, **values)

    assert QuotaRequest.objects.get().quota_gpus == 8
