"""The words and places of what another quota would do: one row a queue, before and after on one axis."""

from dataclasses import dataclass
from typing import Any

from frontend.components.formats import duration, number

MINUS = "\N{MINUS SIGN}"
LEAST_CHANGE_S = 60.0  # smaller ones are chance
Row = dict[str, Any]  # JSON of the forecast


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One queue.

    Attributes:
        p50, p90, preemptions: (now, changed) as text.
        change: Of the median, with a sign; empty where it is below a minute or not known.
        tone: "ok" for shorter, "bad" for longer, else empty.
        from_percent, to_percent, width_percent: Places of the medians on the axis; None where not known.
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
        """Return where the stroke between the medians begins."""
        return min(self.from_percent or 0.0, self.to_percent or 0.0)

    @property
    def width_percent(self) -> float:
        """Return how long it is."""
        return abs((self.to_percent or 0.0) - (self.from_percent or 0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Consequences:
    """The card beside the editor."""

    title: str
    sentence: str
    lines: list[Line]
    axis: str
    hours: int
    sums: list[str]


def consequences(found: Row, name: str) -> Consequences:
    """Return what the card says; ``name`` is the queue whose quota is changed."""
    hours, sums = round(found["horizon_s"] / 3_600), found["sums"]
    if not found["known"]:
        return Consequences(title="No forecast", sentence=found["sentence"], lines=[], axis="", hours=hours, sums=sums)
    medians = [row[side]["wait_p50_s"] for row in found["queues"] for side in ("now", "changed")]
    top_s = max(60.0, *(median for median in medians if median is not None), 0.0)
    return Consequences(
        title=_title(found["queues"], name),
        sentence=found["sentence"],
        lines=[_line(row, top_s) for row in found["queues"]],
        axis=f"0 to {duration(top_s)}",
        hours=hours,
        sums=sums,
    )


def _line(row: Row, top_s: float) -> Line:
    now, then = row["now"], row["changed"]
    change_s = _change_s(row)
    medians = (now["wait_p50_s"], then["wait_p50_s"])
    has_jobs = now["jobs"] > 0
    return Line(
        name=row["name"],
        color_slot=row["color_slot"],
        quota=(row["quota_gpus"]["now"], row["quota_gpus"]["changed"]),
        p50=(_wait(now, "wait_p50_s"), _wait(then, "wait_p50_s")),
        p90=(_wait(now, "wait_p90_s"), _wait(then, "wait_p90_s")),
        preemptions=(_count(now["preemptions"]), _count(then["preemptions"])),
        change=("+" if change_s > 0 else MINUS) + duration(abs(change_s)) if change_s else "",
        tone="" if not change_s else "bad" if change_s > 0 else "ok",
        from_percent=100 * medians[0] / top_s if has_jobs and None not in medians else None,
        to_percent=100 * medians[1] / top_s if has_jobs and None not in medians else None,
    )


def _change_s(row: Row) -> float:
    """Return by how much the median changes; 0 where that is too little to be told, or not known."""
    before, after = row["now"]["wait_p50_s"], row["changed"]["wait_p50_s"]
    if before is None or after is None or abs(after - before) < LEAST_CHANGE_S:
        return 0.0
    return float(after - before)


def _wait(figures: Row, key: str) -> str:
    if not figures["jobs"]:
        return "no jobs"
    return f"over {duration(figures['longest_s'])}" if figures[key] is None else duration(figures[key])


def _count(value: float) -> str:
    return number(value, 1 if 0 < value < 10 and value % 1 else 0)


def _title(rows: list[Row], name: str) -> str:
    """Return the finding: the queue itself first, then who is hit most."""
    changes = sorted(((row["name"], _change_s(row)) for row in rows), key=lambda pair: (pair[0] != name, -abs(pair[1])))
    told = [
        f"{who} waits {duration(abs(change_s))} {'longer' if change_s > 0 else 'less'}"
        for who, change_s in changes
        if change_s
    ]
    return ", ".join(told[:2]) if told else "No queue's median wait changes by a minute"
