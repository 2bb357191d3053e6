"""The audit page tells what was done in plain words, and does not bury it under sign-ins."""

import csv
import io
from typing import Any

import pytest
from django.test import Client

from frontend.pages.admin.audit_words import SENTENCES
from scheduler.core.model.lifecycle import JobState
from scheduler.models import Event, Server
from scheduler.selectors.accounts.audit import KINDS
from tests.support.pages.reader import Page
from tests.support.rows.factories import AT, job_make, queue_make, server_make, user_make

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("plain_static")]


@pytest.fixture
def ada() -> Client:
    """An admin's window."""
    client = Client()
    client.force_login(user_make("ada", admin=True))
    return client


def record(**columns: Any) -> None:
    """Record what ada did."""
    Event.objects.create(at=AT, actor="ada", request_id="r1", **columns)


@pytest.mark.parametrize(
    ("query", "kinds"),
    [
        ("", ["settings"]),
        ("?who=ada", ["settings"]),
        ("?kind=all", ["sign_in", "settings"]),
        ("?kind=sign_in", ["sign_in"]),
        ("?request_id=r1", ["sign_in"]),
    ],
)
def test_sign_ins_are_listed_where_they_are_asked_for(ada: Client, query: str, kinds: list[str]) -> None:
    """By kind, with everything, or by their request; the file follows the page, and the page says so."""
    Event.objects.create(at=AT, kind="settings", actor="ada", reason="change", request_id="r0")
    Event.objects.create(at=AT, kind="sign_in", actor="ada", reason="password", request_id="r1")
    page = ada.get(f"/admin/audit{query}").content.decode()
    lines = b"".join(ada.get(f"/admin/audit.csv{query}").streaming_content).decode()  # type: ignore[attr-defined]

    assert page.count('<tr><td><p class="said">') == len(kinds)
    assert [row["kind"] for row in csv.DictReader(io.StringIO(lines))] == kinds
    assert (", without sign-ins</span>" in page) == ("sign_in" not in kinds)


def read(ada: Client, query: str = "?kind=all") -> str:
    """Return the text of the list with plain blanks."""
    page = ada.get(f"/admin/audit{query}").content.decode()
    return (
        Page(page.partition("cards audit")[2].partition("</section>")[0])
        .text.replace("\u00a0", " ")
        .replace("\u202f", " ")
    )


def test_an_entry_is_a_sentence_with_what_changed(ada: Client) -> None:
    """The user, what was done, to which job by name and number, and why; then the labels and words of the pages."""
    job = job_make(state=JobState.SUSPENDED, name="vision-3")
    record(kind="job_state", reason="suspend", job=job, number=90, old_state="queued", new_state="suspended")
    server = server_make("gpu-01")
    Server.objects.update(device_kind="gpu")
    record(
        kind="server_state",
        reason="drain",
        server=server,
        old_state="up",
        new_state="draining",
        data={"detail": "maintenance"},
    )
    limits: dict[str, Any] = {"queue_limits_gpu_s": [36_000.0]}
    changed = {"before": {"policy_options": {}}, "after": {"policy_options": limits}, "reason": "fairer"}
    record(kind="settings", reason="change", data=changed)
    page = read(ada)

    assert f"ada suspended vision-3 (J-{job.number}) What changed State Queued → to Suspended" in page
    assert "ada drained gpu-01 : maintenance What changed State Up → to Draining" in page
    assert "ada changed the settings: fairer" in page
    assert "Queue limits of the policy default → to 10 GPU-hours" in page
    assert not set(page) & set("{}[]")


def test_what_no_release_knows_is_no_json(ada: Client) -> None:
    """Neither an action nor a value: its code stands as such, its parts in words."""
    strange = {"before": {"odd": {"a": [1, {"b": True}]}}, "after": {"odd": {"a": [], "c": None}}}
    record(kind="queue", reason="some_news{x}", data=strange)
    page = read(ada)

    assert "ada acted on a queue (recorded as “some newsx”)" in page
    assert "Odd a 1 and b yes → to a none and c" in page
    assert not set(page) & set("{}[]")


def test_a_role_and_a_quota_are_told_in_words(ada: Client) -> None:
    """The label of the form, the unit of the value."""
    queue = queue_make("vision")
    record(kind="membership", reason="set", queue=queue, data={"user": "mia", "before": None, "after": "lead"})
    quota = {"before": {"quota_gpus": 4, "max_gpus": 8}, "after": {"quota_gpus": 1, "max_gpus": None}, "reason": "less"}
    record(kind="quota", reason="change", queue=queue, data=quota)
    page = read(ada)

    assert "ada made mia lead of vision What changed Role lead" in page
    assert "Quota 4 GPUs → to 1 GPU At most 8 GPUs → to no limit" in page


@pytest.mark.parametrize(("acked", "words"), [(427, "all carried out"), (426, "the newest are not carried out yet")])
def test_server_page_says_whether_its_orders_are_carried_out(acked: int, words: str) -> None:
    """The numbers behind it are in the title of the line."""
    server = server_make("gpu-01")
    Server.objects.filter(pk=server.pk).update(generation=427, acked_generation=acked)
    client = Client()
    client.force_login(user_make("ada", admin=True))
    page = client.get(f"/cluster/{server.pk}").content.decode()

    assert f'<dt>Orders of rounds</dt><dd title="generation 427, carried out {acked}">{words}</dd>' in page


def test_words_are_of_kinds_that_exist() -> None:
    """Each kind has a sentence, and no sentence is of a kind that no event has."""
    assert {kind for kind, _ in SENTENCES} == KINDS.keys()
