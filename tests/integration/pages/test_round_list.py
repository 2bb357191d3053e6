"""The list of rounds: what changed nothing is folded, a time leads to its round; a round shows the map as it was."""

from datetime import timedelta

import pytest
from django.utils import timezone

from scheduler.models import Round
from tests.integration.api.conftest import World
from tests.support.rows.factories import round_make

pytestmark = pytest.mark.django_db


@pytest.fixture
def past(world: World) -> World:
    """Rounds 2 to 20, one a minute; 8 and 15 started a job."""
    Round.objects.filter(number=1).update(started_at=timezone.now() - timedelta(hours=1))
    for number in range(2, 21):
        at = timezone.now() - timedelta(minutes=40 - number)
        round_make(number, at=at, num_launched=int(number in (8, 15)), num_preempted=0)
    return world


def test_rounds_that_changed_nothing_are_one_line(past: World) -> None:
    """It leads to each of them; "Every one" and "With changes" stand beside."""
    client = past.client("member")
    page = client.get("/rounds").content.decode()

    assert "16 to 20" in page
    assert "5\u00a0rounds changed nothing" in page
    assert "9 to 14" in page
    assert 'href="/rounds/15"' in page
    assert 'href="/rounds/12"' not in page
    assert 'href="/rounds/12"' in client.get("/rounds?every=1").content.decode()
    assert 'href="/rounds/12"' not in client.get("/rounds?changes=1").content.decode()


def test_a_time_leads_to_its_round(past: World) -> None:
    """The last that had begun by then stands first; what is no time, or before all, says so."""
    client = past.client("member")
    asked = (timezone.now() - timedelta(minutes=29, seconds=30)).strftime("%Y-%m-%dT%H:%M:%S")

    answer = client.get("/rounds", {"at": asked})

    assert answer.headers["Location"] == "/rounds?before=11"
    assert "No round had begun by" in client.get("/rounds?at=2001-01-01T10:00").content.decode()
    assert "is no date and time" in client.get("/rounds?at=yesterday").content.decode()


def test_a_round_shows_the_map_as_it_was(past: World) -> None:
    """What it granted stands on its servers in the colours of the queues; others' jobs have none."""
    page = past.client("member").get("/rounds/1").content.decode()

    assert "The map as it was" in page
    assert "server-01: 1 held, 3 free" in page
    assert "another job" in past.client("outsider").get("/rounds/1").content.decode()
    assert "The map as it was" not in past.client("member").get("/rounds/8").content.decode()
