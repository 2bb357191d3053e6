"""Quotas, members, servers, settings and tokens over HTTP."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from scheduler.models import ApiToken, Queue
from scheduler.models.queue import Role
from scheduler.services.accounts.tokens import token_create
from tests.integration.api.conftest import World
from tests.support.rows.factories import member_make


def send(client: Client, method: str, path: str, body: Any = None, **headers: str) -> Any:
    """Send JSON; header names have underscores for dashes."""
    data: dict[str, Any] = {} if body is None else {"data": json.dumps(body), "content_type": "application/json"}
    return client.generic(
        method, f"/api/v1{path}", headers={k.replace("_", "-"): v for k, v in headers.items()}, **data
    )


def test_second_of_two_quota_changes_is_told_of_the_first(world: World) -> None:
    """Two people edit: nobody's change is overwritten unseen."""
    client = world.client("admin")
    seen = client.get("/api/v1/queues/vision").headers["ETag"]
    change = {"quota_gpus": 6, "reason": "new project"}

    first = send(client, "PATCH", "/queues/vision", change, If_Match=seen)
    second = send(client, "PATCH", "/queues/vision", {**change, "quota_gpus": 7}, If_Match=seen)

    assert [first.status_code, second.status_code] == [200, 412]
    assert first.headers["ETag"] != seen
    assert "ada" in second.json()["detail"]
    assert Queue.objects.get(name="vision").quota_gpus == 6


@pytest.mark.parametrize(
    ("if_match", "status"), [("", 428), ("*", 200), ('"1"', 200), ('"9", "1"', 200), ('W/"1"', 412), ("1", 412)]
)
def test_quota_change_needs_the_version_that_was_read(world: World, if_match: str, status: int) -> None:
    """If-Match as RFC 9110 has it: any of a list, weak tags never."""
    body = {"quota_gpus": 5, "reason": "new project"}
    answer = send(
        world.client("admin"), "PATCH", "/queues/vision", body, **({"If_Match": if_match} if if_match else {})
    )

    assert answer.status_code == status


def test_quota_change_keeps_what_it_does_not_name(world: World) -> None:
    """A change of the weight leaves the quota alone."""
    answer = send(world.client("admin"), "PATCH", "/queues/vision", {"weight": 2.5, "reason": "a favour"}, If_Match="*")

    assert [answer.json()["weight"], answer.json()["quota_gpus"]] == [2.5, 4]


def test_lead_of_the_queue_above_sets_the_quota_below(world: World) -> None:
    """Quota is handed down the tree."""
    member_make(world.org, Role.LEAD, user=world.users["lead"])
    body = {"quota_gpus": 5, "reason": "more work"}

    assert send(world.client("lead"), "PATCH", "/queues/vision", body, If_Match="*").status_code == 200
    assert send(world.client("lead"), "PATCH", "/queues/org", body, If_Match="*").status_code == 403


def test_quota_that_does_not_add_up_names_the_field(world: World) -> None:
    """The children's quotas may not exceed the parent's."""
    body = {"quota_gpus": 50, "reason": "too much"}

    answer = send(world.client("admin"), "PATCH", "/queues/vision", body, If_Match="*")

    assert answer.status_code == 400
    assert answer.json()["errors"][0]["pointer"] == "/quota_gpus"


def test_queue_with_a_slash_in_its_name_has_all_its_routes(world: World) -> None:
    """Names are paths in the tree."""
    client = world.client("admin")

    made = send(client, "POST", "/queues", {"name": "org/new", "parent": "org", "quota_gpus": 1})
    members = send(client, "PUT", "/queues/org/new/members/mia", {"role": "member"})

    assert made.status_code == 201
    assert made.headers["Location"] == "http://testserver/api/v1/queues/org/new"
    assert client.get("/api/v1/queues/org/new").json()["name"] == "org/new"
    assert members.json()["results"] == [{"username": "mia", "role": "member"}]
    assert client.get("/api/v1/queues/org/new/members").json() == members.json()


def test_name_that_would_hide_a_route_is_refused(world: World) -> None:
    """``/queues/org/members`` are the members of org, for ever."""
    answer = send(world.client("admin"), "POST", "/queues", {"name": "org/members", "parent": "org", "quota_gpus": 0})

    assert answer.status_code == 400
    assert answer.json()["errors"][0]["pointer"] == "/name"


def test_lead_makes_no_leads(world: World) -> None:
    """Nobody gives a role as high as the own one."""
    lead = world.client("lead")

    assert send(lead, "PUT", "/queues/vision/members/vic", {"role": "member"}).status_code == 200
    assert send(lead, "PUT", "/queues/vision/members/vic", {"role": "lead"}).status_code == 403
    assert send(lead, "PUT", "/queues/vision/members/nobody", {"role": "member"}).status_code == 404
    assert send(lead, "PUT", "/queues/vision/members/vic", {"role": "owner"}).status_code == 400


def test_drained_server_says_why_and_comes_back(world: World) -> None:
    """By id or by name."""
    client = world.client("admin")

    drained = send(client, "POST", "/servers/server-01/drain", {"reason": "new fans"}).json()
    back = send(client, "POST", f"/servers/{world.server.pk}/undrain", {"reason": "repaired"}).json()
    again = send(client, "POST", f"/servers/{world.server.pk}/undrain", {"reason": "repaired"})

    assert [drained["state"], drained["state_reason"], back["state"]] == ["draining", "new fans", "up"]
    assert again.status_code == 409


def test_key_of_a_server_is_in_no_answer(world: World) -> None:
    """Whoever has the key can speak for the server."""
    client = world.client("admin")

    for path in ("/servers", f"/servers/{world.server.pk}", "/overview", "/events"):
        assert world.server.key_hex not in client.get(f"/api/v1{path}").content.decode()


def test_settings_change_names_what_there_is_to_choose_from(world: World) -> None:
    """An unknown policy is refused; a known one holds from the next round on."""
    client = world.client("admin")
    seen = client.get("/api/v1/settings").headers["ETag"]
    known = [choice["name"] for choice in client.get("/api/v1/policies").json()["policies"]]

    wrong = send(client, "PATCH", "/settings", {"policy": "magic", "reason": "to try it"}, If_Match=seen)
    right = send(client, "PATCH", "/settings", {"policy": "srtf", "paused": True, "reason": "to try it"}, If_Match=seen)
    late = send(client, "PATCH", "/settings", {"paused": False, "reason": "to try it"}, If_Match=seen)

    assert {"fifo", "srtf", "las"} <= set(known)
    assert wrong.json()["errors"][0]["pointer"] == "/policy"
    assert [right.json()["policy"], right.json()["paused"]] == ["srtf", True]
    assert late.status_code == 412


def test_token_is_shown_once_works_and_ends_when_revoked(world: World) -> None:
    """Made by a session, used as a bearer token, gone at once."""
    client = world.client("member")
    made = send(client, "POST", "/tokens", {"name": "nightly", "scopes": ["jobs:read"]}).json()
    header = {"Authorization": f"Bearer {made['token']}"}

    before = Client().get("/api/v1/me", headers=header)
    client.delete(f"/api/v1/tokens/{made['id']}")
    after = Client().get("/api/v1/me", headers=header)

    assert before.json()["scopes"] == ["jobs:read"]
    assert [before.status_code, after.status_code] == [200, 401]
    assert made["token"] not in client.get("/api/v1/tokens").content.decode()


def test_tokens_of_others_cannot_be_seen_or_revoked(world: World) -> None:
    """Also not by an admin over REST."""
    client = world.client("admin")

    assert world.tokens["member"].pk not in [int(row["id"]) for row in client.get("/api/v1/tokens").json()["results"]]
    assert client.delete(f"/api/v1/tokens/{world.tokens['member'].pk}").status_code == 404
    assert ApiToken.objects.get(pk=world.tokens["member"].pk).revoked_at is None


def test_token_makes_no_token_that_outlives_it(world: World) -> None:
    """A stolen token cannot be made to last."""
    now = datetime.now(UTC)
    expires = now + timedelta(hours=1)
    _, text = token_create(actor=world.users["admin"], name="short", scopes=["admin"], expires_at=expires, at=now)
    header = {"Authorization": f"Bearer {text}"}
    body = {"name": "long", "scopes": ["jobs:read"]}

    unnamed = send(Client(), "POST", "/tokens", body, **header)
    later = (expires + timedelta(seconds=1)).isoformat()
    longer = send(Client(), "POST", "/tokens", {**body, "expires_at": later}, **header)
    shorter = send(Client(), "POST", "/tokens", {**body, "expires_at": expires.isoformat()}, **header)

    assert [unnamed.status_code, longer.status_code, shorter.status_code] == [201, 403, 201]
    assert datetime.fromisoformat(unnamed.json()["expires_at"]) <= expires


def test_expired_token_and_token_of_a_closed_account_are_401(world: World) -> None:
    """Whoever left has no token."""
    headers = world.bearer("member")
    world.users["member"].is_active = False
    world.users["member"].save()

    assert Client().get("/api/v1/me", headers=headers).status_code == 401
