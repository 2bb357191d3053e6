"""The simulator's error over a window of the cluster's own history, which was made through the real services."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from scheduler.models import Job, Scenario
from scheduler.notify import use_bell
from scheduler.selectors.whatif import doubts
from scheduler.services.whatif.scenarios import scenario_create
from tests.support.e2e.stack import wait_for
from tests.support.live.lived import Lived, workload
from tests.support.rows.scenarios import scenario_body
from tests.support.rows.whatif_world import Worlds

pytestmark = pytest.mark.django_db(transaction=True)
# The replay starts jobs at once, the live cluster at its next round; nothing else differs.
MOST_ERROR_FRAC = 0.05


@pytest.fixture
def worlds(processes: None, settings: Any, tmp_path: Path) -> Iterator[Worlds]:
    """Workers of this test; none of their processes outlives it."""
    settings.VAR_DIR = tmp_path
    settings.STATIC_ROOT = tmp_path
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}
    made = Worlds()
    yield made
    made.stop()
    use_bell(None)


def _replayed(worlds: Worlds, lived: Lived, begun: datetime, until: datetime) -> Scenario:
    """Return the scenario that replays a past window, once it has ended."""
    start = {"kind": "past", "since": begun.isoformat(), "until": until.isoformat()}
    asked = scenario_create(actor=lived.world.admin, body=scenario_body(start=start), at=until)
    worlds.clock_ahead(until - datetime.now(UTC))
    runner = worlds.runner()

    def is_over() -> bool:
        runner.tick()
        return not Scenario.objects.filter(pk=asked.pk, state__in=("queued", "running")).exists()

    wait_for("the replay ended", is_over, within_s=60)
    asked.refresh_from_db()
    return asked


class _Enough(Exception):
    """The window ends here."""


def test_window_that_ends_now_counts_the_jobs_that_go_on(worlds: Worlds) -> None:
    """Long jobs are those that have not ended; the waits that they cause are in the replay as they were."""
    lived = Lived(workload("2017-10-09:2017-10-11"), policy="fifo")
    begun = lived.world.clock.now()

    def until_many_wait() -> None:
        now = lived.world.clock.now()
        if now - begun > timedelta(hours=30) and Job.objects.filter(state="queued").count() >= 10:
            raise _Enough

    with pytest.raises(_Enough):
        lived.live(until_many_wait)
    now = lived.world.clock.now() + timedelta(seconds=1)  # what was submitted at this moment is in the window
    open_jobs = Job.objects.filter(ended_at=None).count()
    asked = _replayed(worlds, lived, begun, now)
    rows = {row["key"]: row for row in asked.about["fidelity"]}

    assert open_jobs >= 10
    assert asked.about["text"].startswith(f"{Job.objects.count()} jobs of ")
    assert any(warning.startswith(f"{open_jobs} jobs have not ended. ") for warning in asked.about["warnings"])
    assert rows["avg_queueing_s"]["happened"] > 600.0
    assert doubts(asked.about["fidelity"]) == [], rows


def test_card_of_a_past_window_tells_a_small_error(worlds: Worlds) -> None:
    """Days of jobs that waited for each other, replayed under the policy of then, are within a few per cent of them."""
    lived = Lived(workload("2017-10-09:2017-10-11"), policy="fifo")
    begun = lived.world.clock.now()
    lived.live(lambda: None)
    ended = lived.world.clock.now() + timedelta(minutes=1)
    assert Job.objects.filter(executed_s__gt=0).count() == len(lived.jobs)

    asked = _replayed(worlds, lived, begun, ended)
    rows = {row["key"]: row for row in asked.about["fidelity"]}
    client = Client()
    client.force_login(lived.world.admin)
    page = client.get(f"/whatif/{asked.pk}").content.decode()

    assert asked.about["held"]["policy"] == "fifo"
    assert rows["avg_queueing_s"]["happened"] > 60.0, "nobody waited, so that nothing was checked"
    for key in ("avg_jct_s", "p99_jct_s", "makespan_s", "avg_allocated_gpus"):
        assert abs(rows[key]["error_frac"]) <= MOST_ERROR_FRAC, rows
    assert "<b>Reliable.</b> Replayed under the settings that held then, completion times are within" in page
