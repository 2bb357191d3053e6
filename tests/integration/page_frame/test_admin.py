"""What admins do in the pages: users, audit, shadow, webhooks. Secrets are shown once; all of it is audited."""

import csv
import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import get_resolver
from django.utils import timezone

from scheduler import notify
from scheduler.core.model.lifecycle import JobState
from scheduler.models import Event, Shadow, ShadowRound, ShadowScore, StartEstimate, Webhook
from scheduler.services.accounts.tokens import token_create
from scheduler.services.cluster.settings import cluster_row, settings_change
from scheduler.services.cluster.shadow import shadow_choose
from tests.support.live.ports import MemoryBell
from tests.support.rows.factories import AT, job_make, queue_make, server_make, user_make

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _quiet(settings: Any, tmp_path: Any) -> Iterator[None]:
    settings.STATIC_ROOT = tmp_path
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # the real one is slow on purpose
    settings.STORAGES = {
        **settings.STORAGES,
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    }
    notify.use_bell(MemoryBell())
    yield
    notify.use_bell(None)


@pytest.fixture
def ada() -> Client:
    """An admin's browser."""
    client = Client()
    client.force_login(user_make("ada", admin=True))
    return client


def change_policy(client: Client, **fields: Any) -> Any:
    """Send the settings form."""
    form = {
        "policy": "fifo", "locality": "consolidate", "mechanism": "tune", "smoke_run_s": "0", "reason": "as agreed",
        "version": cluster_row().settings_version, **fields,
    }  # fmt: skip
    return client.post("/admin", form)


def test_every_change_is_in_the_audit_list_with_its_request(ada: Client) -> None:
    """Who, what, before, after, why; the id is the one of the answer."""
    answer = change_policy(ada, reason="mean waits grew")
    row = ada.get(f"/api/v1/audit?request_id={answer['X-Request-Id']}").json()["results"]
    page = ada.get("/admin/audit").content.decode()

    assert len(row) == 1
    assert (row[0]["who"], row[0]["kind"], row[0]["why"]) == ("ada", "settings", "mean waits grew")
    assert row[0]["before"]["policy"] == "las"
    assert row[0]["after"]["policy"] == "fifo"
    assert "mean waits grew" in page
    assert answer["X-Request-Id"] in page


def test_removed_files_are_in_the_audit_list_as_they_were(ada: Client, settings: Any, tmp_path: Path) -> None:
    """What was there is gone: a value before and none after."""
    settings.SHARED_DIR = tmp_path
    job = job_make(state=JobState.COMPLETED, directory_bytes=3 * 2**30)
    assert ada.post(f"/api/v1/jobs/J-{job.number}/discard", content_type="application/json").status_code == 200
    [row] = ada.get("/api/v1/audit?kind=directory_removal").json()["results"]
    page = ada.get("/admin/audit?kind=directory_removal").content.decode()

    assert (row["before"], row["after"], row["data"]) == ({"size_bytes": 3 * 2**30}, None, {})
    assert f'deleted the files of <a href="/jobs/J-{job.number}">' in page
    assert '<dt>Size</dt><dd><del>3.0\N{NO-BREAK SPACE}GiB</del> <span class="muted">removed</span>' in page


@pytest.mark.parametrize("kind", ["server_size", "server_mix", "template"])
def test_every_kind_of_change_can_be_chosen(ada: Client, kind: str) -> None:
    """A kind that is listed and is no choice cannot be searched for."""
    assert f'value="{kind}"' in ada.get("/admin/audit").content.decode()


def test_what_the_scheduler_does_is_not_in_the_audit_list(ada: Client) -> None:
    """Moves of jobs by rounds stand in the jobs' own events."""
    job_make(state="completed")  # type: ignore[arg-type]  # a state by its text

    assert ada.get("/api/v1/audit").json()["results"] == []
    assert "What the scheduler does by itself stands with its jobs" in ada.get("/admin/audit").content.decode()


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("", 3),
        ("?who=ada", 2),
        ("?who=ADA", 0),
        ("?kind=user", 1),
        ("?what=vision", 1),
        ("?what=J-999", 0),
        ("?since=2026-03-07", 3),
        ("?until=2026-03-06", 0),
        ("?since=not-a-day", 3),
        ("?kind=nonsense", 3),
    ],
)
def test_filters_stand_in_the_address(ada: Client, query: str, count: int) -> None:
    """And mean the same on the page and in the file."""
    queue = queue_make("vision")
    for actor, kind, of in (("ada", "user", None), ("ada", "settings", None), ("lea", "quota", queue)):
        Event.objects.create(at=AT, kind=kind, actor=actor, reason="change", queue=of, request_id="abc")
    lines = b"".join(ada.get(f"/admin/audit.csv{query}").streaming_content).decode()  # type: ignore[attr-defined]

    assert ada.get(f"/admin/audit{query}").content.decode().count("<tr><td>") == count
    assert len(list(csv.reader(io.StringIO(lines)))) == count + 1


def test_export_holds_no_formula_and_is_json_as_well(ada: Client) -> None:
    """A spreadsheet must not run what somebody wrote as a reason."""
    evil = "=HYPERLINK(1)"
    Event.objects.create(at=AT, kind="quota", actor="lea", reason="c", request_id="r", data={"reason": evil})
    text = b"".join(ada.get("/admin/audit.csv").streaming_content).decode()  # type: ignore[attr-defined]
    answer = ada.get("/admin/audit.json")
    rows = json.loads(b"".join(answer.streaming_content))  # type: ignore[attr-defined]

    assert f"'{evil}" in text
    assert f",{evil}" not in text
    assert rows[0]["why"] == evil
    assert answer["Content-Disposition"] == 'attachment; filename="audit.json"'


def test_a_removed_server_is_named_once(ada: Client) -> None:
    """Its event keeps the name that it had, which stands there only where it has another one now."""
    server = server_make("sim-09")
    for name in ("sim-09", "old-09"):
        Event.objects.create(
            at=AT,
            kind="server_removal",
            actor="ada",
            reason="remove",
            server=server,
            request_id="r",
            data={"name": name},
        )
    page = ada.get("/admin/audit").content.decode()

    assert page.count(">sim-09<") == 2
    assert "removed the server old-09 (now <a" in page


def test_audit_list_is_read_only() -> None:
    """There is no route by which an entry could be changed or deleted, for nobody."""
    from scheduler.api.admin.audit import Audit

    assert set(Audit.rules) == {"GET"}
    assert not [name for name in get_resolver().reverse_dict if isinstance(name, str) and name.startswith("api-audit-")]


def test_new_user_gets_a_password_that_is_shown_once(ada: Client) -> None:
    """It signs in; the page does not show it again, the audit list never has."""
    page = ada.post("/admin/users", {"username": "mia", "email": "mia@example.org"}).content.decode()
    password = page.split('<pre tabindex="0">')[1].split("</pre>")[0]
    browser = Client()
    browser.post("/sign-in", {"username": "mia", "password": password})

    assert browser.session["_auth_user_id"] == str(User.objects.get(username="mia").pk)
    assert password not in ada.get("/admin/users").content.decode()
    assert not [event for event in Event.objects.all() if password in json.dumps(event.data)]


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"username": "mia lopez"}, "may hold only"),
        ({"username": "ada"}, "a user ada already"),
        ({"username": "Scheduler"}, "means something else"),
        ({"username": "mia", "email": "nowhere"}, "must be an address"),
    ],
)
def test_wrong_user_is_refused_beside_its_field(ada: Client, form: dict[str, str], words: str) -> None:
    """What was typed stays."""
    answer = ada.post("/admin/users", form)

    assert answer.status_code == 422
    assert words in answer.content.decode()
    assert User.objects.count() == 1


def test_user_who_is_kept_out_is_out_at_once(ada: Client) -> None:
    """Sessions and tokens end; letting in again is as quick."""
    mia, browser = user_make("mia"), Client()
    browser.force_login(mia)
    _, text = token_create(actor=mia, name="t", scopes=["jobs:read"], expires_at=None, at=datetime.now(UTC))
    bearer = {"Authorization": f"Bearer {text}"}
    before = (browser.get("/jobs").status_code, Client().get("/api/v1/me", headers=bearer).status_code)
    ada.post("/admin/users/mia/edit", {"active": "0"})
    out = (browser.get("/jobs").status_code, Client().get("/api/v1/me", headers=bearer).status_code)
    ada.post("/admin/users/mia/edit", {"active": "1"})

    assert before == (200, 200)
    assert out == (302, 401)
    assert Client().get("/api/v1/me", headers=bearer).status_code == 200


def test_nobody_locks_everybody_out(ada: Client) -> None:
    """Neither oneself nor the last admin."""
    ada.post("/admin/users/ada/edit", {"active": "0"})
    answer = ada.patch("/api/v1/users/ada", json.dumps({"is_active": False}), content_type="application/json")

    assert User.objects.get(username="ada").is_active
    assert answer.status_code == 409


def test_admin_revokes_the_token_of_somebody(ada: Client) -> None:
    """It is refused from then on, and says so in the list."""
    mia = user_make("mia")
    token, text = token_create(actor=mia, name="nightly", scopes=["jobs:read"], expires_at=None, at=datetime.now(UTC))
    page = ada.get("/admin/users/mia").content.decode()
    ada.post(f"/admin/users/mia/tokens/{token.pk}/revoke")

    assert "nightly" in page
    assert text not in page
    assert Client().get("/api/v1/me", headers={"Authorization": f"Bearer {text}"}).status_code == 401


def shadow_form(**fields: Any) -> dict[str, Any]:
    """Return a sent form that chooses a shadow."""
    version = Shadow.objects.get_or_create(pk=1)[0].version
    return {
        "policy": "srtf",
        "locality": "consolidate",
        "mechanism": "tune",
        "reason": "to compare",
        "version": version,
        **fields,
    }


def test_shadow_is_chosen_in_the_page_and_ended(ada: Client) -> None:
    """With its options, a reason, and one version a change."""
    ada.post("/admin/shadow", shadow_form(policy="las", **{"policy.las.queue_limits_gpu_s": "100, 1000"}, reason="try"))
    chosen = Shadow.objects.get().chosen
    stale = ada.post("/admin/shadow", shadow_form(version=1))
    ada.post("/admin/shadow/end", {"version": Shadow.objects.get().version})
    still = bool(Shadow.objects.get().chosen)
    ada.post("/admin/shadow/end", {"version": Shadow.objects.get().version, "reason": "seen enough"})

    assert chosen["policy"] == "las"
    assert chosen["policy_options"] == {"queue_limits_gpu_s": [100.0, 1000.0]}
    assert stale.status_code == 409
    assert Shadow.objects.get().chosen == {}
    assert [row.data.get("reason") for row in Event.objects.filter(kind="shadow").order_by("pk")] == [
        "try",
        "seen enough",
    ]
    assert still, "ended without a reason"
    assert cluster_row().policy_options == {}


def test_shadow_page_says_what_it_found(ada: Client) -> None:
    """The finding is the title; jobs that differ have names."""
    ada.post("/admin/shadow", shadow_form())
    shadow = Shadow.objects.get()
    job = job_make(name="resnet")
    ShadowRound.objects.create(
        number=7, version=shadow.version, at=AT, planned_at=AT, took_s=0.01, num_same=3, num_only_shadow=1,
        num_only_live=0, num_other_gpus=0, differences={"only_shadow": [[job.number, 2]]},
    )  # fmt: skip
    figures = {"avg_jct_s": 1_000.0, "avg_rho": 2.0, "max_rho": 4.0, "avg_queueing_s": 0.0}
    for minute in (0, 15):
        ShadowScore.objects.create(
            version=shadow.version, at=AT.replace(minute=minute), since=AT, num_jobs=20,
            live=figures, shadow={**figures, "avg_jct_s": 800.0},
        )  # fmt: skip
    page = ada.get("/admin/shadow").content.decode()

    assert "completes jobs 20" in page
    assert "sooner, replayed over 20" in page
    assert "resnet" in page
    assert "srtf · consolidate · tune plans every round" in page


def test_webhook_is_made_tested_and_revoked_in_the_page(ada: Client) -> None:
    """The secret is on the page that made it and on no other."""
    form = {"name": "chat", "url": "https://chat.example/x", "queue": "", "notices": ["job.failed", "server.lost"]}
    made = ada.post("/webhooks", form).content.decode()
    secret = made.split('<pre tabindex="0">')[1].split("</pre>")[0]
    webhook = Webhook.objects.get()
    ada.post(f"/webhooks/{webhook.pk}/test")
    page = ada.get(f"/webhooks/{webhook.pk}").content.decode()
    ada.post(f"/webhooks/{webhook.pk}/revoke")

    assert secret.startswith("cwh_")
    assert secret not in page + ada.get("/webhooks").content.decode()
    assert "waiting" in page
    assert Webhook.objects.get().revoked_at is not None
    assert list(Event.objects.filter(kind="webhook").order_by("pk").values_list("reason", flat=True)) == [
        "create", "test", "revoke",
    ]  # fmt: skip


def test_wrong_webhook_is_refused_in_the_page(ada: Client) -> None:
    """Beside its field; what was typed stays."""
    answer = ada.post(
        "/webhooks", {"name": "chat", "url": "http://chat.example/", "queue": "", "notices": ["job.failed"]}
    )

    assert answer.status_code == 422
    assert "must begin with https" in answer.content.decode()
    assert 'value="chat"' in answer.content.decode()


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "10.0.0.8", "[::1]"])
def test_webhook_to_an_address_that_can_never_be_used_is_refused_at_once(ada: Client, host: str) -> None:
    """Not with the first message that is lost."""
    answer = ada.post("/webhooks", {"name": "chat", "url": f"https://{host}/x", "queue": "", "notices": ["job.failed"]})

    assert answer.status_code == 422
    assert "which is no public address" in answer.content.decode()
    assert not Webhook.objects.exists()


def test_password_change_ends_other_sessions_and_tokens() -> None:
    """The present session goes on; a weak password is refused beside its field."""
    mia = user_make("mia")
    mia.set_password("the-first-one-1")
    mia.save()
    here, there = Client(), Client()
    for client in (here, there):
        client.post("/sign-in", {"username": "mia", "password": "the-first-one-1"})
    _, text = token_create(actor=mia, name="t", scopes=["jobs:read"], expires_at=None, at=datetime.now(UTC))
    form = {"old_password": "the-first-one-1", "new_password1": "password", "new_password2": "password"}
    weak = here.post("/me/password", form)
    here.post("/me/password", {**form, "new_password1": "the-second-one-2", "new_password2": "the-second-one-2"})

    assert weak.status_code == 422
    assert here.get("/me").status_code == 200
    assert there.get("/me").status_code == 302
    assert Client().get("/api/v1/me", headers={"Authorization": f"Bearer {text}"}).status_code == 401
    assert Event.objects.filter(kind="user", reason="password", actor="mia").count() == 1


def test_admin_sees_how_good_estimates_of_starts_were(ada: Client) -> None:
    """On the admin page in words, in ``/metrics`` as a histogram; nothing is claimed before a start was checked."""
    queue = queue_make("vision")
    assert "No estimate of a start could be checked yet" in ada.get("/admin").content.decode()
    now = timezone.now()
    for error_s in (-60.0, 120.0, 4_000.0) * 4:
        started_at, first_at = now - timedelta(hours=1), now - timedelta(hours=3)
        p50_at = started_at - timedelta(seconds=error_s)
        StartEstimate.objects.create(
            job=job_make(queue), round_number=1, made_at=first_at, closed_at=started_at,
            first_made_at=first_at, first_p50_at=p50_at, first_simulated_p90_at=p50_at + timedelta(seconds=60),
            first_p90_at=p50_at + timedelta(seconds=600), started_at=started_at, error_s=error_s,
        )  # fmt: skip

    page = ada.get("/admin").content.decode().replace("\u00a0", " ")
    metrics = ada.get("/metrics").content.decode()

    assert "67 % started by their p90; the aim is 90 %" in page
    assert "First estimates of 12 jobs that waited" in page
    assert "<dt>Median error</dt><dd>2 min</dd>" in page
    assert "<dt>By p90 without correction</dt><dd>33 %</dd>" in page
    assert "<dt>p90 is corrected</dt><dd>by the last 12 waits</dd>" in page
    assert 'clusterweb_eta_error_seconds_bucket{le="60.0"} 4.0' in metrics
    assert "clusterweb_eta_error_seconds_count 12.0" in metrics
    assert "clusterweb_eta_error_seconds_sum 16720.0" in metrics


def test_a_shadow_that_was_put_in_force_says_so(ada: Client) -> None:
    """It was chosen to be compared; since the settings became the same there is nothing left to compare."""
    admin = User.objects.get(username="ada")
    shadow_choose(actor=admin, changes={"policy": "srtf"}, expected_version=1, at=AT, reason="to compare")
    apart = ada.get("/admin/shadow").content.decode()
    version = cluster_row().settings_version
    settings_change(actor=admin, changes={"policy": "srtf"}, expected_version=version, at=AT, reason="better")
    same = ada.get("/admin/shadow").content.decode()

    assert "nothing left to compare" not in apart
    assert "The shadow is what decides now" in same
