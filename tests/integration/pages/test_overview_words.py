"""Sentences of the overview that say the same as its numbers and its warnings."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import pytest

from frontend.components.devices import CPU_SLOTS, GPUS
from frontend.components.times import Series
from frontend.pages.overview.alert_words import inbox_cost
from frontend.pages.overview.fairness import fairness_chart
from frontend.pages.overview.utilization import utilization_title
from frontend.pages.overview.words import counts, shares_title, tiles
from scheduler.selectors.cluster.alerts import AlertRow
from scheduler.selectors.cluster.rows import ClusterFrame, CompletionTimes, Fairness, QueueShareRow, ServerRow

UNTIL = datetime(2026, 3, 6, 12, tzinfo=UTC)
SCRIPT = Path(__file__).resolve().parents[3] / "frontend/pages/overview/static/overview/overview.js"


@pytest.mark.parametrize(
    ("free", "drained", "words"),
    [
        (2, 0, "No queue borrows, 2 CPU slots unused"),
        (0, 2, "No queue borrows, 2 CPU slots drained"),
        (1, 1, "No queue borrows, 1 CPU slot unused, 1 CPU slot drained"),
        (0, 0, "No queue borrows"),
    ],
)
def test_what_is_drained_is_not_called_unused(free: int, drained: int, words: str) -> None:
    """Drained devices take no jobs, and no more than what is free is called unused, however large the quotas are."""
    share = cast(QueueShareRow, {"id": "a", "name": "vision", "held_gpus": 2, "quota_gpus": 4})
    frame = cast(ClusterFrame, {"free_gpus": free, "drained_gpus": drained})

    assert shares_title([share], frame, CPU_SLOTS).replace("\u00a0", " ") == words


def test_tiles_say_what_each_part_and_change_is_of() -> None:
    """Short enough for one line each; how many are idle stands beside those that are busy."""
    now = {
        "drained_gpus": 8,
        "allocated_gpus": 23,
        "usable_gpus": 24,
        "busy_gpus": 20,
        "unknown_gpus": 0,
        "waiting_jobs": 3,
    }
    frame = cast(ClusterFrame, {**now, "mean_utilization_frac": 0.8})
    before = {
        "allocated_gpus": [22.0, 22.0],
        "drained_gpus": [0.0, 8.0],
        "busy_gpus": [18.0, 20.0],
        "waiting_jobs": [4.0, 3.0],
    }
    times = dict.fromkeys(("p50_s", "p90_s", "wait_p50_s", "wait_p90_s"), 60.0)
    summary = cast(CompletionTimes, {**times, "count": 2})
    series: Series = {**before, "unknown_gpus": [0.0, 0.0]}
    since = (UNTIL - timedelta(hours=60)).isoformat()
    servers = [cast(ServerRow, {"name": "sim-03", "state": "draining", "state_changed_at": since})]
    told = tiles(
        frame=frame, series=series, summary=summary, servers=servers, span="24 h", began="", now=UNTIL, device=CPU_SLOTS
    )
    deltas = {tile["id"]: tile["delta"].replace("\u00a0", " ") for tile in told}

    assert deltas["tile-allocated"] == "96 %, +1 in 24 h"
    assert deltas["tile-utilization"] == "20 busy, 3 idle"
    assert deltas["tile-waiting"] == "\u22121 in 24 h"
    assert deltas["tile-drained"] == "sim-03, 2 d 12 h"
    assert (told[-1]["value"], told[-1]["unit"], told[-1]["tone"]) == ("8", "CPU slots", "drained")


@pytest.mark.parametrize(
    ("rows", "keeps"),
    [
        ((8,), "It keeps"),
        ((8, 1), "They keep"),
        ((8, 0), "One of them keeps"),
        ((8, 1, 0), "2 of them keep"),
        ((0,), ""),
    ],
)
def test_what_alerts_cost_is_said_of_as_many_as_there_are(rows: tuple[int, ...], keeps: str) -> None:
    """One alert is not "one of them"."""
    told = inbox_cost([cast(AlertRow, {"lost_gpus": lost}) for lost in rows], GPUS)

    assert told.replace("\u00a0", " ") == (f"{keeps} {sum(rows)} GPUs out of use" if keeps else "")


def test_fairness_is_told_by_the_mean_that_the_warning_is_about() -> None:
    """One job that waits for long makes the mean high and leaves the median: the title does not call it well off."""
    job = {"number": 1, "name": "a", "queue": "vision", "color_slot": 1}
    found = cast(
        Fairness, {"jobs": [{**job, "rho": rho} for rho in (1.0, 1.0, 7.0)], "jain_index": 1.0, "is_cut": False}
    )
    chart = fairness_chart(found, "last 7 d")
    none = fairness_chart({"jobs": [], "jain_index": None, "is_cut": False}, "last 7 d")

    assert chart.title == "vision is held back most, mean \u03c1 3.00"
    assert chart.table_rows == [("vision", "3", "3.00", "7.00")]
    assert "of jobs that run now or completed in the last 7 d." in chart.sub
    assert none.title == "No job runs now or completed in the last 7 d"


def test_script_compares_the_counts_that_the_page_has() -> None:
    """In one order, or it would fetch the page without end; it writes none of them: they are of another moment."""
    script = SCRIPT.read_text()
    listed = re.search(r"const counts = \(frame\) =>\s*\[(.*?)\]", script, re.DOTALL)
    assert listed is not None
    names = re.findall(r"frame\.(\w+)", listed[1])
    frame = cast(ClusterFrame, {name: number for number, name in enumerate(names)})

    assert counts(frame) == ",".join(map(str, range(len(names))))
    assert not re.search(r'"(tile-allocated|tile-waiting|strip-free)"', script)


def test_utilization_names_no_moment_that_has_passed() -> None:
    """For how long most was free, not when that was: the page stays open, and the moment lies ever further back."""
    times = [datetime(2026, 1, 5, 6, tzinfo=UTC) + timedelta(minutes=10 * at) for at in range(20)]
    free = [8.0 if 5 <= at < 11 else 0.0 for at in range(20)]
    parts = {"busy": [8.0 - part for part in free], "free": free}
    parts |= {kind: [0.0] * 20 for kind in ("idle", "unknown", "drained", "broken")}

    assert utilization_title(parts, times, GPUS) == "Almost all of the cluster was free for 1\u00a0h"


def test_the_finding_of_a_chart_is_swapped_with_its_figure() -> None:
    """Live updates swap what is marked; a title that stays would tell of an earlier figure."""
    chart = (SCRIPT.parents[4] / "components/templates/components/chart.html").read_text()

    assert '<figcaption class="card-head" id="{{ chart.id }}-head" data-live-part>' in chart
