"""Sentences of the what-if pages."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from frontend.components.formats import duration, percent
from scheduler.selectors.rows import FidelityRow, Json
from scheduler.simulator.workloads import PREFIX

# The title is about these. Mean wait is left out: of a very short wait even a large relative error is no news.
TIMES = ("avg_jct_s", "p99_jct_s", "makespan_s")
FIGURES = {
    "avg_jct_s": "Mean JCT",
    "p99_jct_s": "p99 JCT",
    "avg_queueing_s": "Mean wait",
    "makespan_s": "Makespan",
    "avg_gpu_occupancy": "Allocated",
}


def start_words(start: Json, file: str = "") -> str:
    """Return where a scenario starts, as the beginning of a line; ``file`` is the name of its trace."""
    kind = start["kind"]
    if kind == "live":
        return "The live cluster"
    if kind == "past":
        since, until = (datetime.fromisoformat(start[name]) for name in ("since", "until"))
        return f"Replay of {since:%-d %b %H:%M} to {until:%-d %b %H:%M} UTC"
    if kind == "trace":
        return f"Trace {file}" if file else "An uploaded trace"
    return f"Generated: {start['text'].removeprefix(PREFIX).replace('?', ', ').replace('&', ', ')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FidelityView:
    """The error of the simulator on the chosen window.

    Attributes:
        title: The finding.
        rows: Name, what happened, what was replayed, error.
    """

    title: str
    rows: list[tuple[str, str, str, str]]


def fidelity_view(rows: Sequence[FidelityRow] | None) -> FidelityView | None:
    """Return the fidelity card; None where there is nothing to compare with."""
    if not rows:
        return None
    errors = [abs(row["error_frac"]) for row in rows if row["error_frac"] is not None and row["key"] in TIMES]
    known = f"Replayed completion times are within {percent(max(errors), 1)} of reality" if errors else ""
    return FidelityView(
        title=known or "Nothing to compare with",
        rows=[
            (
                FIGURES.get(row["key"], row["key"]),
                _text(row, row["happened"]),
                _text(row, row["replayed"]),
                "not measured" if row["error_frac"] is None else percent(abs(row["error_frac"]), 1),
            )
            for row in rows
        ],
    )


def _text(row: FidelityRow, value: float) -> str:
    return duration(value) if row["kind"] == "time" else percent(value, 1)
