"""The cards of a queue's first tab are of the range that is chosen, and say so where it holds nothing."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from scheduler.core.model.lifecycle import JobState
from scheduler.models import Job, Queue
from tests.integration.api.conftest import World
from tests.support.rows.factories import job_make

pytestmark = pytest.mark.django_db


def card(world: World, range_: str, id_: str) -> str:
    """Return the words of one chart of the page: its head and, where nothing is drawn, what stands instead."""
    page = world.client("lead").get(f"/queues/vision?range={range_}").content.decode()
    found = re.search(rf'<h2 id="{id_}-title".*?</figure>', page, re.DOTALL)
    assert found is not None
    return re.sub(r"<script.*?</script>|<table.*?</table>|<[^>]+>", "", found[0], flags=re.DOTALL)


def test_fairness_is_of_the_chosen_range(world: World) -> None:
    """A job that ended three days ago is one of 7 d and not of 24 h; of a past month only what completed in it."""
    now = datetime.now(UTC)
    Queue.objects.update(created_at=now - timedelta(days=200))
    Job.objects.filter(queue=world.vision).exclude(state__in=[JobState.RUNNING, JobState.QUEUED]).delete()
    job = job_make(world.vision, state=JobState.COMPLETED, owner=world.users["member"])
    ended = now - timedelta(days=3)
    Job.objects.filter(pk=job.pk).update(submitted_at=ended - timedelta(hours=9), ended_at=ended, executed_s=60.0)
    Job.objects.filter(pk=world.job.pk).update(submitted_at=now - timedelta(hours=1))

    def rated(range_: str) -> int:
        found = re.search(r"of (\d+)\xa0jobs? fared worse", card(world, range_, "fairness"))
        return int(found[1]) if found else 0

    past = now - timedelta(days=100)
    assert rated("7d") == rated("24h") + 1 > 1
    assert "jobs that run now or completed in the last 7 d" in card(world, "7d", "fairness")
    assert f"No job of vision completed in {past:%B %Y}" in card(world, f"{past:%Y-%m}", "fairness")


def test_month_before_the_queue_was_made_says_so(world: World) -> None:
    """Nothing comes with the next rounds for a time that is over."""
    made, past = datetime.now(UTC) - timedelta(days=1), datetime.now(UTC) - timedelta(days=100)
    Queue.objects.update(created_at=made)
    told = card(world, f"{past:%Y-%m}", "share")

    assert f"No rounds in {past:%B %Y}" in told
    assert f"vision was made on {made.day} {made:%b %Y}; its history begins then." in told
    assert "next rounds" not in told
