"""Each change by an admin or a lead asks why, by REST, page and command: found over all ways of the matrix."""

import json
import re
from typing import Any

import pytest
from django.urls import reverse

from clusterweb.cli import queues, servers
from clusterweb.cli.main import command_parser
from clusterweb.client.errors import CommandError
from scheduler.models import Event
from tests.integration.api.conftest import World
from tests.integration.api.routes import api_routes, call_of
from tests.integration.pages.test_roles import FORMS
from tests.support.pages.routes import page_path
from tests.support.pages.world import page_arguments
from tests.support.roles.matrix import ADMINS, ADMINS_OF_QUEUE, APPLIES, LEADS, ROWS

# What changes nothing, or whose entry in the audit says enough without a reason; a new row has to be argued for here.
WITHOUT = {
    "make a link to the wall": "it has a name",
    "revoke a link to the wall": "the link has a name",
    "measure a profile": "starts a measurement and changes no rule",
    "make a queue": "nothing was there before it",
    "preview a quota": "changes nothing",
    "grant a request for quota": "it keeps the reason of the request unless another is given",
    "give a role": "of one user; the entry has both roles",
    "take a role": "of one user; the entry has the role",
    "keep a secret of a queue": "its value is in no entry",
    "delete a secret of a queue": "the entry names it",
    "make a webhook": "it has a name",
    "make a user": "nothing was there before it",
    "change a user": "the entry has both values",
    "revoke a token of a user": "the token has a name",
}
CHANGES = [row for row in ROWS if row.may in (ADMINS, ADMINS_OF_QUEUE, APPLIES, LEADS) and row.action not in WITHOUT]
BY_REST = {row.rest.name: row for row in CHANGES if row.rest and not row.rest.name.startswith("get-")}
BY_PAGE = {row.page.name: row for row in CHANGES if row.page and row.page.name.startswith("POST ")}
ROUTES = [route for route in api_routes() if str(route) in BY_REST]
# What the pages say, by the service or by the form itself.
ASKED = (
    "eason needs at least 3 characters",
    "Why needs 3 to",
    "Why needs at least 3 characters",
    "Say why in at least 3",
)


@pytest.mark.parametrize("route", ROUTES, ids=str)
@pytest.mark.parametrize("sent", [None, "  x "])
def test_rest_refuses_a_change_without_a_reason(world: World, route: Any, sent: str | None) -> None:
    """400 with the field and what would be right; nothing is written."""
    call = call_of(world, route, "admin")
    body = {name: value for name, value in (call.body or {}).items() if name != "reason"}
    query = ""
    if sent is not None and route.method == "delete":
        query = f"?reason={sent}"
    elif sent is not None:
        body["reason"] = sent
    answer = world.client("admin").generic(
        route.method.upper(),
        reverse(route.name, kwargs=call.kwargs) + query,
        json.dumps(body) if route.method != "delete" else "",
        content_type="application/json",
        headers=call.headers,
    )

    assert answer.status_code == 400, answer.content
    [error] = answer.json()["errors"]
    assert error["pointer"] == ("?reason" if route.method == "delete" else "/reason")
    assert "3" in error["detail"], error
    assert not Event.objects.filter(request_id=answer["X-Request-Id"]).exists()


@pytest.mark.parametrize("way", BY_PAGE)
def test_pages_refuse_a_change_without_a_reason(world: World, way: str) -> None:
    """The page says that it is missing; nothing is written."""
    form = {name: value for name, value in FORMS.get(way, {}).items() if not name.endswith("reason")}
    path = page_path(way.split()[1], page_arguments(world, "admin"))
    if "request" in form:
        form["request"] = str(world.quota_request.pk)
    before = Event.objects.count()

    answer = world.client("admin").post(path, form, follow=True)

    assert Event.objects.count() == before
    text = answer.content.decode()
    assert any(said in text for said in ASKED), text[:3000]


@pytest.mark.parametrize("route", ROUTES, ids=str)
def test_rest_takes_a_reason_as_long_as_pages_do(world: World, route: Any) -> None:
    """500 characters everywhere, and not one more."""
    details = []
    for reason in ("x" * 501, "x" * 500):
        call = call_of(world, route, "admin")
        body, query = {**(call.body or {}), "reason": reason}, ""
        if route.method == "delete":
            body, query = {}, f"?reason={reason}"
        answer = world.client("admin").generic(
            route.method.upper(),
            reverse(route.name, kwargs=call.kwargs) + query,
            json.dumps(body) if body else "",
            content_type="application/json",
            headers=call.headers,
        )
        errors = answer.json().get("errors", []) if answer.content else []
        details.append([error["detail"] for error in errors if error["pointer"].endswith("reason")])

    assert len(details[0]) == 1
    assert "500" in details[0][0]
    assert details[1] == []


@pytest.mark.parametrize(
    "address", ["queues/vision?tab=quota", "queues/vision?tab=requests", "cluster/{server}", "admin", "admin/costs"]
)
def test_fields_of_reasons_take_as_much_as_is_stored(world: World, address: str) -> None:
    """The browser stops at the length that the server refuses beyond."""
    role = "lead" if "requests" in address else "admin"
    page = world.client(role).get(f"/{address.format(server=world.server.pk)}", follow=True)
    fields = re.findall(r'<input[^>]*name="(?:\w+-)?reason"[^>]*>', page.content.decode())

    assert fields
    assert all('maxlength="500"' in field for field in fields), fields


def test_refused_isolation_says_which_there_are(world: World) -> None:
    """And what each of them means, in the words of the form."""
    answer = world.client("admin").patch(
        "/api/v1/queues/vision/isolation",
        json.dumps({"isolation": "nope", "reason": "patients"}),
        content_type="application/json",
        headers={"If-Match": "*"},
    )
    [error] = answer.json()["errors"]

    assert (answer.status_code, error["pointer"]) == (400, "/isolation")
    assert "none (on every server), files (where jobs of other queues cannot open their files)" in error["detail"]
    assert "nope" in error["detail"]


class Silent:
    """A server that answers each read with a queue, and takes no write."""

    def get(self, path: str, **query: object) -> dict[str, str]:
        """Return what is read."""
        return {"etag": "1", "name": path}

    def post(self, path: str, *rest: object, **more: object) -> None:
        """Fail: it was sent without a reason."""
        raise AssertionError(f"{path} was sent")

    put = patch = post


@pytest.mark.parametrize(
    "words",
    [
        "server rename gpu-01 gpu-02",
        "server label gpu-01 new",
        "server remove gpu-01",
        "quota vision --gpus 5",
        "quota vision --isolation user",
        "quota vision --ask 5",
        "quota-requests refuse 1",
    ],
)
def test_command_asks_for_the_reason(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is sent."""
    monkeypatch.setattr(queues, "Client", Silent)
    monkeypatch.setattr(servers, "Client", Silent)
    given = command_parser().parse_args(words.split())

    with pytest.raises(CommandError, match="needs --reason"):
        given.run(given)


def test_the_matrix_has_what_goes_without() -> None:
    """No row here is of an action that is no more."""
    assert set(WITHOUT) <= {row.action for row in ROWS}


def test_drain_and_return_say_why_in_the_audit(world: World) -> None:
    """As every other change does, also where the state keeps the words."""
    client, address = world.client("admin"), f"/cluster/{world.server.pk}"
    asked = client.get(f"{address}/drain").content.decode()
    client.post(f"{address}/drain", {"reason": "new fans"})
    client.post(f"{address}/undrain", {"reason": "it works"})

    rows = client.get("/api/v1/audit?kind=server_state").json()["results"]

    assert "one that told of no checkpoint counts all its work as lost" in asked
    assert [(row["did"], row["why"]) for row in rows[:2]] == [("undrain", "it works"), ("drain", "new fans")]
