"""When a waiting job starts, as its page says it: the time, the range, and how far such estimates were off."""

from dataclasses import dataclass

from frontend.components.formats import clock, counted, duration, percent, relative
from frontend.components.times import as_time_or_none
from frontend.pages.jobs.subject import Subject


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateView:
    """The card. ``rows`` are names and values; empty where nothing is known."""

    title: str
    sub: str
    starts_in: str
    rows: list[tuple[str, str]]


def estimate_view(subject: Subject) -> EstimateView | None:
    """Return the card; None for a job that does not wait."""
    found, error = subject.explain["estimate"], subject.explain["estimate_error"]
    if found is None:
        return None
    p50_at, p90_at = as_time_or_none(found["p50_at"]), as_time_or_none(found["p90_at"])
    if p50_at is None:
        title, _, why = str(found["sentence"]).partition(": ")
        title = f"Its start is {title.lower()}" if why else title
        return EstimateView(title=title, sub=why[:1].upper() + why[1:], starts_in="", rows=[])
    rows = [
        ("1 in 2 by", clock(p50_at, subject.at, subject.zone)),
        ("9 in 10 by", clock(p90_at, subject.at, subject.zone) if p90_at else "later than 7 days from now"),
    ]
    if error:
        rows.append(("Such estimates were off by", f"{duration(error['median_error_s'])} in the median"))
        if error["covered_frac"] is not None:
            rows.append(("Started by the second time", f"{percent(error['covered_frac'])} of {error['starts']}"))
    return EstimateView(
        title=f"Starts at about {clock(p50_at, subject.at, subject.zone)}",
        sub=f"{counted(found['futures'], 'simulated future')} after round {found['round']}",
        starts_in=relative(p50_at, subject.at),
        rows=rows,
    )
