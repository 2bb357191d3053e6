"""The audit page tells what was done in plain words, and does not bury it under sign-ins."""

import csv
import io

import pytest
from django.test import Client

from frontend.pages.admin.audit_words import DONE, SAID, done_words
from scheduler.models import Event, Server
from scheduler.selectors.accounts.audit import KINDS
from tests.support.rows.factories import AT, server_make, user_make

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("plain_static")]


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
def test_sign_ins_are_listed_where_they_are_asked_for(query: str, kinds: list[str]) -> None:
    """By kind, with everything, or by their request; the file follows the page, and the page says so."""
    ada = Client()
    ada.force_login(user_make("ada", admin=True))
    Event.objects.create(at=AT, kind="settings", actor="ada", reason="change", request_id="r0")
    Event.objects.create(at=AT, kind="sign_in", actor="ada", reason="password", request_id="r1")
    page = ada.get(f"/admin/audit{query}").content.decode()
    lines = b"".join(ada.get(f"/admin/audit.csv{query}").streaming_content).decode()  # type: ignore[attr-defined]

    assert page.count("<tr><td>") == len(kinds)
    assert [row["kind"] for row in csv.DictReader(io.StringIO(lines))] == kinds
    assert (", without sign-ins</span>" in page) == ("sign_in" not in kinds)


@pytest.mark.parametrize(
    ("kind", "did", "words"),
    [
        ("server_change", "change", "changed the name and labels of a server"),
        ("settings", "change", "changed the settings"),
        ("membership", "set", "gave a role"),
        ("sign_in", "password", "signed in by password"),
        ("queue", "create", "made a queue"),
        ("server_state", "some_news", "some news: a server"),
    ],
)
def test_what_was_done_is_a_verb_with_its_object(kind: str, did: str, words: str) -> None:
    """Not the two words of the event."""
    assert done_words(kind, did) == words


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
    """A pair that no event has would never be read."""
    assert {kind for kind, _ in SAID} <= KINDS.keys()
    assert all("{of}" in words for words in DONE.values())
