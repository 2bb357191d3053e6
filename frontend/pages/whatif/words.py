"""Sentences of the what-if pages."""

from collections.abc import Sequence, Set
from dataclasses import dataclass
from datetime import datetime

from frontend.components.formats import NBSP, counted, duration, joined, number, percent, significant
from scheduler.selectors.rows import FidelityRow, Json
from scheduler.selectors.whatif import LEAST_WAIT_S, MOST_ERROR_FRAC, doubts
from scheduler.simulator.report.figures import Figures
from scheduler.simulator.workloads import PREFIX

TIMES = ("avg_jct_s", "p99_jct_s", "makespan_s")
# What an admin writes to apply settings that an unreliable answer speaks for.
ANYWAY = "not reliable"
# A makespan of so many times the time in which jobs arrive is told.
FAR = 1.5
FIGURES = {
    "avg_jct_s": "Mean JCT",
    "p99_jct_s": "p99 JCT",
    "avg_queueing_s": "Mean wait",
    "makespan_s": "Makespan",
    "avg_allocated_gpus": "Allocated",
}


def start_words(start: Json, about: str = "") -> str:
    """Return where a scenario starts, as the beginning of a line; ``about`` names its trace, or what it held."""
    kind = start["kind"]
    if kind == "live":
        return "The live cluster"
    if kind == "past" and about:
        return f"Replay of {about}"
    if kind == "past":
        since, until = (datetime.fromisoformat(start[name]) for name in ("since", "until"))
        return f"Replay of {since:%-d %b %H:%M} to {until:%-d %b %H:%M} UTC"
    if kind == "trace":
        return f"Trace {about}" if about else "An uploaded trace"
    return f"Generated: {start['text'].removeprefix(PREFIX).replace('?', ', ').replace('&', ', ')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FidelityView:
    """The error of the simulator on the chosen window.

    Attributes:
        title: The finding; empty where nothing could be compared.
        verdict: Its first words: for what the answer can be relied on.
        doubt: Why the answer is not to be trusted; empty where it is.
        rows: Name, what happened, what was replayed, error.
        note: Which figures are left out, and why; empty where all are there.
    """

    title: str
    verdict: str
    doubt: str
    rows: list[tuple[str, str, str, str]]
    note: str


def fidelity_view(rows: Sequence[FidelityRow] | None) -> FidelityView | None:
    """Return the fidelity card; None where there is nothing to compare with."""
    if not rows:
        return None
    errors = [abs(row["error_frac"]) for row in rows if row["error_frac"] is not None and row["key"] in TIMES]
    known = (
        f"Replayed under the settings that held then, completion times are within {percent(max(errors), 1)} of what "
        f"happened{_wait_words(rows)}"
        if errors
        else ""
    )
    off = doubts(rows)
    return FidelityView(
        title=known,
        verdict="Reliable for completion times, less for waits." if any(map(_is_wait_off, rows)) else "Reliable.",
        doubt="; ".join(_off_words(row) for row in rows if row["key"] in off),
        rows=[
            (
                FIGURES.get(row["key"], row["key"]),
                _text(row, row["happened"]),
                _text(row, row["replayed"]),
                "not measured" if row["error_frac"] is None else percent(abs(row["error_frac"]), 1),
            )
            for row in rows
        ],
        note=_missing_words({row["key"] for row in rows}),
    )


def _missing_words(keys: Set[str]) -> str:
    names = [FIGURES[key] for key in TIMES if key not in keys]
    is_are = "is" if len(names) == 1 else "are"
    return f"{joined(names)} {is_are} not compared: jobs of the window go on, here or in the replay." if names else ""


def _wait_words(rows: Sequence[FidelityRow]) -> str:
    """Return how mean waits compare, as the end of a sentence."""
    found = [(row["happened"], row["replayed"]) for row in rows if row["key"] == "avg_queueing_s"]
    return "".join(f"; mean wait {duration(replayed)}, really {duration(happened)}" for happened, replayed in found)


def _is_wait_off(row: FidelityRow) -> bool:
    """Return whether mean waits differ by more than completion times may, and not by seconds."""
    is_wait = row["key"] == "avg_queueing_s" and max(row["happened"], row["replayed"]) >= LEAST_WAIT_S
    return is_wait and row["error_frac"] is not None and abs(row["error_frac"]) > MOST_ERROR_FRAC


def _off_words(row: FidelityRow) -> str:
    name = FIGURES.get(row["key"], row["key"]).lower().replace("jct", "JCT")
    return f"{name} was really {_text(row, row['happened'])}, replayed {_text(row, row['replayed'])}"


def _text(row: FidelityRow, value: float) -> str:
    return duration(value) if row["kind"] == "time" else f"{number(value, 1)}{NBSP}GPUs"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadView:
    """What is asked of the cluster: for how long jobs arrive, the offered load, and what to make of a late end.

    Attributes:
        text: One line.
        doubt: What is off, and what that means for the figures; empty where nothing is.
        title: Its first words.
    """

    text: str
    doubt: str
    title: str


def load_view(figures: Sequence[Figures], names: Sequence[str]) -> LoadView | None:
    """Return what the variants ask of the cluster; None where it is not known, or all jobs are there at once."""
    loads = [round(one.offered_load, 2) for one in figures]
    if not all(loads):
        return None
    low, high = min(loads), max(loads)
    jobs, arrivals_s = figures[0].summary["jobs"], figures[0].arrivals_s
    span = percent(low) if low == high else f"{percent(low)} to {percent(high)}"
    asked = f"ask for {span} of the GPU time there is meanwhile (offered load)"
    arrive = "arrives" if jobs == 1 else "arrive"
    text = f"{counted(jobs, 'job')} {arrive} over {duration(arrivals_s)} and {asked}"
    at = max(range(len(figures)), key=lambda row: figures[row].summary["makespan_s"] / figures[row].arrivals_s)
    makespan_s, own_s = figures[at].summary["makespan_s"], figures[at].arrivals_s
    late = ""
    if makespan_s > FAR * own_s:
        times = f"{significant(round(makespan_s / own_s, 1))} times as long as jobs arrive"
        late = f"Under {names[at]} the last job ends after {duration(makespan_s)}, {times}."
    above = [name for name, load in zip(names, loads, strict=True) if load > 1]
    if above:
        under = "in every variant" if len(above) == len(names) else f"under {joined(above)}"
        grow = f"More GPU time is asked for than there is {under}, so waits grow for as long as jobs arrive."
        return LoadView(text=text, title="Load above capacity.", doubt=f"{grow} {late}".strip())
    long = f"{late} Some jobs are long for this cluster: compare completion times, not makespans." if late else ""
    return LoadView(text=text, title="Makespan far beyond the arrivals." if late else "", doubt=long)
