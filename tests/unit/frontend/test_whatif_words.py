"""Sentences of the what-if pages."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from frontend.pages.whatif.title import title_of
from frontend.pages.whatif.words import fidelity_view, start_words
from scheduler.selectors.rows import FidelityRow


def row(key: str, happened: float, replayed: float) -> FidelityRow:
    """Return one figure of a past window."""
    return {
        "key": key, "kind": "time", "happened": happened, "replayed": replayed, "error_frac": replayed / happened - 1,
    }  # fmt: skip


def test_card_of_a_past_window_tells_the_largest_error_of_times() -> None:
    """A wait of a minute that was none in the replay is in the table, and not what the title says of hours."""
    view = fidelity_view([row("avg_jct_s", 3600.0, 3510.0), row("avg_queueing_s", 98.0, 0.0)])

    assert view is not None
    title = "Replayed completion times are within 2.5 % of reality, mean wait 0 s for 1 min 38 s"
    assert view.title.replace("\u00a0", " ") == title
    assert [cells[3].replace("\u00a0", " ") for cells in view.rows] == ["2.5 %", "100.0 %"]


def test_a_trace_is_named_with_what_is_known_of_it() -> None:
    """Before its jobs are read only that it was uploaded."""
    assert start_words({"kind": "trace"}) == "An uploaded trace"
    assert start_words({"kind": "trace"}, "month.csv on 12 servers") == "Trace month.csv on 12 servers"


@pytest.mark.parametrize(
    ("happened", "off"),
    [
        ([row("avg_jct_s", 3600.0, 3900.0), row("avg_queueing_s", 500.0, 260.0)], ""),
        ([row("avg_jct_s", 3600.0, 4000.0)], "mean JCT was really 1 h, replayed 1 h 7 min"),
        ([row("avg_queueing_s", 10_020.0, 39.0)], "mean wait was really 2 h 47 min, replayed 39 s"),
        ([row("avg_queueing_s", 39.0, 10_020.0)], "mean wait was really 39 s, replayed 2 h 47 min"),
        ([row("avg_queueing_s", 50.0, 1.0)], ""),
    ],
)
def test_answer_is_doubted_where_its_replay_is_far_off(happened: list[FidelityRow], off: str) -> None:
    """By more than a tenth, for waits by more than a factor of two, either way; short waits are as good as none."""
    view = fidelity_view(happened)

    assert view is not None
    assert view.doubt.replace("\u00a0", " ") == off


def test_variant_under_which_no_job_ends_is_named() -> None:
    """Its mean is 0 s, which is no completion: as when the servers that the jobs need are drained."""
    means = cast(Any, {"variants": [{"mean": 0.0}, {"mean": 0.0}], "winner": None, "sure": None})
    figures = cast(Any, [SimpleNamespace(jct=SimpleNamespace(value=np.array([])))] * 2)

    assert title_of(means, figures, ["las", "fifo"], 1) == "No job ends under las or fifo"
    assert title_of(means, figures, ["las"], 0) == "No job ends under las"
