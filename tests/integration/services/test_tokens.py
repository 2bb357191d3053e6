"""Tokens: shown once, kept as a hash, dead when revoked, expired or orphaned."""

import hashlib
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.db import OperationalError
from django.db.models import QuerySet

from scheduler.core.model.errors import NotAllowed, NotFound, SpecInvalid
from scheduler.models import ApiToken, Event
from scheduler.services.accounts.tokens import MOST_TOKENS, token_create, token_revoke, token_user
from tests.support.rows.factories import AT, user_make

pytestmark = pytest.mark.django_db


@pytest.fixture
def user() -> User:
    """Somebody without any role."""
    return user_make("ada")


def create(actor: Any, **changes: Any) -> tuple[ApiToken, str]:
    """Create a token."""
    values: dict[str, Any] = {"name": "laptop", "scopes": ["jobs:read"], "expires_at": None, **changes}
    return token_create(actor=actor, at=AT, **values)


def test_token_works_and_its_text_is_kept_nowhere(user: User) -> None:
    """The text opens the door; the database has only its hash and first letters, the event not even the hash."""
    token, text = create(user)
    kept = str(list(ApiToken.objects.values())) + str(list(Event.objects.values()))

    assert token_user(text, AT) == (user, token)
    assert text not in kept
    assert text[8:] not in kept
    assert token.sha256 == hashlib.sha256(text.encode()).hexdigest()
    assert token.sha256 not in str(list(Event.objects.values()))


def test_a_busy_database_refuses_no_request_for_the_note_of_last_use(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When it was used last is for people to read; the token is as good without."""
    token, text = create(user)

    def busy(self: Any, **columns: Any) -> int:
        raise OperationalError("database is locked")

    monkeypatch.setattr(QuerySet, "update", busy)

    assert token_user(text, AT) == (user, token)
    assert ApiToken.objects.get().last_used_at is None


def test_scopes_are_kept_in_one_order_without_repeats(user: User) -> None:
    """Equal rights look equal."""
    token, _ = create(user, scopes=["jobs:write", "jobs:read", "jobs:write"])

    assert token.scopes == ["jobs:read", "jobs:write"]


def test_two_tokens_differ(user: User) -> None:
    """Every token is new."""
    assert create(user)[1] != create(user)[1]


@pytest.mark.parametrize("text", ["", "cw_", "cw_x", "\x00", "\ud800", "x" * 10_000])
def test_wrong_text_opens_nothing(user: User, text: str) -> None:
    """Whatever is sent, the answer is None."""
    create(user)

    assert token_user(text, AT) is None


@pytest.mark.parametrize(("after", "lives"), [(timedelta(minutes=59), True), (timedelta(hours=1), False)])
def test_token_expires(user: User, after: timedelta, lives: bool) -> None:
    """From its end on a token is refused."""
    _, text = create(user, expires_at=AT + timedelta(hours=1))

    assert (token_user(text, AT + after) is not None) == lives


def test_token_ends_by_itself_where_none_is_named(user: User, settings: Any) -> None:
    """In 90 days, or when an admin's limit says."""
    usual, _ = create(user)
    settings.TOKEN_MOST_DAYS = 30
    short, _ = create(user)

    assert usual.expires_at == AT + timedelta(days=90)
    assert short.expires_at == AT + timedelta(days=30)


def test_longer_life_is_chosen_up_to_the_limit(user: User, settings: Any) -> None:
    """By its maker, not beyond what an admin allows."""
    settings.TOKEN_MOST_DAYS = 200
    long, _ = create(user, expires_at=AT + timedelta(days=200))

    assert long.expires_at == AT + timedelta(days=200)
    with pytest.raises(SpecInvalid, match="200 days at most"):
        create(user, expires_at=AT + timedelta(days=201))


def test_token_of_old_that_has_no_end_still_works(user: User) -> None:
    """It was promised; its owner is told to replace it."""
    token, text = create(user)
    ApiToken.objects.filter(pk=token.pk).update(expires_at=None)

    assert token_user(text, AT + timedelta(days=2_000)) is not None


def test_revoked_token_is_dead_at_once(user: User) -> None:
    """Revoking counts from the next request; doing it again changes nothing."""
    token, text = create(user)
    token_revoke(actor=user, token=token, at=AT)
    token_revoke(actor=user, token=token, at=AT)

    assert token_user(text, AT) is None
    assert Event.objects.filter(kind="token", reason="revoke").count() == 1


def test_token_of_a_deactivated_user_is_dead(user: User) -> None:
    """Who may not sign in may not use a token."""
    _, text = create(user)
    User.objects.filter(pk=user.pk).update(is_active=False)

    assert token_user(text, AT) is None


def test_last_use_is_noted_about_once_a_minute(user: User) -> None:
    """People see when a token was used; a busy token does not write with each request."""
    token, text = create(user)
    seen: list[datetime | None] = []
    for seconds in (0, 30, 60):
        token_user(text, AT + timedelta(seconds=seconds))
        seen.append(ApiToken.objects.get(pk=token.pk).last_used_at)

    assert seen == [AT, AT, AT + timedelta(seconds=60)]


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"name": " "}, "/name"),
        ({"name": "x" * 81}, "/name"),
        ({"scopes": []}, "/scopes"),
        ({"scopes": ["everything"]}, "/scopes"),
        ({"expires_at": AT}, "/expires_at"),
    ],
)
def test_bad_token_is_refused(user: User, changes: dict[str, Any], pointer: str) -> None:
    """Each bad field is named."""
    with pytest.raises(SpecInvalid) as caught:
        create(user, **changes)

    assert [error.pointer for error in caught.value.errors] == [pointer]


def test_number_of_tokens_is_capped(user: User) -> None:
    """A script that makes a token with each run is stopped; revoking makes room."""
    for _ in range(MOST_TOKENS):
        token, _ = create(user)
    with pytest.raises(SpecInvalid, match="Revoke one first"):
        create(user)
    token_revoke(actor=user, token=token, at=AT)

    assert create(user)[0].user == user


def test_only_admins_get_the_scope_admin(user: User) -> None:
    """A token gives no more than its owner has."""
    with pytest.raises(NotAllowed):
        create(user, scopes=["admin"])

    assert create(user_make(admin=True), scopes=["admin"])[0].scopes == ["admin"]


def test_others_tokens_do_not_exist(user: User) -> None:
    """A stranger cannot revoke, an admin can."""
    token, _ = create(user)
    for stranger in (user_make(), AnonymousUser()):
        with pytest.raises(NotFound):
            token_revoke(actor=stranger, token=token, at=AT)
    token_revoke(actor=user_make(admin=True), token=token, at=AT)

    assert ApiToken.objects.get(pk=token.pk).revoked_at == AT


@pytest.mark.parametrize("actor", [AnonymousUser(), User(username="gone", is_active=False)])
def test_nobody_makes_tokens_without_signing_in(actor: Any) -> None:
    """Anonymous and deactivated users get none."""
    with pytest.raises(NotAllowed):
        create(actor)
