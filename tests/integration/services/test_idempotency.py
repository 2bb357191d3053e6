"""A repeated request gives the first answer, and its effect happens once."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User

from scheduler.models import IdempotencyKey
from scheduler.services.idempotency import Answer, KeyReused, idempotent
from tests.support.rows.factories import AT, user_make

pytestmark = pytest.mark.django_db


class Work:
    """Counts how often it was done."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> tuple[int, Any, str]:
        """Do it once more."""
        self.times += 1
        return 201, {"times": self.times}, f"/jobs/{self.times}"


@pytest.fixture
def user() -> User:
    """Somebody."""
    return user_make()


def ask(user: User, work: Work, *, key: str = "k", body: str = "b", route: str = "jobs", hours: float = 0) -> Answer:
    """Send a request."""
    at = AT + timedelta(hours=hours)
    return idempotent(user=user, route=route, key=key, body_hash=body, at=at, make=work)


def test_repeat_gives_the_first_answer(user: User) -> None:
    """The same key and body: same status, body and location, done once."""
    work = Work()
    first, again = ask(user, work), ask(user, work, hours=23)

    assert first == Answer(201, {"times": 1}, "/jobs/1", False)
    assert again == Answer(201, {"times": 1}, "/jobs/1", True)
    assert work.times == 1


def test_same_key_for_another_body_is_refused(user: User) -> None:
    """A key belongs to one request."""
    work = Work()
    ask(user, work)
    with pytest.raises(KeyReused):
        ask(user, work, body="other")

    assert work.times == 1


def test_keys_of_users_and_routes_do_not_meet(user: User) -> None:
    """Everybody chooses keys freely."""
    work = Work()
    ask(user, work)
    ask(user, work, route="queues")
    ask(user_make(), work)

    assert work.times == 3


def test_key_is_free_again_after_a_day(user: User) -> None:
    """Answers are kept for 24 hours; then the key means a new request, and old rows go away."""
    work = Work()
    ask(user, work, key="old")
    ask(user, work, key="k")
    again = ask(user, work, key="k", hours=24)

    assert (again.replayed, work.times) == (False, 3)
    assert list(IdempotencyKey.objects.values_list("key", flat=True)) == ["k"]


def test_failed_request_is_not_kept(user: User) -> None:
    """What raised may be sent again with the same key, and its effect is undone."""
    work = Work()

    def fail() -> tuple[int, Any, str]:
        user_make("half")
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        idempotent(user=user, route="jobs", key="k", body_hash="b", at=AT, make=fail)

    assert not User.objects.filter(username="half").exists()
    assert not ask(user, work).replayed


def test_loser_of_a_race_is_undone_and_answers_like_the_winner(user: User) -> None:
    """Two requests with one key at once: the unique row decides, one effect stays."""

    def overtaken() -> tuple[int, Any, str]:
        user_make("loser")
        IdempotencyKey.objects.create(
            user=user, route="jobs", key="k", body_hash="b", status=201, body={"by": "winner"}, created_at=AT
        )
        return 201, {"by": "loser"}, ""

    # Within one transaction the winner's row goes with the loser's work, so nothing is left to replay.
    with pytest.raises(Exception, match="Send it again"):
        idempotent(user=user, route="jobs", key="k", body_hash="b", at=AT, make=overtaken)

    assert not User.objects.filter(username="loser").exists()
