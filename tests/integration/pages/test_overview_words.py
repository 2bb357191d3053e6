"""Sentences of the overview that say the same as its numbers and its warnings."""

import re
from pathlib import Path
from typing import cast

import pytest

from frontend.components.devices import CPU_SLOTS
from frontend.components.times import Series
from frontend.pages.overview.fairness import fairness_chart
from frontend.pages.overview.words import counts, shares_title, tiles
from scheduler.selectors.cluster.rows import ClusterFrame, CompletionTimes, Fairness, QueueShareRow

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
    """No bare "96 %, 0 in 24 h"."""
    now = {"allocated_gpus": 23, "usable_gpus": 24, "busy_gpus": 20, "unknown_gpus": 0, "waiting_jobs": 3}
    frame = cast(ClusterFrame, {**now, "mean_utilization_frac": 0.8})
    before = {"allocated_gpus": [23.0, 22.0], "busy_gpus": [18.0, 20.0], "waiting_jobs": [4.0, 3.0]}
    times = dict.fromkeys(("p50_s", "p90_s", "wait_p50_s", "wait_p90_s"), 60.0)
    summary = cast(CompletionTimes, {**times, "count": 2})
    series: Series = {**before, "unknown_gpus": [0.0, 0.0]}
    told = tiles(frame=frame, series=series, summary=summary, span="24 h", began="", device=CPU_SLOTS)
    deltas = {tile["id"]: tile["delta"].replace("\u00a0", " ") for tile in told}

    assert deltas["tile-allocated"] == "96 % of them, as many as 24 h ago"
    assert deltas["tile-utilization"] == "20 busy, 2 more than 24 h ago"
    assert deltas["tile-waiting"] == "1 fewer than 24 h ago"
    assert deltas["tile-idle"] == "under 5 % use, 2 fewer than 24 h ago"


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
