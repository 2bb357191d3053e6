"""Times out of selectors' rows, and the time range that a chart shows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any

from frontend.components.formats import clock

Series = dict[str, list[Any]]  # "at" and one list for each value, of one length


def as_time(value: datetime | str) -> datetime:
    """Return the time; selectors whose data also serves JSON give it as ISO text."""
    return datetime.fromisoformat(value) if isinstance(value, str) else value


def as_time_or_none(value: datetime | str | None) -> datetime | None:
    """Return the time, or None where there is none."""
    return None if value is None else as_time(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The time that a chart shows.

    Attributes:
        words: ``last 24 h``, or ``since 14:32`` while there is less than that.
        began: ``14:32`` in the second case, else empty.
    """

    since: datetime
    until: datetime
    words: str
    began: str = ""

    def shortened(self, first: Sequence[datetime | str], zone: tzinfo) -> "Range":
        """Return the range from the earliest of these times on, when that leaves out a good part of it.

        A cluster that runs for five minutes is not shown as a sliver of a day.
        """
        begins = min((as_time(at) for at in first), default=None)
        if begins is None or begins - self.since < (self.until - self.since) / 20:
            return self
        began = clock(begins, self.until, zone)
        return Range(since=begins, until=self.until, words=f"since {began}", began=began)


def series_in(range_: Range, zone: tzinfo, read: Callable[[datetime, datetime], Series]) -> tuple[Range, Series]:
    """Return a series over a range; one that has just begun is read again, as finely as its shorter range allows."""
    series = read(range_.since, range_.until)
    # Twice: what comes first in a coarse series is the beginning of a part that may hold the true beginning at its end.
    for _ in range(2):
        shorter = range_.shortened(series["at"][:1], zone)
        if shorter is range_:
            break
        range_, series = shorter, read(shorter.since, shorter.until)
    return range_, series
