"""How the map of the wall fills its place: few servers have large cells; where cells get too small, pages take turns.

Lengths are rem, a 192nd of the width of the wall. The style sheet stretches cells on a screen taller than 16 to 9.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil

WIDE, TALL = 78.2, 53.0  # the place of the map
FOOT = 3.6  # of it, the line that says which servers a page has
LEAST = 2.0  # side of the smallest cell
PAGE_S = 20
ACROSS_MOST = 20
GAPS, LEAST_GAP = ((4, 3.2), (9, 2.4), (24, 1.6)), 1.0  # between servers, up to so many on a page
LABEL = 3.0  # height of the line with a server's name
SERVER_LEAST = 8.6  # width that a short name needs
MANY_LINES = (8, 12, 16, 24, 32)  # of the cells of a server with more than 64
WIDEST, TALLEST = 1.8, 1.2  # a side of a cell against the other one
NAME_LEAST = 8  # letters of a name that no note may take
LETTER = 1.35  # width of a letter of a name, in the widest of the fonts


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How the servers of one page stand.

    Attributes:
        across, rows: Servers beside and below each other.
        columns, lines: Cells of a server beside and below each other.
        gap, cell_gap: Between servers, and between cells.
        server_wide: Width of a server.
        cell_wide, cell_tall: A cell.
    """

    across: int
    rows: int
    columns: int
    lines: int
    gap: float
    cell_gap: float
    server_wide: float
    cell_wide: float
    cell_tall: float

    @property
    def least_side(self) -> float:
        """Return the shorter side of a cell."""
        return min(self.cell_wide, self.cell_tall)

    @property
    def cells_most(self) -> float:
        """Return the height to which the cells of a server may be stretched."""
        return TALLEST * self.cell_wide * self.lines + self.cell_gap * (self.lines - 1)

    def letters(self, note: str = "") -> int:
        """Return for how many letters of a server's name there is room beside a note."""
        return int(self.server_wide / LETTER) - (len(note) + 1 if note else 0)

    def has_room(self, name: str, note: str) -> bool:
        """Return whether a note may stand beside a name without making it short."""
        return self.letters(note) >= min(len(name), NAME_LEAST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The servers that are shown now: ``first`` up to ``last``, as a slice."""

    shape: Shape
    number: int
    pages: int
    first: int
    last: int


def page_of(gpus: Sequence[int], at_s: float) -> Page:
    """Return the page that is due, with the largest cells for which there is room.

    Args:
        gpus: How many devices each server has.
        at_s: The time, which turns the pages.
    """
    servers = len(gpus)
    whole = shape_of(servers, max([1, *gpus]), TALL)
    if servers <= 1 or whole.least_side >= LEAST:
        return Page(shape=whole, number=0, pages=1, first=0, last=servers)
    ends = _page_ends(gpus)
    number = int(at_s // PAGE_S) % len(ends)
    first, last = ends[number - 1] if number else 0, ends[number]
    shape = shape_of(last - first, max(gpus[first:last]), TALL - FOOT)
    return Page(shape=shape, number=number, pages=len(ends), first=first, last=last)


def _page_ends(gpus: Sequence[int]) -> list[int]:
    """Return where each page ends: as few pages as there is room on, and those of about one size."""
    most = len(_filled(gpus, len(gpus)))
    even = ceil(len(gpus) / most)
    return next(ends for size in range(even, len(gpus) + 1) if len(ends := _filled(gpus, size)) == most)


def _filled(gpus: Sequence[int], size: int) -> list[int]:
    """Return the ends of pages of at most so many servers; one without room beside another has its own page."""
    ends, first, widest = [], 0, 0
    for place, devices in enumerate(gpus):
        count, widest = place + 1 - first, max(widest, devices)
        if count > 1 and (count > size or shape_of(count, widest, TALL - FOOT).least_side < LEAST):
            ends.append(place)
            first, widest = place, devices
    return [*ends, len(gpus)]


@lru_cache(maxsize=1024)
def shape_of(servers: int, gpus: int, tall: float) -> Shape:
    """Return how so many servers with so many devices each get the largest cells, closer where cells were too small."""
    servers = max(1, servers)
    gaps = *(gap for most, gap in GAPS if servers <= most), LEAST_GAP
    shapes = [_largest(servers, gpus, gap, tall) for gap in gaps]
    return next((shape for shape in shapes if shape.least_side >= LEAST), shapes[-1])


def _largest(servers: int, gpus: int, gap: float, tall: float) -> Shape:
    return max(
        (
            _shape(across, servers, gpus, lines, gap, tall)
            for across in range(1, min(servers, ACROSS_MOST) + 1)
            for lines in _lines(gpus)
        ),
        key=lambda shape: (
            shape.server_wide >= SERVER_LEAST,
            shape.least_side >= LEAST,
            shape.cell_wide * shape.cell_tall,
        ),
    )


def _shape(across: int, servers: int, gpus: int, lines: int, gap: float, tall: float) -> Shape:
    rows, columns = ceil(servers / across), ceil(gpus / lines)
    server_wide = (WIDE - gap * (across - 1)) / across
    cells_tall = (tall - gap * (rows - 1)) / rows - LABEL
    cell_gap = min(1.2, max(0.3, server_wide / columns / 11))
    wide = (server_wide - cell_gap * (columns - 1)) / columns
    high = max(0.1, (cells_tall - cell_gap * (lines - 1)) / lines)
    wide = max(0.1, min(wide, WIDEST * high))
    return Shape(
        across=across,
        rows=rows,
        columns=columns,
        lines=lines,
        gap=gap,
        cell_gap=cell_gap,
        server_wide=server_wide,
        cell_wide=wide,
        cell_tall=min(high, TALLEST * wide),
    )


def _lines(gpus: int) -> tuple[int, ...]:
    """Return in how many lines the devices of a server may stand: eight as four by two, as they are built in."""
    return next(((lines,) for most, lines in ((4, 1), (16, 2), (64, 4)) if gpus <= most), MANY_LINES)
