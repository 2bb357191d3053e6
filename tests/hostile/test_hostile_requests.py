"""What a member tries by requests: rights that were not given, fields of others, other ways to a route."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings
from django.test import Client

from scheduler.models import Attempt, Job, Membership
from tests.integration.api.conftest import World, spec

MEMBER = {"owner": "ada", "state": "completed", "number": 1, "attained_gpu_s": 0, "wait_reason": "", "id": "x"}


def send(client: Client, method: str, path: str, body: Any = None, **headers: str) -> Any:
    """Send JSON."""
    text = "" if body is None else json.dumps(body)
    return client.generic(method, path, text, content_type="application/json", headers=headers)


@pytest.mark.parametrize("name", MEMBER)
def test_columns_that_are_not_the_senders_are_refused(world: World, name: str) -> None:
    """A spec has the fields that it has; nothing else reaches a row."""
    before = Job.objects.count()
    answer = send(world.client("member"), "POST", "/api/v1/jobs", spec(**{name: MEMBER[name]}))

    assert answer.status_code == 400
    assert answer.json()["errors"][0]["pointer"] == f"/{name}"
    assert Job.objects.count() == before


@pytest.mark.parametrize(
    ("role", "method", "path", "body"),
    [
        ("member", "PUT", "/api/v1/queues/vision/members/mia", {"role": "lead"}),
        ("lead", "PUT", "/api/v1/queues/org/members/lea", {"role": "lead"}),
        ("lead", "PUT", "/api/v1/queues/speech/members/lea", {"role": "member"}),
        ("lead", "PATCH", "/api/v1/users/lea", {"is_admin": True}),
        ("member", "POST", "/api/v1/users", {"username": "mine", "is_admin": True}),
        ("member", "POST", "/api/v1/tokens", {"name": "x", "scopes": ["admin"]}),
        ("lead", "PATCH", "/api/v1/queues/vision", {"quota_gpus": 10**6, "reason": "more"}),
    ],
)
def test_nobody_gives_rights_beyond_the_own(
    world: World,
    role: str,
    method: str,
    path: str,
    body: dict[str, Any],
) -> None:
    """Not to others, not to oneself."""
    before = list(Membership.objects.order_by("pk").values())
    answer = send(world.client(role), method, path, body, **{"If-Match": "*"})

    assert answer.status_code in (400, 403, 404)
    assert list(Membership.objects.order_by("pk").values()) == before
    assert not world.users[role].is_superuser


@pytest.mark.parametrize("header", ["X-HTTP-Method-Override", "X-Method-Override", "X-HTTP-Method"])
def test_a_header_changes_no_method(world: World, header: str) -> None:
    """A GET stays one, whatever it says; there is none of a template."""
    path = f"/api/v1/templates/{world.template.pk}"
    answer = world.client("member").get(path, headers={header: "DELETE"})

    assert answer.status_code == 405
    assert type(world.template).objects.filter(pk=world.template.pk).exists()


@pytest.mark.parametrize("path", ["/", "/api/v1/overview", "/sign-in"])
def test_another_sites_name_is_refused(path: str, db: None) -> None:
    """Else a page of another site could read this one under its own name."""
    assert Client().get(path, headers={"Host": "evil.example"}).status_code == 400


@pytest.mark.parametrize(
    "sent",
    [
        "Bearer ",
        "Bearer \x00",
        "Bearer " + "x" * 100_000,
        "Basic YWRhOmFkYQ==",
        "Bearer ünï",
        "bearer a b c",
        "Token x",
    ],
)
def test_words_that_are_no_token_sign_nobody_in(world: World, sent: str) -> None:
    """Neither in nor down."""
    answer = Client().get("/api/v1/me", headers={"Authorization": sent})

    assert answer.status_code == 401


@pytest.mark.parametrize("cookie", ["", "x", "' OR 1=1 --", "\x00", "../../etc/passwd", "é" * 300, "0" * 5_000])
def test_words_that_are_no_session_sign_nobody_in(world: World, cookie: str) -> None:
    """A session is looked up by its key and by nothing else."""
    client = Client()
    client.cookies["sessionid"] = cookie

    assert client.get("/api/v1/me").status_code == 401
    assert client.get("/jobs").status_code == 302


@pytest.mark.parametrize("cursor", ["x", "gASVAA==", "eyJpZCI6MX0:1:x", "' OR 1=1", "\x00", "A" * 5_000])
def test_forged_cursor_is_refused(world: World, cursor: str) -> None:
    """It names the row that a page continues from, and is signed."""
    answer = world.client("member").get("/api/v1/jobs", {"cursor": cursor})

    assert answer.status_code == 400


@pytest.mark.parametrize("planted", ["link", "folder link"])
def test_log_that_is_a_link_shows_nothing(world: World, settings: LazySettings, tmp_path: Path, planted: str) -> None:
    """A job owns its folder; the web process reads what lies there with rights of its own."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "log.00000000000000000000").write_text("canary-secret")
    attempt = Attempt.objects.get(job=world.job)
    folder = Path(settings.SHARED_DIR) / "attempts" / attempt.pk
    folder.parent.mkdir(parents=True)
    if planted == "link":
        folder.mkdir()
        (folder / "log.00000000000000000000").symlink_to(tmp_path / "secret" / "log.00000000000000000000")
    else:
        folder.symlink_to(tmp_path / "secret")
    client = world.client("member")
    answers = [
        client.get(f"/api/v1/jobs/{world.job.pk}/logs"),
        client.get(f"/jobs/J-{world.job.number}/logs"),
        client.get(f"/jobs/J-{world.job.number}/logs/{attempt.number}/download"),
    ]

    shown = [answer.getvalue() if answer.streaming else answer.content for answer in answers]
    assert not any(b"canary-secret" in text for text in shown)
    assert all(answer.status_code < 500 for answer in answers)
