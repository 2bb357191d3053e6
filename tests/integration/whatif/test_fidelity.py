"""The simulator's error over a window of the cluster's own history, which was made through the real services."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from scheduler.models import Job, Scenario
from scheduler.notify import use_bell
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


def test_card_of_a_past_window_tells_a_small_error(worlds: Worlds) -> None:
    """Days of jobs that waited for each other, replayed under the policy of then, are within a few per cent of them."""
    lived = Lived(workload("2017-10-09:2017-10-11"), policy="fifo")
    begun = lived.world.clock.now()
    lived.live(lambda: None)
    ended = lived.world.clock.now() + timedelta(minutes=1)
    assert Job.objects.filter(executed_s__gt=0).count() == len(lived.jobs)

    start = {"kind": "past", "since": begun.isoformat(), "until": ended.isoformat()}
    asked = scenario_create(actor=lived.world.admin, body=scenario_body(start=start), at=ended)
    runner = worlds.runner()

    def is_over() -> bool:
        runner.tick()
        return not Scenario.objects.filter(pk=asked.pk, state__in=("queued", "running")).exists()

    wait_for("the replay ended", is_over, within_s=60)
    asked.refresh_from_db()
    rows = {row["key"]: row for row in asked.about["fidelity"]}
    client = Client()
    client.force_login(lived.world.admin)
    page = client.get(f"/whatif/{asked.pk}").content.decode()

    assert asked.about["held"]["policy"] == "fifo"
    assert rows["avg_queueing_s"]["happened"] > 60.0, "nobody waited, so that nothing was checked"
    for key in ("avg_jct_s", "p99_jct_s", "makespan_s", "avg_gpu_occupancy"):
        assert abs(rows[key]["error_frac"]) <= MOST_ERROR_FRAC, rows
    assert "Replayed completion times are within" in page
