"""Sentences of the what-if pages."""

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
    assert view.title.replace("\u00a0", " ") == "Replayed completion times are within 2.5 % of reality"
    assert [cells[3].replace("\u00a0", " ") for cells in view.rows] == ["2.5 %", "100.0 %"]


def test_a_trace_is_named_with_what_is_known_of_it() -> None:
    """Before its jobs are read only that it was uploaded."""
    assert start_words({"kind": "trace"}) == "An uploaded trace"
    assert start_words({"kind": "trace"}, "month.csv on 12 servers") == "Trace month.csv on 12 servers"
