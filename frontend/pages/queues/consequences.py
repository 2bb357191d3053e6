"""The forecast of another quota in words and on one axis: two lines for each queue, before and after."""

import math
from dataclasses import dataclass

from frontend.components.formats import MINUS, duration, number
from scheduler.whatif.rows import ForecastJob, ForecastReport, ForecastRow, ForecastWait

LEAST_CHANGE_S = 60.0  # smaller ones do not matter
# The axis: logarithmic, from its first time to the end of what was simulated; what lies beyond has the rest.
AXIS_FROM_S, KNOWN_PERCENT = 60.0, 86.0
TICKS_S = (300.0, 3_600.0)
SHARES = {"p50": "median", "p90": "slowest tenth"}
TITLES = {"p50": "{name}'s median job waits", "p90": "{name}'s slowest tenth waits"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitLine:
    """The time without GPUs of a part of a queue's jobs.

    Attributes:
        share: Of which part, in words.
        now, then: As text.
        change: In words, with a sign; its interval in ``span``, empty where none is told.
        tone: "ok" for clearly shorter, "bad" for clearly longer, else empty.
        from_percent, to_percent: Places of now and then on the axis.
        low_percent, high_percent: Between them lies what ``then`` is in 9 of 10 futures.
        is_beyond: Whether ``then`` lies beyond the simulated time.
    """

    share: str
    now: str
    then: str
    change: str
    span: str
    tone: str
    from_percent: float
    to_percent: float
    low_percent: float
    high_percent: float
    is_beyond: bool

    @property
    def left_percent(self) -> float:
        """Return where the line between now and then begins."""
        return min(self.from_percent, self.to_percent)

    @property
    def width_percent(self) -> float:
        """Return how long that line is."""
        return abs(self.to_percent - self.from_percent)

    @property
    def band_percent(self) -> float:
        """Return how wide the band of ``then`` is."""
        return max(0.0, self.high_percent - self.low_percent)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLine:
    """One queue; ``waits`` is empty where it has no jobs. ``preemptions`` are now and then as text."""

    name: str
    color_slot: int
    quota: tuple[int, int]
    waits: list[WaitLine]
    preemptions: tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Consequences:
    """The card beside the editor.

    Attributes:
        title, span: The finding, and its interval.
        checked: How far off such figures were.
        ticks: Places on the axis in per cent, with their times.
        starts, stops: Jobs that the next round would start and stop.
        cut: Queues of which something lies beyond the simulated time.
        can_look_farther: Whether more hours may be asked for.
    """

    title: str
    span: str
    sentence: str
    lines: list[QueueLine]
    ticks: list[tuple[float, str]]
    hours: int
    futures: int
    sums: list[str]
    checked: str
    starts: list[ForecastJob]
    stops: list[ForecastJob]
    cut: list[str]
    can_look_farther: bool


def consequences(found: ForecastReport, *, most_horizon_s: float) -> Consequences:
    """Return the card; ``most_horizon_s`` is the farthest that may be asked for."""
    horizon_s, rows = found["horizon_s"], found["queues"] if found["known"] else []
    title, span = _title(rows) if rows else ("No preview", "")
    return Consequences(
        title=title,
        span=span,
        sentence=found["sentence"],
        lines=[_line(row, horizon_s) for row in rows],
        ticks=[(_percent(at_s, horizon_s), duration(at_s)) for at_s in TICKS_S if at_s < horizon_s],
        hours=round(horizon_s / 3_600),
        futures=found["futures"],
        sums=found["sums"],
        checked=found["checked"],
        starts=found["starts_now"],
        stops=found["stops_now"],
        cut=[row["name"] for row in rows if any(wait and wait["changed_s"] is None for _, wait in _waits(row))],
        can_look_farther=bool(rows) and horizon_s < most_horizon_s,
    )


def _waits(row: ForecastRow) -> list[tuple[str, ForecastWait | None]]:
    return [("p50", row["p50"]), ("p90", row["p90"])]


def _line(row: ForecastRow, horizon_s: float) -> QueueLine:
    stopped = row["preemptions"]
    return QueueLine(
        name=row["name"],
        color_slot=row["color_slot"],
        quota=(row["quota_gpus"]["now"], row["quota_gpus"]["changed"]),
        waits=[_wait_line(share, wait, horizon_s) for share, wait in _waits(row) if wait is not None],
        preemptions=(_count(stopped["now"]), _count(stopped["changed"])) if stopped else ("", ""),
    )


def _wait_line(share: str, wait: ForecastWait, horizon_s: float) -> WaitLine:
    change, span, tone = _change(wait, horizon_s)
    ends = (wait["now_s"], wait["changed_s"], wait["changed_low_s"], wait["changed_high_s"])
    from_percent, to_percent, low_percent, high_percent = (_percent(at_s, horizon_s) for at_s in ends)
    return WaitLine(
        share=SHARES[share],
        now=_time(wait["now_s"]),
        then=_time(wait["changed_s"]),
        change=change,
        span=span,
        tone=tone,
        from_percent=from_percent,
        to_percent=to_percent,
        low_percent=low_percent,
        high_percent=high_percent,
        is_beyond=wait["changed_s"] is None,
    )


def _percent(at_s: float | None, horizon_s: float) -> float:
    """Return the place of a time on the axis; None lies beyond the simulated time."""
    if at_s is None:
        return (100.0 + KNOWN_PERCENT) / 2
    size = math.log(max(at_s, AXIS_FROM_S) / AXIS_FROM_S) / math.log(horizon_s / AXIS_FROM_S)
    return KNOWN_PERCENT * min(1.0, size)


def _time(at_s: float | None) -> str:
    return "unknown" if at_s is None else duration(at_s)


def _change(wait: ForecastWait, horizon_s: float) -> tuple[str, str, str]:
    """Return the change in words, its interval, and its tone."""
    change_s, direction = wait["change_s"], wait["direction"]
    if wait["now_s"] is None and wait["changed_s"] is None:
        return "unknown", "", ""
    if not direction or (change_s is not None and abs(change_s) < LEAST_CHANGE_S):
        return "no clear change", "", ""
    tone = "bad" if direction == "longer" else "ok"
    if change_s is None:
        return direction, f", beyond {duration(horizon_s)}", tone
    return _signed(change_s), _span(wait), tone


def _span(wait: ForecastWait) -> str:
    """Return the interval of a change, with its signs; one end may be open."""
    low_s, high_s = wait["change_low_s"], wait["change_high_s"]
    low, high = (_signed(each) if each is not None else "more" for each in (low_s, high_s))
    return f"({high} or {low})" if low_s is None else f"({low} {'or' if high_s is None else 'to'} {high})"


def _signed(change_s: float) -> str:
    sign = MINUS if change_s < 0 else "+" if change_s > 0 else ""
    return f"{sign}{duration(abs(change_s))}"


def _count(value: float) -> str:
    return number(value, 1 if 0 < value < 10 and value % 1 else 0)


def _title(rows: list[ForecastRow]) -> tuple[str, str]:
    """Return the largest change that lies beyond its interval, of any queue, and its interval."""
    clear: list[tuple[float, str, str, ForecastWait]] = []
    for row in rows:
        for share, wait in _waits(row):
            change_s = wait["change_s"] if wait and wait["direction"] else None
            if wait and change_s is not None and abs(change_s) >= LEAST_CHANGE_S:
                clear.append((abs(change_s), row["name"], share, wait))
    if not clear:
        return "No queue's wait clearly changes", ""
    size_s, name, share, wait = max(clear, key=lambda one: one[0])
    words = TITLES[share].format(name=name)
    word = "longer" if wait["direction"] == "longer" else "less"
    ends = [None if end is None else abs(end) for end in (wait["change_low_s"], wait["change_high_s"])]
    low_s, high_s = ends if wait["direction"] == "longer" else ends[::-1]
    span = f"({duration(low_s)} {'to ' + duration(high_s) if high_s is not None else 'or more'})"
    return f"{words} {duration(size_s)} {word}", span
