"""Cells of the wall's map, and the band of the last day as two outlines in a box of 192 by 14."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from frontend.components.formats import number, percent
from frontend.components.times import Series
from scheduler.selectors.cluster.rows import GpuRow, ServerRow

WIDE, TALL = 192.0, 14.0
FEW, MANY = 16, 36  # servers up to which cells are large, and middling
NAME_MOST = {"large": 22, "middling": 14, "small": 11}  # characters of a server's name for which there is room


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
    columns: int
    cells: list[WallCell]


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """Busy and idle devices over a day, as points of outlines; empty before anything was measured."""

    busy: str
    held: str
    low: str
    low_at: float


def wall_servers(rows: Sequence[ServerRow]) -> list[WallServer]:
    """Return the servers with their cells."""
    return [_server(row) for row in rows]


def size_of_map(servers: int) -> str:
    """Return how large cells are drawn, by the number of servers."""
    return "large" if servers <= FEW else "middling" if servers <= MANY else "small"


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
    columns = max(1, (len(cells) + 1) // 2 if len(cells) > 4 else len(cells))
    return WallServer(name=row["name"], note=note, tone=tone, columns=columns, cells=cells)


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
        return Band(busy="", held="", low="", low_at=0.0)
    known = zip(series["allocated_gpus"], series["unknown_gpus"], strict=True)
    held = [min(float(value or 0) - float(unknown or 0), most) for value, unknown in known]
    busy = [min(float(value or 0), one) for value, one in zip(series["busy_gpus"], held, strict=True)]
    names = ("allocated_gpus", "drained_gpus", "broken_gpus")
    taken = [sum(float(value or 0) for value in row) for row in zip(*(series[name] for name in names), strict=True)]
    fracs = [max(0.0, total - one) / total if total else 0.0 for one, total in zip(taken, totals, strict=True)]
    at = max(range(len(fracs)), key=lambda index: fracs[index])
    tells = fracs[at] > 0.25 and 0.15 < at / len(fracs) < 0.85
    low = f"{percent(fracs[at])} was free at {times[at]}" if tells else ""
    return Band(busy=_outline(busy, most), held=_outline(held, most), low=low, low_at=100 * at / len(fracs))


def _outline(values: Sequence[float], most: float) -> str:
    step = WIDE / (len(values) - 1)
    points = [f"{index * step:.2f},{TALL * (1 - 0.86 * value / most):.2f}" for index, value in enumerate(values)]
    return " ".join([f"0,{TALL:g}", *points, f"{WIDE:g},{TALL:g}"])
