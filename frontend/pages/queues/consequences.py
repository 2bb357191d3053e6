"""The forecast of another quota in words and on one axis: one line for each queue, before and after."""

from dataclasses import dataclass
from typing import Literal

from frontend.components.formats import duration, number
from scheduler.whatif.rows import ForecastFigures, ForecastReport, ForecastRow

MINUS = "\N{MINUS SIGN}"
LEAST_CHANGE_S = 60.0  # smaller ones are chance


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLine:
    """One queue.

    Attributes:
        p50, p90, preemptions: (now, changed) as text.
        change: Of the median, with a sign; empty where it is below a minute or not known.
        tone: "ok" for shorter, "bad" for longer, else empty.
        from_percent, to_percent: Places of the medians on the axis; None where not known.
    """

    name: str
    color_slot: int
    quota: tuple[int, int]
    p50: tuple[str, str]
    p90: tuple[str, str]
    preemptions: tuple[str, str]
    change: str = ""
    tone: str = ""
    from_percent: float | None = None
    to_percent: float | None = None

    @property
    def left_percent(self) -> float:
        """Return where the line between the medians begins."""
        return min(self.from_percent or 0.0, self.to_percent or 0.0)

    @property
    def width_percent(self) -> float:
        """Return the length of the line between the medians."""
        return abs((self.to_percent or 0.0) - (self.from_percent or 0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Consequences:
    """The card beside the editor."""

    title: str
    sentence: str
    lines: list[QueueLine]
    axis: str
    hours: int
    sums: list[str]


def consequences(found: ForecastReport, name: str) -> Consequences:
    """Return the card; ``name`` is the queue whose quota is changed."""
    hours, sums = round(found["horizon_s"] / 3_600), found["sums"]
    if not found["known"]:
        return Consequences(title="No forecast", sentence=found["sentence"], lines=[], axis="", hours=hours, sums=sums)
    medians = [figures["wait_p50_s"] for row in found["queues"] for figures in _sides(row)]
    top_s = max(60.0, *(median for median in medians if median is not None), 0.0)
    return Consequences(
        title=_title(found["queues"], name),
        sentence=found["sentence"],
        lines=[_line(row, top_s) for row in found["queues"]],
        axis=f"0 to {duration(top_s)}",
        hours=hours,
        sums=sums,
    )


def _sides(row: ForecastRow) -> tuple[ForecastFigures, ForecastFigures]:
    """Return the figures of a known forecast, now and changed."""
    now, then = row["now"], row["changed"]
    assert now is not None
    assert then is not None
    return now, then


def _line(row: ForecastRow, top_s: float) -> QueueLine:
    now, then = _sides(row)
    change_s = _change_s(row)
    before_s, after_s = now["wait_p50_s"], then["wait_p50_s"]
    is_drawn = now["jobs"] > 0 and before_s is not None and after_s is not None
    return QueueLine(
        name=row["name"],
        color_slot=row["color_slot"],
        quota=(row["quota_gpus"]["now"], row["quota_gpus"]["changed"]),
        p50=(_wait(now, "wait_p50_s"), _wait(then, "wait_p50_s")),
        p90=(_wait(now, "wait_p90_s"), _wait(then, "wait_p90_s")),
        preemptions=(_count(now["preemptions"]), _count(then["preemptions"])),
        change=("+" if change_s > 0 else MINUS) + duration(abs(change_s)) if change_s else "",
        tone="" if not change_s else "bad" if change_s > 0 else "ok",
        from_percent=100 * (before_s or 0.0) / top_s if is_drawn else None,
        to_percent=100 * (after_s or 0.0) / top_s if is_drawn else None,
    )


def _change_s(row: ForecastRow) -> float:
    """Return by how much the median changes; 0 where that is below a minute or not known."""
    before, after = (figures["wait_p50_s"] for figures in _sides(row))
    if before is None or after is None or abs(after - before) < LEAST_CHANGE_S:
        return 0.0
    return after - before


def _wait(figures: ForecastFigures, key: Literal["wait_p50_s", "wait_p90_s"]) -> str:
    if not figures["jobs"]:
        return "no jobs"
    wait_s = figures[key]
    return f"over {duration(figures['longest_s'])}" if wait_s is None else duration(wait_s)


def _count(value: float) -> str:
    return number(value, 1 if 0 < value < 10 and value % 1 else 0)


def _title(rows: list[ForecastRow], name: str) -> str:
    """Return the finding: the queue itself first, then the queue whose wait changes most."""
    changes = sorted(((row["name"], _change_s(row)) for row in rows), key=lambda pair: (pair[0] != name, -abs(pair[1])))
    told = [
        f"{queue} waits {duration(abs(change_s))} {'longer' if change_s > 0 else 'less'}"
        for queue, change_s in changes
        if change_s
    ]
    return ", ".join(told[:2]) if told else "No queue's median wait changes by a minute"
