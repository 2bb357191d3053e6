"""The overview of an admin: alerts with what to do, what changed since the last visit; none of it for others."""

from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client

from scheduler.models import QueueBudget, QuotaRequest, Server
from scheduler.models.server import ServerState
from tests.integration.api.conftest import World

pytestmark = pytest.mark.django_db


def overview(client: Client) -> str:
    """Return the page as text."""
    return client.get("/").content.decode()


@pytest.fixture(autouse=True)
def _no_other_alert(world: World) -> None:
    """No request for quota is open, and no queue is beyond its budget."""
    QuotaRequest.objects.all().delete()
    QueueBudget.objects.all().delete()


def test_an_alert_says_what_and_why_and_offers_one_thing(world: World) -> None:
    """The drained server can be undrained from here; a reader without the right sees nothing of it."""
    Server.objects.filter(pk=world.server.pk).update(state=ServerState.DRAINING, state_reason="new fans")
    page = overview(world.client("admin"))

    assert "1\u00a0alert needs an admin" in page
    assert "server-01 is being drained" in page
    assert "1\u00a0job still runs on it and will move; nothing new starts. Reason: new fans." in page
    assert "It keeps 3\u00a0CPU slots out of use" in page
    assert f'href="/cluster/{world.server.pk}/undrain"' in page
    assert "Undrain server-01" in page
    assert 'id="inbox"' not in overview(world.client("lead"))


def test_without_an_alert_one_line_says_so(world: World) -> None:
    """The card stays, so that its silence is told."""
    assert "No alert is open" in overview(world.client("admin"))


def test_the_second_visit_says_what_changed(world: World) -> None:
    """Thirty minutes apart; the first visit has the usual line."""
    client, now = world.client("member"), datetime.now(UTC)
    assert "Since you last looked" not in overview(client)
    client.cookies["looked"] = f"0.{int((now - timedelta(hours=2)).timestamp())}"

    page = overview(client)

    assert "Since you last looked" in page
    assert "/events?since=" in page
    assert "Since you last looked" in overview(client), "the visit goes on"


@pytest.mark.parametrize("cookie", ["", "x", "1.2.3", "99999999999999.1", "-5.7", "0.99999999999"])
def test_an_odd_cookie_is_no_visit(world: World, cookie: str) -> None:
    """It comes from outside."""
    client = world.client("member")
    client.cookies["looked"] = cookie

    assert client.get("/").status_code == 200


def test_those_who_do_not_submit_are_not_asked_to(world: World) -> None:
    """An admin reads which server is free next; a member without jobs how to submit the first."""
    assert "Submit your first job" not in overview(world.client("admin"))
    assert 'id="next-free"' in overview(world.client("admin"))
    assert "Submit your first job" not in overview(world.client("viewer"))
    assert "Submit your first job" in overview(world.client("outsider"))


def test_the_page_of_events_takes_any_time(world: World) -> None:
    """A bad one means a day ago."""
    client = world.client("member")

    assert "happened since" in client.get("/events?since=2020-01-01T00:00:00Z").content.decode()
    for odd in ("yesterday", "0001-01-01T00:00:00+23:59", "0001-01-01T00:00:00-00:00"):
        assert client.get("/events", {"since": odd}).status_code == 200, odd
    assert "Nothing happened since" in client.get("/events", {"since": datetime.now(UTC).isoformat()}).content.decode()
