"""Requests for quota: who asks, who answers, what the answer changes, and who is told."""

import json
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core import mail
from django.test import Client

from scheduler.core.model.errors import Conflict, NotAllowed, SpecInvalid
from scheduler.models import Delivery, Event, MailChoice, Membership, Queue, QuotaRequest
from scheduler.models.queue import RequestState, Role
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


@pytest.fixture(autouse=True)
def _static(settings: Any, tmp_path: Path) -> None:
    """Static files as they lie in the tree."""
    settings.STATIC_ROOT = tmp_path
    settings.STORAGES = {
        **settings.STORAGES,
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    }


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
    assert {error.pointer for error in refused.value.errors} == {"/reason", "/until"}
    with pytest.raises(SpecInvalid, match="to 2999-12-31"):
        ask(member, queue, until=date(9999, 12, 31))
    with pytest.raises(SpecInvalid, match="more than the present 4"):
        ask(member, queue, quota_gpus=4)
    ask(member, queue)
    with pytest.raises(Conflict, match="withdraw it first"):
        ask(member, queue)


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


def test_from_form_to_grant_in_the_browser(client: Client) -> None:
    """A member asks on the page; the admin's inbox leads to a filled form with its preview; the member reads it."""
    queue = queue_make("vision", quota_gpus=4)
    member, admin = member_make(queue, name="mia"), user_make("ada", admin=True)
    client.force_login(member)
    form = {"do": "ask", "ask-quota_gpus": "6", "ask-until": "2999-01-31", "ask-reason": "Paper deadline"}
    assert client.post("/queues/vision?tab=requests", {**form, "ask-quota_gpus": "3"}).status_code == 422
    assert client.post("/queues/vision?tab=requests", form).status_code == 302
    assert client.post("/queues/vision?tab=requests", form).status_code == 409
    assert "not answered yet" in client.get("/").content.decode()
    request = QuotaRequest.objects.get()

    client.force_login(admin)
    inbox = client.get("/").content.decode()
    link = f"/queues/vision?tab=quota&amp;request={request.pk}"
    tab = client.get(f"/queues/vision?tab=quota&request={request.pk}").content.decode()
    granted = client.post(
        "/queues/vision?tab=quota",
        {"do": "quota", "request": request.pk, "quota_gpus": "6", "weight": "1", "may_borrow": "on",
         "reason": "mia: Paper deadline", "version": queue.version},
    )  # fmt: skip

    assert "mia asks for 6\N{NO-BREAK SPACE}GPUs for vision" in inbox
    assert link in inbox
    assert "until 31 Jan 2999" in inbox
    assert "data-ask-now" in tab
    assert 'value="mia: Paper deadline"' in tab
    assert granted.status_code == 302
    client.force_login(member)
    assert "ada granted your request: 6\N{NO-BREAK SPACE}GPUs." in client.get("/").content.decode()
    assert "ada gave 6\N{NO-BREAK SPACE}GPUs" in client.get("/queues/vision?tab=requests").content.decode()
    assert "ada granted mia&#x27;s request" in client.get("/queues/vision").content.decode()


def test_answer_that_is_refused_says_why_at_its_form_and_keeps_what_was_typed(client: Client) -> None:
    """No preview is asked for on its own then: its answer would replace what is wrong with the grant."""
    queue = queue_make("vision", quota_gpus=4)
    request = ask(member_make(queue, name="mia"), queue)
    Queue.objects.filter(pk=queue.pk).update(quota_gpus=8)
    client.force_login(user_make("ada", admin=True))
    form = {"request": request.pk, "quota_gpus": "8", "weight": "1", "version": queue.version}

    def post(body: dict[str, Any]) -> str:
        answer = client.post("/queues/vision?tab=quota", {**form, **body})
        assert answer.status_code == 422
        return answer.content.decode()

    for reason, field, detail in (
        ("  ", "id_reason", "This field is required."),
        ("for mia", "id_quota_gpus", "quota must be more than the present 8, not 8. Else refuse the request."),
    ):
        page = post({"do": "quota", "reason": reason})
        place = page[page.index('class="field wrong"') :]
        assert f'<label for="{field}">' in place[: place.index("</div>")]
        assert detail in place[: place.index("</label>") + 900]
        assert "data-ask-now" not in page
        assert "Grant</button>" in page
        assert f'value="{request.pk}"' in page
    assert 'value="for mia"' in page

    refusal = post({"do": "refuse", "reason": "no"})
    assert 'id="refuse-reason_error"' in refusal
    assert 'name="reason" value="no"' in refusal
    assert QuotaRequest.objects.get().state == RequestState.OPEN


def test_lead_carries_the_quota_of_the_preview_over(client: Client) -> None:
    """What the slider says is what the form of the request begins with."""
    queue = queue_make("vision", quota_gpus=4)
    client.force_login(member_make(queue, Role.LEAD))

    page = client.post("/queues/vision?tab=quota", {"do": "carry", "quota_gpus": "9"}, follow=True).content.decode()

    assert 'name="ask-quota_gpus" value="9"' in page


@pytest.mark.parametrize(("servers", "top"), [(2, 16), (0, 8)])
def test_slider_of_a_lead_goes_beyond_the_present_quota(client: Client, servers: int, top: int) -> None:
    """Up to what the cluster has: users who answer may take it from other queues, which the lead does not see."""
    org = queue_make("org", quota_gpus=4)
    queue = queue_make("org/vision", parent=org, quota_gpus=4)
    for number in range(servers):
        server_make(f"server-{number}", gpus=8)
    client.force_login(member_make(queue, Role.LEAD))
    lead = client.get("/queues/org/vision?tab=quota").content.decode()
    client.force_login(member_make(org, Role.LEAD))
    above = client.get("/queues/org/vision?tab=quota").content.decode()

    assert f'id="quota-slide" min="0" max="{top}" value="4"' in lead
    assert "Up to 4 can be granted while other queues keep theirs" in lead
    assert 'id="quota-slide" min="0" max="4"' in above
    assert "At most 4 can be saved." in above


def test_number_carried_over_an_open_request_changes_it(client: Client) -> None:
    """The page says who asks since when; what was typed stands in a form that changes the own request."""
    queue = queue_make("vision", quota_gpus=4)
    lead = member_make(queue, Role.LEAD, name="lea")
    ask(member_make(queue, name="mia"), queue, quota_gpus=6)
    mine = ask(lead, queue, quota_gpus=8, reason="Paper deadline")
    client.force_login(lead)

    page = client.post("/queues/vision?tab=quota", {"do": "carry", "quota_gpus": "9"}, follow=True).content.decode()
    form = {"do": "ask", "ask-quota_gpus": "9", "ask-reason": "One more seed"}
    again = client.post("/queues/vision?tab=requests", form)
    change = {**form, "do": "change", "request": str(mine.pk)}
    too_few = client.post("/queues/vision?tab=requests", {**change, "ask-quota_gpus": "3"})
    changed = client.post("/queues/vision?tab=requests", change)

    assert 'name="ask-quota_gpus" value="9"' in page
    assert "You asked for 8\N{NO-BREAK SPACE}GPUs" in page
    assert "mia asked for 6\N{NO-BREAK SPACE}GPUs" in page
    assert 'value="Paper deadline"' in page
    assert (again.status_code, too_few.status_code, changed.status_code) == (409, 422, 302)
    assert 'value="One more seed"' in again.content.decode()
    mine.refresh_from_db()
    newer = QuotaRequest.objects.get(asked_by=lead, state="open")
    assert (mine.quota_gpus, mine.state) == (8, "withdrawn")  # a grant by its number gives 8 or nothing
    assert (newer.quota_gpus, newer.reason, newer.until) == (9, "One more seed", None)
    assert "lea now asks for a quota of 9 for" in client.get("/queues/vision").content.decode()


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


def test_rest_changes_an_open_request_as_the_page_does(client: Client) -> None:
    """A new request with what was not sent as it was; the old one is withdrawn, and not changed again."""
    queue = queue_make("vision", quota_gpus=4)
    member = member_make(queue, name="mia")
    mine = ask(member, queue, until=date(2999, 1, 31))

    def change(body: object, pk: int = mine.pk) -> Any:
        path = f"/api/v1/quota-requests/{pk}/change"
        return client.post(path, json.dumps(body), content_type="application/json")

    client.force_login(member)
    too_few, odd = change({"quota_gpus": 3}), change({"until": "soon", "reason": "no"})
    more = change({"quota_gpus": 9})
    again = change({"quota_gpus": 10})
    for_good = change({"until": None, "reason": "One more seed"}, int(more.json()["id"]))

    assert (too_few.status_code, [error["pointer"] for error in too_few.json()["errors"]]) == (400, ["/quota_gpus"])
    assert {error["pointer"] for error in odd.json()["errors"]} == {"/until", "/reason"}
    assert (more.status_code, again.status_code, for_good.status_code) == (201, 409, 201)
    assert more["Location"].endswith(f"/api/v1/quota-requests/{more.json()['id']}")
    told = ("quota_gpus", "until", "reason", "state")
    assert [more.json()[name] for name in told] == [9, "2999-01-31", "Paper deadline", "open"]
    assert [for_good.json()[name] for name in told] == [9, None, "One more seed", "open"]
    assert list(QuotaRequest.objects.order_by("pk").values_list("state", flat=True)) == ["withdrawn"] * 2 + ["open"]


def test_rest_answers_a_request_and_tells_it(client: Client) -> None:
    """Ask, list, grant with other GPUs; the second answer is a conflict; the audit has it."""
    queue = queue_make("vision", quota_gpus=4)
    member, admin = member_make(queue), user_make(admin=True)

    def post(path: str, body: object) -> Any:
        return client.post(f"/api/v1/{path}", json.dumps(body), content_type="application/json")

    client.force_login(member)
    body = {"queue": "vision", "quota_gpus": 8, "until": "2999-01-31", "reason": "Paper deadline"}
    asked = post("quota-requests", body)
    client.force_login(admin)
    listed = client.get("/api/v1/quota-requests?state=open").json()["results"]
    path = f"quota-requests/{asked.json()['id']}"
    granted, again = post(f"{path}/grant", {"quota_gpus": 6}), post(f"{path}/refuse", {"reason": "too late"})

    assert (asked.status_code, [row["until"] for row in listed]) == (201, ["2999-01-31"])
    assert granted.status_code == 200, granted.content
    assert (granted.status_code, granted.json()["given_gpus"], again.status_code) == (200, 6, 409)
    assert Queue.objects.get().quota_gpus == 6
    assert client.get("/api/v1/audit?kind=quota_answer").json()["results"][0]["who"] == admin.username
    assert date.fromisoformat(client.get(f"/api/v1/{path}").json()["until"]).year == 2999
