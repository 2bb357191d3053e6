"""When a waiting job starts, as its page says it: the time, the range, and on how much it rests."""

from dataclasses import dataclass
from datetime import datetime, tzinfo

from frontend.components.formats import clock, counted, relative
from frontend.components.times import as_time_or_none
from frontend.pages.jobs.subject import Subject
from scheduler.selectors.jobs.reason_rows import EstimateRow, SimulatedStart

BEYOND = "later than 7 days from now"


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateView:
    """What is told of a start.

    Attributes:
        sub: What the estimate was made from, or why nothing is known.
        short: The same in one line, for a phone; empty where nothing is known.
        late: The time by which nine in ten futures start it, in words; empty where nothing is known.
        basis: How far such estimates were off; empty where nothing is known.
    """

    title: str
    sub: str
    starts_in: str = ""
    short: str = ""
    late: str = ""
    basis: str = ""


def estimate_view(subject: Subject) -> EstimateView | None:
    """Return the card; None for a job that does not wait."""
    found = subject.explain["estimate"]
    if found is None:
        return None
    p50_at = as_time_or_none(found["p50_at"])
    if p50_at is None:
        title, _, why = subject.words(found["sentence"]).partition(": ")
        title = f"Its start is {title.lower()}" if why else title
        return EstimateView(title=title, sub=why[:1].upper() + why[1:])
    is_past, at = p50_at <= subject.at, clock(p50_at, subject.at, subject.zone)
    late = late_words(found, subject.at, subject.zone)
    return EstimateView(
        title=f"{'Was to start' if is_past else 'Starts'} at about {at}",
        short=f"Start: {'was due ' if is_past else ''}about {at}, {late}",
        sub=_made_words(found, subject.at),
        starts_in=relative(p50_at, subject.at),
        late=late,
        basis=_stretched_words(found) + subject.explain["estimate_basis"],
    )


def _made_words(found: EstimateRow, at: datetime) -> str:
    """Return what the estimate was made from, and how old it is."""
    made_at = as_time_or_none(found["made_at"])
    age = f", {relative(made_at, at)}" if made_at else ""
    return f"{counted(found['futures'], 'simulated future')} after round {found['round']}{age}"


def late_words(found: EstimateRow, at: datetime, zone: tzinfo) -> str:
    """Return the time for nine in ten as a sentence."""
    p90_at = as_time_or_none(found["p90_at"])
    return f"9 in 10 by {clock(p90_at, at, zone)}." if p90_at else f"9 in 10: {BEYOND}."


def _stretched_words(found: EstimateRow) -> str:
    """Return why the time for nine in ten is later than the futures say; empty where it is not."""
    is_later = found["simulated_p90_at"] is not None and found["simulated_p90_at"] != found["p90_at"]
    return "The second time is later than simulated, as lately jobs started later. " if is_later else ""


def time_rows(estimate: SimulatedStart, at: datetime, zone: tzinfo) -> list[tuple[str, str]]:
    """Return the times of a known estimate: of half, of nine in ten, and what the futures alone say of the latter."""
    p50_at, p90_at = as_time_or_none(estimate["p50_at"]), as_time_or_none(estimate["p90_at"])
    simulated_at = as_time_or_none(estimate["simulated_p90_at"])
    rows = [
        ("1 in 2 by", clock(p50_at, at, zone) if p50_at else BEYOND),
        ("9 in 10 by", clock(p90_at, at, zone) if p90_at else BEYOND),
    ]
    if simulated_at is not None and simulated_at != p90_at:
        rows.append(("As simulated", f"{clock(simulated_at, at, zone)}, but lately jobs started later than simulated"))
    return rows
