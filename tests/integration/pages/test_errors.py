"""Nobody breaks a page by what they send: odd addresses, odd forms, forms of others, forms that are too old.

The pages are found in the URL configuration, their forms in their HTML, and the words of their query strings in their
source, so that a new one is tried as well.
"""

import re
from pathlib import Path

import pytest
from django.db import transaction
from django.test import Client
from django.urls.converters import PathConverter, StringConverter

from clusterweb.middleware import PUBLIC
from tests.integration.api.conftest import World
from tests.support.pages.forms import Form, forms_of
from tests.support.pages.routes import page_path, page_patterns
from tests.support.pages.world import page_arguments, page_paths
from tests.support.roles.matrix import PAGES

ROOT = Path(__file__).resolve().parents[3]
ODD = {
    "empty": "",
    "spaces": "   ",
    "nul": "a\x00b",
    "long": "x" * 20_000,
    "negative": "-1",
    "huge": "9" * 40,
    "not a number": "NaN",
    "exponent": "1e400",
    "unicode": "\u202eüñï🙂\ufffd",
    "digits of others": "٣٤",
    "markup": "<script>alert(1)</script>",
    "path": "../../etc/passwd",
}
QUICK = {"nul", "long", "huge", "unicode"}  # the others are tried by the long tests
SOME_ODD = [pytest.param(odd, marks=[] if odd in QUICK else [pytest.mark.long]) for odd in ODD]
MADE_BY_DJANGO = {"csrfmiddlewaretoken"}
SOME_FIELDS, MANY_FIELDS = 8, 20


@pytest.fixture
def admin(world: World) -> Client:
    """An admin's browser that gets the page of a failure as people do."""
    client = Client(raise_request_exception=False)
    client.force_login(world.users["admin"])
    return client


def readable(world: World) -> dict[str, str]:
    """Return the paths of the pages that an admin can read."""
    return {
        name: path
        for name, path in page_paths(world, "admin").items()
        if PAGES.get(f"GET {name.split()[0]}", (200,))[-1] == 200
    }


def words_of_queries() -> set[str]:
    """Return the names that pages look for in query strings."""
    sources = (ROOT / "frontend" / "pages").rglob("*.py")
    return {word for source in sources for word in re.findall(r"\.get(?:list)?\(\"(\w+)\"", source.read_text())}


def forms(client: Client, paths: dict[str, str]) -> dict[str, Form]:
    """Return every form of all pages once."""
    found: dict[str, Form] = {}
    for path in paths.values():
        answer = client.get(path)
        html = b"".join(answer).decode() if answer.streaming else answer.content.decode()
        for form in forms_of(html, path=path):
            key = f"{form.action} {' '.join(sorted(form.fields))} {form.fields.get('do', '')}"
            found.setdefault(key, form)
    return found


@pytest.fixture(scope="module")
def seen() -> dict[str, Form]:
    """What ``every_form`` has found, for the tests after it: rows and forms are the same for all of a file."""
    return {}


@pytest.fixture
def every_form(world: World, admin: Client, seen: dict[str, Form]) -> dict[str, Form]:
    """Return every form of all pages that an admin can read, once."""
    if not seen:
        seen.update(forms(admin, readable(world)))
    return seen


def sent(client: Client, form: Form, changes: dict[str, str]) -> int:
    """Return the status of a form that is sent with changes, which is undone."""
    with transaction.atomic():
        status = client.post(form.action, {**form.fields, **changes}).status_code
        transaction.set_rollback(True)
    return status


@pytest.mark.parametrize("odd", SOME_ODD)
def test_odd_query_strings_still_get_a_page(world: World, admin: Client, odd: str) -> None:
    """Every word that any page looks for, with a value that nobody meant."""
    query = dict.fromkeys(sorted(words_of_queries()), ODD[odd])

    failed = {name: s for name, path in readable(world).items() if (s := admin.get(path, query).status_code) >= 500}

    assert not failed


@pytest.mark.parametrize("odd", ODD)
def test_odd_addresses_are_not_found(world: World, admin: Client, odd: str) -> None:
    """A name, number or id in a path that no object has."""
    value = ODD[odd].replace("/", "-") or "-"
    statuses = {}
    for name, pattern in page_patterns().items():
        text = [key for key, how in pattern.pattern.converters.items() if type(how) in (StringConverter, PathConverter)]
        if text:
            arguments = {**page_arguments(world, "admin"), **dict.fromkeys(text, value)}
            statuses[name] = admin.get(page_path(name, arguments)).status_code

    assert statuses
    assert set(statuses.values()) <= {404, 405}, statuses


@pytest.mark.parametrize("odd", SOME_ODD)
def test_forms_with_odd_values_are_answered(admin: Client, every_form: dict[str, Form], odd: str) -> None:
    """Every field that one can type into, at once; never a failure of ours."""
    failed: dict[str, int] = {}
    for key, form in every_form.items():
        typed = {name: ODD[odd] for name in form.fields if name not in form.hidden}
        for button in form.buttons or [("", "")]:
            status = sent(admin, form, {**typed, **dict([button])})
            failed |= {f"{key} by {button}": status} if status >= 500 else {}

    assert len(every_form) > 15
    assert not failed


@pytest.mark.long
def test_forms_with_one_odd_value_are_answered(admin: Client, every_form: dict[str, Form]) -> None:
    """Each field alone, hidden ones too, so that the others do not hide what it does.

    Its first two buttons read the same fields: each odd value is sent by one of them, in turn. The more fields a form
    has, the more alike they are: each of many gets fewer of the odd values, in turn too.
    """
    failed: dict[str, int] = {}
    for key, form in every_form.items():
        names = sorted(set(form.fields) - MADE_BY_DJANGO)
        buttons = form.buttons[:2] or [("", "")]
        step = 1 if len(names) < SOME_FIELDS else 3 if len(names) < MANY_FIELDS else len(ODD)
        for at, name in enumerate(names):
            for number, odd in enumerate(list(ODD)[at % step :: step]):
                button = buttons[(at + number) % len(buttons)]
                status = sent(admin, form, {**dict([button]), name: ODD[odd]})
                failed |= {f"{key}: {name} {odd}": status} if status >= 500 else {}

    assert not failed


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"{", "application/json"),
        (b"\xff\xfe\x00", "application/octet-stream"),
        (b"--x\r\nnot a part", "multipart/form-data; boundary=x"),
        (b"a=b", "multipart/form-data"),
        (b"%ff=%00&%", "application/x-www-form-urlencoded"),
        (b"&".join(b"a%d=1" % i for i in range(1200)), "application/x-www-form-urlencoded"),
    ],
    ids=["json", "bytes", "cut off", "no boundary", "percent", "too many fields"],
)
def test_bodies_that_are_no_forms_are_answered(world: World, admin: Client, body: bytes, content_type: str) -> None:
    """Whatever program sends them."""
    failed: dict[str, int] = {}
    for name, path in page_paths(world, "admin").items():
        with transaction.atomic():
            status = admin.generic("POST", path, body, content_type=content_type).status_code
            failed |= {name: status} if status >= 500 else {}
            transaction.set_rollback(True)

    assert not failed


def test_forms_that_are_too_old_say_so_and_change_nothing(world: World) -> None:
    """A form from before the last sign-in, or from another site."""
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(world.users["admin"])
    paths = {name: path for name, path in page_paths(world, "admin").items() if not PUBLIC.match(path)}
    paths = {name: path for name, path in paths.items() if PAGES.get(f"POST {name.split()[0]}", (200,))[-1] != 405}

    answers = {name: strict.post(path, {"csrfmiddlewaretoken": "x" * 32}) for name, path in paths.items()}

    assert len(answers) > 10
    assert {name: answer.status_code for name, answer in answers.items() if answer.status_code != 403} == {}
    assert all("The form was too old" in answer.content.decode() for answer in answers.values())


def test_ended_session_leads_to_the_sign_in_page_and_back(world: World) -> None:
    """Reading and sending alike; nothing is done for whoever is not known any more."""
    client = Client()
    client.force_login(world.users["admin"])
    client.session.flush()

    for name, path in page_paths(world, "admin").items():
        if not PUBLIC.match(path):
            for answer in (client.get(path), client.post(path)):
                assert answer.status_code == 302, name
                assert answer["Location"].startswith("/sign-in?next=/"), name
    assert client.get("/api/v1/me").status_code == 401


def test_failure_names_its_request(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever tells an admin of it can say which it was."""

    def broken(*_: object) -> None:
        raise RuntimeError("the test broke this page")

    monkeypatch.setattr("frontend.pages.cluster.views.gpu_map", broken)
    answer = admin.get("/cluster")

    assert answer.status_code == 500
    assert "This page failed" in answer.content.decode()
    assert answer["X-Request-Id"] in answer.content.decode()


@pytest.mark.django_db
@pytest.mark.parametrize(
    "path", ["/static/none.css", "/static/../none", "/healthz/none", "/sign-in/none", "/metrics-none"]
)
def test_address_that_is_open_to_all_and_is_not_there_is_not_found(path: str) -> None:
    """The frame of pages, which shows the cluster, is for those who are signed in."""
    answer = Client().get(path)

    assert answer.status_code == 404
    assert b"There is nothing at this address" in answer.content


@pytest.mark.django_db
def test_sign_in_without_a_token_of_its_form_says_so() -> None:
    """As it is sent by a browser that keeps no cookies."""
    answer = Client(enforce_csrf_checks=True).post("/sign-in", {"username": "any", "password": "none"})

    assert answer.status_code == 403
    assert b"too old to be sent" in answer.content
