"""Signing in and out, the theme, and tokens."""

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.core.cache import cache
from django.test import Client

from scheduler.models import ApiToken
from scheduler.services.accounts.tokens import token_user
from tests.support.rows.factories import AT

pytestmark = pytest.mark.django_db
PASSWORD = "a-long-enough-one"


@pytest.fixture(autouse=True)
def _clean(settings: Any, tmp_path: Path) -> None:
    settings.STATIC_ROOT = tmp_path
    settings.STORAGES = {
        **settings.STORAGES,
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    }
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # the real one is slow on purpose
    cache.clear()


@pytest.fixture
def user() -> User:
    return User.objects.create_user("mia", password=PASSWORD)


def sign_in(client: Client, password: str = PASSWORD, **more: str) -> Any:  # the test client's response has no type
    return client.post("/sign-in", {"username": "mia", "password": password, **more})


def test_sign_in_leads_to_where_one_wanted_to_go(user: User) -> None:
    """After signing in the reader is on the page asked for."""
    response = sign_in(Client(), next="/queues?x=1")

    assert response.status_code == 302
    assert response["Location"] == "/queues?x=1"


def test_form_that_is_sent_signed_out_leads_back_to_its_page(user: User) -> None:
    """A route that only takes a POST would be no place to come back to; the sign-in says that nothing was sent."""
    client = Client()
    sent = client.post("/jobs/J-3/suspend", headers={"referer": "http://testserver/jobs/J-3/why?x=1"})
    shown = client.get(client.post("/jobs/new?template=lstm", {"name": "a"})["Location"]).content.decode()

    assert sent["Location"] == "/sign-in?next=/jobs/J-3/why%3Fx%3D1&unsent=1"
    assert "so nothing was sent. Sign in to go back: what you wrote in the form for a new job is kept" in shown
    assert "nothing was sent" not in client.get("/sign-in?next=/jobs/new").content.decode()
    elsewhere = client.post("/jobs/J-3/suspend", headers={"referer": "http://elsewhere.example/jobs"})
    assert elsewhere["Location"] == "/sign-in?next=/jobs/J-3/suspend&unsent=1"


@pytest.mark.parametrize("target", ["https://elsewhere.example/", "//elsewhere.example", "javascript:alert(1)"])
def test_sign_in_never_leads_to_another_site(user: User, target: str) -> None:
    """``next`` is followed only within this site."""
    assert sign_in(Client(), next=target)["Location"] == "/"


def test_sign_in_gives_a_new_session(user: User) -> None:
    """A session that somebody planted before is worth nothing after."""
    client = Client()
    client.get("/sign-in")
    client.cookies["sessionid"] = "planted"
    sign_in(client)

    assert client.cookies["sessionid"].value != "planted"


def test_wrong_passwords_are_told_apart_from_nothing(user: User) -> None:
    """A wrong password and an unknown name get the same answer."""
    wrong = sign_in(Client(), "wrong").content.decode()
    unknown = Client().post("/sign-in", {"username": "nobody", "password": "wrong"}).content.decode()

    assert "User name and password do not match." in wrong
    assert "User name and password do not match." in unknown


def test_many_failures_make_one_wait(user: User) -> None:
    """After five failures for a name from one address even the right password has to wait."""
    client = Client()
    for _ in range(5):
        sign_in(client, "wrong")
    blocked = sign_in(client)

    assert blocked.status_code == 429
    assert int(blocked["Retry-After"]) > 0
    assert "sessionid" not in client.cookies


def test_a_stranger_does_not_lock_somebody_out(user: User) -> None:
    """Failures from one address do not count for the same name from another."""
    stranger = Client(REMOTE_ADDR="203.0.113.9")
    for _ in range(6):
        sign_in(stranger, "wrong")

    assert sign_in(Client()).status_code == 302


def test_addresses_of_one_subscriber_count_together(user: User) -> None:
    """A /64 of IPv6 is one household: its 2^64 addresses are no 2^64 tries."""
    for number in range(1, 6):
        sign_in(Client(REMOTE_ADDR=f"2001:db8:0:7::{number}"), "wrong")

    assert sign_in(Client(REMOTE_ADDR="2001:db8:0:7:ffff::9")).status_code == 429
    assert sign_in(Client(REMOTE_ADDR="2001:db8:0:8::9")).status_code == 302


def test_many_networks_do_not_guess_at_one_name_for_ever(user: User) -> None:
    """Whoever has a hundred machines is stopped too; the user's own network is not."""
    sign_in(Client(REMOTE_ADDR="198.51.100.7"))
    for number in range(1, 51):
        sign_in(Client(REMOTE_ADDR=f"203.0.113.{number}"), "wrong")

    assert sign_in(Client(REMOTE_ADDR="203.0.113.99")).status_code == 429
    assert sign_in(Client(REMOTE_ADDR="198.51.100.7")).status_code == 302


def test_strangers_on_the_sign_in_page_leave_no_session(user: User) -> None:
    """Neither looking at it nor a wrong password writes a row."""
    client = Client()
    client.get("/sign-in?next=/jobs")
    sign_in(client, "wrong")

    assert not Session.objects.exists()


def test_signing_out_takes_a_post(user: User) -> None:
    """A link or an image cannot sign somebody out."""
    client = Client()
    sign_in(client)

    assert client.get("/sign-out").status_code == 405
    assert client.get("/me").status_code == 200

    client.post("/sign-out")

    assert client.get("/me").status_code == 302


def test_the_theme_is_kept_and_rendered(user: User) -> None:
    """The chosen theme is in the page itself, so that nothing flashes; an unknown one is not taken."""
    client = Client()
    sign_in(client)
    response = client.post("/me/theme", {"theme": "dark", "next": "https://elsewhere.example/"})

    assert response["Location"] == "/me"
    assert 'data-theme="dark"' in client.get("/me").content.decode()

    client.post("/me/theme", {"theme": '"><script>'})

    assert 'data-theme="dark"' in client.get("/me").content.decode()


def test_a_token_is_shown_once_and_works_until_revoked(user: User) -> None:
    """Its text is on the page that made it and on no other."""
    client = Client()
    sign_in(client)
    made = client.post("/me", {"name": "laptop", "scopes": ["jobs:read"], "lifetime": "30"})
    text = made.context["secret"]
    token = ApiToken.objects.get(user=user)
    again = client.get("/me").content.decode()

    assert text in made.content.decode()
    assert text not in again
    assert token.prefix in again
    assert token_user(text, token.created_at) is not None

    client.post(f"/me/tokens/{token.pk}/revoke")

    assert token_user(text, token.created_at) is None


def test_a_token_needs_a_name_and_an_admin_for_admin(user: User) -> None:
    """A bad form comes back; nobody makes a token that can do more than its maker."""
    client = Client()
    sign_in(client)

    assert client.post("/me", {"name": "", "scopes": ["jobs:read"], "lifetime": "30"}).status_code == 422
    assert client.post("/me", {"name": "x", "scopes": ["admin"], "lifetime": "30"}).status_code == 422
    assert not ApiToken.objects.exists()


def test_form_offers_what_an_admin_allows(user: User, settings: Any) -> None:
    """The longest is always there, and no longer one is taken."""
    settings.TOKEN_MOST_DAYS = 60
    client = Client()
    sign_in(client)
    page = client.get("/me").content.decode()
    made = client.post("/me", {"name": "x", "scopes": ["jobs:read"], "lifetime": "90"})

    assert [days for days in (7, 30, 60, 90, 365) if f">{days} days<" in page] == [7, 30, 60]
    assert made.status_code == 422


def test_token_without_an_end_is_marked(user: User) -> None:
    """Its owner sees what to do."""
    token = ApiToken.objects.create(user=user, name="old", prefix="cw_12345", sha256="0" * 64, created_at=AT)
    client = Client()
    sign_in(client)
    old = client.get("/me").content.decode()
    token.expires_at = AT
    token.save()

    assert "never: replace it" in old
    assert "never: replace it" not in client.get("/me").content.decode()


def test_nobody_revokes_another_ones_token(user: User) -> None:
    """A token id of somebody else is as good as none."""
    other = User.objects.create_user("lea", password=PASSWORD)
    token = ApiToken.objects.create(user=other, name="hers", prefix="cw_12345", sha256="0" * 64, created_at=AT)
    client = Client()
    sign_in(client)
    client.post(f"/me/tokens/{token.pk}/revoke")
    token.refresh_from_db()

    assert token.revoked_at is None
