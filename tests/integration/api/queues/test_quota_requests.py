"""Requests for quota by REST."""

import json
import re
from datetime import date
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from scheduler.models import Queue, QuotaRequest
from tests.support.rows.factories import member_make, queue_make, quota_request_make, user_make

pytestmark = pytest.mark.django_db


def test_rest_changes_an_open_request_as_the_page_does(client: Client) -> None:
    """A new request with what was not sent as it was; the old one is withdrawn, and not changed again."""
    queue = queue_make("vision", quota_gpus=4)
    member = member_make(queue, name="mia")
    mine = quota_request_make(queue, member, quota_gpus=8, until=date(2999, 1, 31), reason="Paper deadline")

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
    rows = client.get("/api/v1/quota-requests").json()["results"]
    assert [row["replaced_by"] for row in rows] == [None, for_good.json()["id"], more.json()["id"]]
    assert again.json()["detail"] == f"The request is withdrawn already: request {more.json()['id']} took its place."


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


def test_audit_tells_requests_with_before_and_after(client: Client) -> None:
    """Asked, changed, refused, withdrawn, granted: in the columns of every other change, with the reason."""
    queue = queue_make("vision", quota_gpus=4)
    member, admin = member_make(queue, name="mia"), user_make("ada", admin=True)

    def post(user: User, path: str, **body: object) -> str:
        client.force_login(user)
        answer = client.post(f"/api/v1/quota-requests{path}", json.dumps(body), content_type="application/json")
        assert answer.status_code in (200, 201), answer.content
        return str(answer.json()["id"])

    first = post(member, "", queue="vision", quota_gpus=8, until="2999-01-31", reason="Paper deadline")
    second = post(member, f"/{first}/change", quota_gpus=9)
    post(admin, f"/{second}/refuse", reason="Not now")
    third = post(member, "", queue="vision", quota_gpus=6, reason="Half of it")
    post(member, f"/{third}/withdraw")
    fourth = post(member, "", queue="vision", quota_gpus=7, reason="One more")
    post(admin, f"/{fourth}/grant", quota_gpus=5, reason="One for now")
    names, until = ("kind", "did", "before", "after", "why"), "2999-01-31"
    rows = client.get("/api/v1/audit").json()["results"][::-1]
    page = client.get("/admin/audit").content.decode()

    assert [tuple(row[name] for name in names) for row in rows if row["kind"] != "quota"] == [
        ("quota_request", "ask", {"quota_gpus": 4}, asked(first, 8, until), "Paper deadline"),
        ("quota_request", "change", asked(first, 8, until), asked(second, 9, until), "Paper deadline"),
        ("quota_answer", "refuse", {"state": "open"}, {"state": "refused"}, "Not now"),
        ("quota_request", "ask", {"quota_gpus": 4}, asked(third, 6, None), "Half of it"),
        ("quota_withdrawal", "withdraw", {"state": "open"}, {"state": "withdrawn"}, ""),
        ("quota_request", "ask", {"quota_gpus": 4}, asked(fourth, 7, None), "One more"),
        (
            "quota_answer",
            "grant",
            {"state": "open", "quota_gpus": 4},
            {"state": "granted", "quota_gpus": 5},
            "One for now",
        ),
    ]
    told = " ".join(re.sub(r"<[^>]+>", " ", page).replace("\u00a0", " ").split())
    assert re.search(r"changed a request for quota of vision .*?Quota 8 [^0-9]+9 ", told)
    assert re.search(r"State Open [^A-Z]*Refused", told)


def asked(request: str, quota_gpus: int, until: str | None) -> dict[str, object]:
    """Return a request as its event keeps it."""
    return {"request": int(request), "quota_gpus": quota_gpus, "until": until}
