"""Requests for quota on the pages: asked, changed, granted and refused by forms."""

import re
from typing import Any

import pytest
from django.test import Client

from scheduler.models import Queue, QuotaRequest
from scheduler.models.queue import RequestState, Role
from tests.support.rows.factories import member_make, queue_make, quota_request_make, server_make, user_make

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("plain_static")]


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
    listed = client.get("/queues/vision?tab=requests").content.decode()
    assert '<p>Paper deadline</p><p class="soft">ada gave 6\N{NO-BREAK SPACE}GPUs' in listed  # not "deadlineada"
    assert "ada granted mia&#x27;s request" in client.get("/queues/vision").content.decode()


@pytest.mark.parametrize(
    ("sent", "wrong"),
    [
        (
            {"quota_gpus": "", "until": "soon", "reason": ""},
            {
                "quota_gpus": "It is empty. Give a whole number, 0 or more.",
                "until": "soon is no day. Give one such as 2026-12-31, or leave it empty to ask for good.",
                "reason": "It is empty. Say why in at least 3 characters.",
            },
        ),
        (
            {"quota_gpus": "3", "until": "2020-01-31", "reason": "x"},
            {
                "quota_gpus": "quota must be more than the present 4. You asked for 3.",
                "until": "or later. You gave 2020-01-31.",
                "reason": "It is too short. Say why in at least 3 characters.",
            },
        ),
    ],
)
def test_everything_wrong_with_a_request_stands_at_its_field(
    client: Client, sent: dict[str, str], wrong: dict[str, str]
) -> None:
    """All at once, in our words; each field is marked as wrong and leads to its sentence."""
    queue = queue_make("vision", quota_gpus=4)
    client.force_login(member_make(queue, name="mia"))
    answer = client.post("/queues/vision?tab=requests", {"do": "ask", **{f"ask-{k}": v for k, v in sent.items()}})
    page = answer.content.decode()

    assert answer.status_code == 422
    for name, words in wrong.items():
        place = page.partition(f'<label for="id_ask-{name}">')[2].partition("</label>")[2].partition("<label")[0]
        assert words in place, name
        assert 'aria-invalid="true"' in place
        assert re.search(rf'aria-describedby="[^"]*\bid_ask-{name}_error"', place), place
    assert "This field is required" not in page


def test_answer_that_is_refused_says_why_at_its_form_and_keeps_what_was_typed(client: Client) -> None:
    """No preview is asked for on its own then: its answer would replace what is wrong with the grant."""
    queue = queue_make("vision", quota_gpus=4)
    request = quota_request_make(queue, member_make(queue, name="mia"), quota_gpus=8)
    Queue.objects.filter(pk=queue.pk).update(quota_gpus=8)
    client.force_login(user_make("ada", admin=True))
    form = {"request": request.pk, "quota_gpus": "8", "weight": "1", "version": queue.version}

    def post(body: dict[str, Any]) -> str:
        answer = client.post("/queues/vision?tab=quota", {**form, **body})
        assert answer.status_code == 422
        return answer.content.decode()

    for reason, field, detail in (
        ("  ", "id_reason", "It is empty. Say why in at least 3 characters."),
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


def test_answer_beyond_what_is_left_leads_to_what_can_be_taken_from_others(client: Client) -> None:
    """Before the grant beside the fields, after it in the list of errors; taken from a queue beside it, it is saved."""
    org = queue_make("org", quota_gpus=10)
    queue, speech = queue_make("vision", parent=org), queue_make("speech", parent=org, quota_gpus=5)
    request = quota_request_make(queue, member_make(queue, name="mia"), quota_gpus=8)
    client.force_login(member_make(org, Role.LEAD))
    form = {"do": "quota", "request": request.pk, "quota_gpus": "8", "weight": "1", "version": queue.version,
            "reason": "for mia", f"seen-{speech.pk}": "5"}  # fmt: skip
    has = "speech has 5 of the 10 of org. Lower theirs under Taken from."
    missing = f"3\N{NO-BREAK SPACE}GPUs are missing: {has}"

    opened = client.get(f"/queues/vision?tab=quota&request={request.pk}").content.decode()
    refused = client.post("/queues/vision?tab=quota", {**form, f"take-{speech.pk}": "5"}).content.decode()
    fewer = client.post("/queues/vision?tab=quota", {**form, f"take-{speech.pk}": "3"}).content.decode()
    more = client.post("/queues/vision?tab=quota", {**form, "quota_gpus": "11"}).content.decode()
    granted = client.post("/queues/vision?tab=quota", {**form, f"take-{speech.pk}": "2"})

    assert '<p class="band" id="missing"><svg' in opened
    assert missing in opened
    assert refused.count(missing) == 1  # beside the field
    assert 'id="missing"' not in refused
    assert '<fieldset class="taken" id="taken"' in refused
    assert "1\N{NO-BREAK SPACE}GPU is missing: speech has 3 of the 10 of org." in fewer
    assert "Give org a larger quota first." in more
    assert "Taken from." not in more
    assert granted.status_code == 302
    assert dict(Queue.objects.values_list("name", "quota_gpus")) == {"org": 10, "vision": 8, "speech": 2}


def test_lead_of_a_queue_has_the_form_of_a_request_from_the_start(client: Client) -> None:
    """The quota tab shows nothing that this lead may not do: the previewed number is sent with a day and a reason."""
    queue = queue_make("vision", parent=queue_make("org", quota_gpus=8), quota_gpus=4)
    lead = member_make(queue, Role.LEAD)
    client.force_login(lead)

    page = client.get("/queues/vision?tab=quota").content.decode()
    form = page.partition('id="ask-form"')[2].partition("</form>")[0]
    visible = set(re.findall(r'name="([\w-]+)"', re.sub(r'<input type="hidden"[^>]*>', "", form)))
    sent = {"do": "ask", "quota_gpus": "9", "ask-until": "", "version": "1", "max_gpus": "", "weight": "1"}
    wrong = client.post("/queues/vision?tab=quota", {**sent, "ask-reason": "no"})
    done = client.post("/queues/vision?tab=quota", {**sent, "ask-reason": "Paper deadline"})

    assert visible == {"quota_gpus", "ask-until", "ask-reason", "do"}
    assert "Request quota for vision" in page
    assert "It goes to leads of org and admins, with your reason." in page
    assert "Send the request" in form
    assert "Save quota" not in page
    assert wrong.status_code == 422
    assert 'name="ask-quota_gpus" value="9"' in wrong.content.decode()
    assert done.status_code == 302
    assert QuotaRequest.objects.get().quota_gpus == 9
    again = client.get("/queues/vision?tab=quota").content.decode()
    assert "Change the request" in again
    assert 'name="quota_gpus" value="9"' in again


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


def test_number_of_a_link_over_an_open_request_changes_it(client: Client) -> None:
    """The page says who asks since when; what was typed stands in a form that changes the own request."""
    queue = queue_make("vision", quota_gpus=4)
    lead = member_make(queue, Role.LEAD, name="lea")
    quota_request_make(queue, member_make(queue, name="mia"), quota_gpus=6)
    mine = quota_request_make(queue, lead, quota_gpus=8, reason="Paper deadline")
    client.force_login(lead)

    page = client.get("/queues/vision?tab=requests&gpus=9").content.decode()
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
    listed = client.get("/queues/vision?tab=requests").content.decode()
    assert f'Replaced by <a href="#request-{newer.pk}">request {newer.pk}</a>' in listed
    assert f'<tr id="request-{newer.pk}">' in listed
    client.force_login(user_make(admin=True))
    path = "/queues/vision?tab=quota&request="
    old = client.get(f"{path}{mine.pk}").content.decode()
    assert f"Request {mine.pk} of lea is withdrawn: " in old
    assert f'<a href="/queues/vision?tab=quota&amp;request={newer.pk}">request {newer.pk}</a> took its place.' in old
    assert "Grant</button>" not in old
    assert "took its place" not in client.get(f"{path}{newer.pk}").content.decode()


def test_quota_is_refused_with_a_reason_where_a_queue_beside_it_changed_since(client: Client) -> None:
    """The fields add up as they were shown, the stored quotas do not: the error is that of the service."""
    top = queue_make("top", quota_gpus=8)
    queue, beside = queue_make("a", parent=top), queue_make("b", parent=top, quota_gpus=4)
    client.force_login(user_make("ada", admin=True))
    form = {"do": "quota", "quota_gpus": "6", "weight": "1", "version": queue.version, "reason": "more runs",
            f"take-{beside.pk}": "2", f"seen-{beside.pk}": "2"}  # fmt: skip

    refused = client.post("/queues/a?tab=quota", form)

    assert refused.status_code == 422
    assert "quota may be at most 4: top has 8 GPUs and 4 are given. You asked for 6." in refused.content.decode()
