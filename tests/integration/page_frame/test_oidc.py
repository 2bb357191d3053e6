"""Sign-in by OpenID Connect against a provider that really signs, and one that lies."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client

from clusterweb.config.env_error import EnvError
from clusterweb.config.oidc import GroupRole, Oidc, load_oidc
from frontend.pages.signin.oidc import _provider
from scheduler import notify
from scheduler.models import Event, Identity, Membership
from tests.support.live.ports import MemoryBell
from tests.support.rows.factories import queue_make, user_make
from tests.support.rows.oidc_provider import Provider

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("plain_static")]

ROLES = (
    GroupRole(group="ops", role="admin"),
    GroupRole(group="vision-team", role="member", queue="vision"),
    GroupRole(group="vision-leads", role="lead", queue="vision"),
    GroupRole(group="everybody", role="viewer", queue="speech"),
)


@pytest.fixture
def provider(settings: Any) -> Iterator[Provider]:
    made = Provider()
    settings.OIDC = oidc(made)
    notify.use_bell(MemoryBell())
    yield made
    notify.use_bell(None)
    _provider.cache_clear()
    made.close()


def oidc(provider: Provider, **changes: Any) -> Oidc:
    fields: dict[str, Any] = {
        "issuer": provider.issuer,
        "client_id": provider.client_id,
        "client_secret": provider.client_secret,
        "label": "Sign in with Example",
        "groups_claim": "groups",
        "roles": ROLES,
        "domains": frozenset(),
    }
    return Oidc(**{**fields, **changes})


def come(provider: Provider, client: Client | None = None, path: str = "/sign-in/oidc") -> Any:
    """Walk to the provider and back; return the last answer."""
    client = client or Client()
    away = client.get(path)
    assert away.status_code == 302, away.content
    return client.get(provider.sign_in(away["Location"]).removeprefix("http://testserver"))


def who(client: Client) -> str:
    """Return who is signed in, by the page that says so."""
    user_id = client.session.get("_auth_user_id")
    return User.objects.get(pk=user_id).username if user_id else ""


def test_user_is_made_on_first_sight_and_found_again(provider: Provider) -> None:
    """By issuer and subject: another name the next time is the same user."""
    client, again = Client(), Client()
    answer = come(provider, client)
    provider.claims |= {"preferred_username": "mia.lopez", "email": "other@example.org"}
    come(provider, again)

    assert answer.status_code == 302
    assert answer["Location"] == "/"
    assert who(client) == who(again) == "mia"
    assert Identity.objects.get().subject == "u-1"
    assert not User.objects.get(username="mia").has_usable_password()
    assert Event.objects.filter(kind="sign_in", actor="mia").exclude(request_id="").count() == 2


def test_groups_give_roles_and_take_them_back(provider: Provider) -> None:
    """The highest of several; queues that no group decides about stay as leads have set them."""
    vision, other = queue_make("vision"), queue_make("other")
    provider.claims["groups"] = ["vision-team", "vision-leads", "unknown"]
    come(provider)
    mia = User.objects.get(username="mia")
    Membership.objects.create(user=mia, queue=other, role="member")
    first = Membership.objects.get(user=mia, queue=vision).role
    provider.claims["groups"] = ["vision-team"]
    come(provider)
    second = Membership.objects.get(user=mia, queue=vision).role
    provider.claims["groups"] = []
    come(provider)

    assert (first, second) == ("lead", "member")
    assert [row.queue.name for row in mia.memberships.all()] == ["other"]
    assert Event.objects.filter(kind="membership", reason="by_group").count() == 3


def test_admin_comes_and_goes_with_the_group(provider: Provider) -> None:
    """Not with a name: who is called like the local admin is somebody else."""
    local = user_make("ada", admin=True)
    provider.claims |= {"preferred_username": "ada", "groups": ["ops"]}
    client = Client()
    come(provider, client)
    was_admin = User.objects.get(username="ada-2").is_superuser
    provider.claims["groups"] = []
    come(provider)
    local.refresh_from_db()

    assert who(client) == "ada-2"
    assert was_admin
    assert not User.objects.get(username="ada-2").is_superuser
    assert local.is_superuser


def test_mail_address_never_links_to_a_local_user(provider: Provider) -> None:
    """Nor is one kept that the provider has not verified."""
    local = user_make("boss", admin=True)
    local.email = "mia@example.org"
    local.save()
    client = Client()
    come(provider, client)

    assert who(client) == "mia"
    assert User.objects.get(username="mia").email == ""


def test_break_glass_admin_signs_in_without_the_provider(provider: Provider) -> None:
    """The page offers both; the password works while the provider is away."""
    local = user_make("ada", admin=True)
    local.set_password("long-enough-1")
    local.save()
    provider.close()
    client = Client()
    page = client.get("/sign-in").content.decode()
    away = client.get("/sign-in/oidc")
    client.post("/sign-in", {"username": "ada", "password": "long-enough-1"})

    assert "Sign in with Example" in page
    assert away.status_code == 403
    assert "does not answer" in away.content.decode()
    assert who(client) == "ada"


@pytest.mark.parametrize(
    "lie",
    [
        "issuer", "audience", "expired", "future", "nonce", "azp", "no nonce", "no subject", "no audience",
        "no expiry", "other key", "shared secret", "unsigned", "changed", "no token",
    ],
)  # fmt: skip
def test_token_that_does_not_hold_signs_nobody_in(provider: Provider, lie: str) -> None:
    """Each check of the protocol, one by one; the page says how to go on and nothing of the reason."""
    provider.lie = lie
    client = Client()
    answer = come(provider, client)

    assert answer.status_code == 403
    assert who(client) == ""
    assert not User.objects.exists()
    assert "Traceback" not in answer.content.decode()


def test_provider_that_calls_itself_otherwise_is_not_asked(provider: Provider) -> None:
    """Its tokens would be of another issuer."""
    provider.lie = "metadata issuer"

    assert Client().get("/sign-in/oidc").status_code == 403


def test_answer_to_another_browser_signs_nobody_in(provider: Provider) -> None:
    """State and verifier lie in the session that began; a code that somebody sends along is worth nothing."""
    mine, victim = Client(), Client()
    back = provider.sign_in(mine.get("/sign-in/oidc")["Location"]).removeprefix("http://testserver")

    assert victim.get(back).status_code == 403
    assert who(victim) == ""


def test_stranger_who_begins_leaves_no_row(provider: Provider) -> None:
    """A session begins with a user; until then all lies with the browser, signed."""
    client = Client()
    back = provider.sign_in(client.get("/sign-in/oidc?next=/jobs")["Location"]).removeprefix("http://testserver")
    refused = Client().get(back)
    begun = Session.objects.count()
    answer = client.get(back)

    assert refused.status_code == 403
    assert begun == 0
    assert answer["Location"] == "/jobs"
    assert Session.objects.count() == 1


def test_cookie_that_was_changed_or_is_old_begins_nothing(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its state is the browser's word alone, so it is signed and ends."""
    changed, late = Client(), Client()
    backs = [
        provider.sign_in(client.get("/sign-in/oidc")["Location"]).removeprefix("http://testserver")
        for client in (changed, late)
    ]
    text = changed.cookies["oidc"].value
    changed.cookies["oidc"] = text[:3] + ("A" if text[3] != "A" else "B") + text[4:]
    first = changed.get(backs[0])
    monkeypatch.setattr("frontend.pages.signin.oidc.COOKIE_S", -1)
    second = late.get(backs[1])

    assert (first.status_code, second.status_code) == (403, 403)
    assert (who(changed), who(late)) == ("", "")


def test_several_windows_sign_in_side_by_side(provider: Provider) -> None:
    """The older ones still find their way back; one browser cannot make its cookie grow without end."""
    client = Client()
    aways = [client.get(f"/sign-in/oidc?next=/jobs/J-{number}{'x' * 300}")["Location"] for number in range(9)]
    cookie = client.cookies["oidc"]
    back = provider.sign_in(aways[-2]).removeprefix("http://testserver")

    assert len(cookie.OutputString()) < 4096
    assert client.get(back)["Location"].startswith("/jobs/J-7")


def test_code_is_good_once(provider: Provider) -> None:
    """Whoever reads the address later cannot use it."""
    client = Client()
    back = provider.sign_in(client.get("/sign-in/oidc")["Location"]).removeprefix("http://testserver")
    first = client.get(back)
    Client().get("/")
    second = client.get(back)

    assert (first.status_code, second.status_code) == (302, 403)


def test_error_of_the_provider_is_told(provider: Provider) -> None:
    """Somebody who said no comes back to the sign-in page."""
    client = Client()
    client.get("/sign-in/oidc")

    assert client.get("/sign-in/oidc/back?error=access_denied&state=x").status_code == 403


def test_session_id_changes_and_next_stays_within(provider: Provider) -> None:
    """A session that was planted before is worth nothing after; no other site is followed."""
    client = Client()
    away = client.get("/sign-in/oidc?next=/jobs")
    before = client.session.session_key
    answer = client.get(provider.sign_in(away["Location"]).removeprefix("http://testserver"))
    elsewhere = come(provider, path="/sign-in/oidc?next=https://evil.example/")

    assert answer["Location"] == "/jobs"
    assert client.session.session_key != before
    assert elsewhere["Location"] == "/"


@pytest.mark.parametrize(
    ("claims", "is_let_in"),
    [
        ({"email": "mia@example.org", "email_verified": True}, True),
        ({"email": "mia@example.org", "email_verified": False}, False),
        ({"email": "mia@example.org", "email_verified": "false"}, False),
        ({"email": "mia@example.org.evil.example", "email_verified": True}, False),
        ({"email": "mia@sub.example.org", "email_verified": True}, False),
        ({"email": "", "email_verified": True}, False),
    ],
)
def test_domains_are_exact_and_verified(
    provider: Provider, settings: Any, claims: dict[str, Any], is_let_in: bool
) -> None:
    """Only whose address the provider has verified, and of no longer domain."""
    settings.OIDC = oidc(provider, domains=frozenset({"example.org"}))
    provider.claims |= claims
    client = Client()
    come(provider, client)

    assert bool(who(client)) == is_let_in


def test_user_whom_an_admin_keeps_out_stays_out(provider: Provider) -> None:
    """The provider does not know about that."""
    come(provider)
    User.objects.update(is_active=False)
    client = Client()

    assert come(provider, client).status_code == 403
    assert who(client) == ""


def test_without_a_provider_there_is_no_such_page(settings: Any) -> None:
    """Nothing of it is active unless the environment says so."""
    settings.OIDC = None

    assert Client().get("/sign-in/oidc")["Location"] == "/sign-in"
    assert Client().get("/sign-in/oidc/back?code=x&state=y")["Location"] == "/sign-in"


GOOD = {"OIDC_ISSUER": "https://id.example", "OIDC_CLIENT_ID": "c", "OIDC_CLIENT_SECRET": "s"}


def test_environment_is_read() -> None:
    """Groups to roles; without an issuer there is none."""
    found = load_oidc({**GOOD, "OIDC_ROLES": "ops=admin, ml = lead:vision/detection", "OIDC_DOMAINS": "Example.org"})

    assert found is not None
    assert found.roles == (
        GroupRole(group="ops", role="admin"),
        GroupRole(group="ml", role="lead", queue="vision/detection"),
    )
    assert found.domains == {"example.org"}
    assert load_oidc({}) is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"OIDC_ISSUER": "http://id.example"}, "OIDC_ISSUER"),
        ({"OIDC_CLIENT_SECRET": ""}, "OIDC_CLIENT_SECRET"),
        ({"OIDC_ROLES": "ops=boss"}, "ops=boss"),
        ({"OIDC_ROLES": "ops=lead"}, "OIDC_ROLES"),
    ],
)
def test_wrong_environment_fails_at_start_with_the_name(changes: dict[str, str], words: str) -> None:
    """Not at the first sign-in."""
    with pytest.raises(EnvError, match=words):
        load_oidc({**GOOD, **changes})
