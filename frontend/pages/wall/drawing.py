"""Cells of the wall's map, and the band of the last day as outlines in a box of 192 by 14."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta, tzinfo

from frontend.components.formats import number, percent
from frontend.components.times import Range, Series
from scheduler.selectors.cluster.rows import GpuRow, ServerRow

WIDE, TALL, FULL_FRAC = 192.0, 14.0, 0.86
HOUR_STEPS_S = (600, 1800, 3600, 7200, 14_400)  # between the times below the band
HOURS_MOST = 6
EDGE_FRAC = 0.05  # of the band, without a time


@dataclass(frozen=True, slots=True, kw_only=True)
class WallCell:
    """One device; ``job`` is the number of the job on it, 0 for none."""

    css: str
    job: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WallServer:
    """One server of the map."""

    name: str
    note: str
    tone: str
    cells: list[WallCell]


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """Busy, idle and drained devices over a day, as points of outlines; empty before anything was measured.

    Attributes:
        low: When most was free, in words.
        low_at, low_y: Where that stands: how far from the left and from the top, in percent.
        now_at: How far from the top the busy devices end now, in percent.
    """

    busy: str = ""
    held: str = ""
    drained: str = ""
    low: str = ""
    low_at: float = 0.0
    low_y: float = 0.0
    now_at: float = 0.0


def wall_servers(rows: Sequence[ServerRow]) -> list[WallServer]:
    """Return the servers with their cells."""
    return [_server(row) for row in rows]


def _server(row: ServerRow) -> WallServer:
    cells = [_cell(gpu, row["state"]) for gpu in row["gpus"]]
    kinds = Counter(cell.css for cell in cells)
    note, tone = "", ""
    if row["state"] == "draining":
        note, tone = "drained", "drained"
    elif row["state"] != "up":
        note, tone = row["state"], "bad"
    elif kinds["free"]:
        note = f"{number(kinds['free'])} free"
    return WallServer(name=row["name"], note=note, tone=tone, cells=cells)


def _cell(gpu: GpuRow, state: str) -> WallCell:
    job = gpu["job"]
    if gpu["allocated"]:
        return WallCell(css=f"q{gpu['color_slot'] or 0}", job=job["number"] if job else 0)
    if not gpu["healthy"] or state in ("lost", "joining"):
        return WallCell(css="broken", job=0)
    return WallCell(css="drained" if state == "draining" else "free", job=0)


def counts_of(servers: Sequence[WallServer]) -> dict[str, int]:
    """Return how many devices are free, broken and drained."""
    kinds = Counter(cell.css for server in servers for cell in server.cells)
    return {kind: kinds[kind] for kind in ("free", "broken", "drained")}


def band_of(series: Series, times: Sequence[str]) -> Band:
    """Return the outlines of the last day, and when most was free; ``times`` are the moments in words."""
    totals = [float(value or 0) for value in series["num_gpus"]]
    most = max(totals, default=0.0)
    if len(totals) < 2 or not most:
        return Band()
    known = zip(series["allocated_gpus"], series["unknown_gpus"], strict=True)
    held = [min(float(value or 0) - float(unknown or 0), most) for value, unknown in known]
    busy = [min(float(value or 0), one) for value, one in zip(series["busy_gpus"], held, strict=True)]
    names = ("allocated_gpus", "drained_gpus", "broken_gpus")
    taken = [sum(float(value or 0) for value in row) for row in zip(*(series[name] for name in names), strict=True)]
    fracs = [max(0.0, total - one) / total if total else 0.0 for one, total in zip(taken, totals, strict=True)]
    at = _lowest(fracs)
    tells = fracs[at] > 0.25 and 0.15 < at / len(fracs) < 0.85
    low = f"{percent(fracs[at])} was free at {times[at]}" if tells else ""
    drained = [float(value or 0) for value in series["drained_gpus"]]
    below = [total - one for total, one in zip(totals, drained, strict=True)]
    return Band(
        busy=_outline(busy, (), most),
        held=_outline(held, busy, most),
        drained=_outline(totals, below, most) if any(drained) else "",
        low=low,
        low_at=100 * at / len(fracs),
        low_y=100 * _y((below[at] + held[at]) / 2, most) / TALL,
        now_at=100 * _y(busy[-1], most) / TALL,
    )


def hours_of(range_: Range, zone: tzinfo) -> list[tuple[str, float]]:
    """Return full hours of the band, and how far from the left they are, in percent."""
    since, span_s = range_.since.astimezone(zone), (range_.until - range_.since).total_seconds()
    step_s = next((step for step in HOUR_STEPS_S if span_s / step <= HOURS_MOST), HOUR_STEPS_S[-1])
    first = since.replace(hour=0, minute=0, second=0, microsecond=0)
    made = []
    for index in range(int((span_s + 86_400) / step_s) + 1):
        at = first + timedelta(seconds=index * step_s)
        frac = (at - range_.since).total_seconds() / span_s if span_s else 0.0
        if EDGE_FRAC <= frac <= 1 - EDGE_FRAC:
            made.append((f"{at:%H:%M}", 100 * frac))
    return made


def _lowest(fracs: Sequence[float]) -> int:
    """Return the middle of the stretch in which most was free."""
    first = last = max(range(len(fracs)), key=lambda index: fracs[index])
    while last + 1 < len(fracs) and fracs[last + 1] >= 0.95 * fracs[first]:
        last += 1
    return (first + last) // 2


def _y(value: float, most: float) -> float:
    return TALL * (1 - FULL_FRAC * value / most)


def _outline(upper: Sequence[float], lower: Sequence[float], most: float) -> str:
    """Return the points of what lies between two courses; below the lower one is nothing where it has no values."""
    step = WIDE / (len(upper) - 1)
    there, back = (
        [f"{index * step:.2f},{_y(value, most):.2f}" for index, value in enumerate(values)] for values in (upper, lower)
    )
    return " ".join([*there, *(reversed(back) if lower else (f"{WIDE:g},{TALL:g}", f"0,{TALL:g}"))])
