"""One row of a delimited trace: cells by column name, checked as they are read."""

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import NoReturn

from scheduler.simulator.traces.errors import TraceError, shown
from scheduler.simulator.traces.source import Source, header_of

# More than any cluster has, and few enough for exact arithmetic afterwards.
MOST_GPUS = 1_000_000
# 3,000 years: a larger number of seconds is a time in milliseconds, or a mistake.
MOST_SECONDS = 1e11


# A date outside is a placeholder: many programs write 1970 or 0001 for a time that they do not know.
_FROM, _TO = datetime(1990, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
_DATES = f"from {_FROM.year} to {_TO.year}"


def unix_s(text: str) -> float:
    """Return a date and time such as ``2020-04-01 12:30:00`` as Unix seconds; without a zone it is UTC.

    Raises:
        ValueError: If it is none, or outside 1990 to 2100.
    """
    moment = datetime.fromisoformat(text)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    if not _FROM <= moment < _TO:
        raise ValueError(text)
    return moment.timestamp()


class Row:
    """The row that is being read; the same object is filled again for every row, which saves a million of them.

    Attributes:
        file: Name of the file.
        line: Its line.
        cells: Its texts.
        at: Position by column name.
    """

    __slots__ = ("at", "cells", "file", "line")

    def __init__(self, *, file: str, at: Mapping[str, int], line: int = 0, cells: Sequence[str] = ()) -> None:
        self.file = file
        self.at = at
        self.line = line
        self.cells = cells

    def text(self, column: str) -> str:
        """Return the text without blanks around it; empty when the file has no such column."""
        index = self.at.get(column)
        return "" if index is None else self.cells[index].strip()

    def number(self, column: str, *, least: float = -math.inf, most: float = math.inf, unit: str = "number") -> float:
        """Return a finite number.

        Raises:
            TraceError: If the cell holds something else, or the number is out of range.
        """
        text = self.cells[self.at[column]]
        try:
            value = float(text)
        except ValueError:
            self.refuse(column, f"a {unit}")
        # Python reads "1_000" and digits of every script; other programs do not.
        if not (least <= value <= most and text.isascii() and "_" not in text):
            self.refuse(column, _range_text(unit, least, most))
        if value in (math.inf, -math.inf):
            self.refuse(column, f"a finite {unit}")
        return value

    def seconds(self, column: str) -> float:
        """Return a length or moment of time in seconds, not negative."""
        return self.number(column, least=0.0, most=MOST_SECONDS, unit="number of seconds")

    def whole(self, column: str, *, least: int, most: int = 2**53) -> int:
        """Return a whole number; ``8.0`` is one too."""
        text = self.cells[self.at[column]]
        # Nearly every cell is plain digits, which need no detour over a float.
        if text.isdigit() and text.isascii() and len(text) < 16 and least <= (plain := int(text)) <= most:
            return plain
        value = self.number(column, least=least, most=most, unit="whole number")
        if value != int(value):
            self.refuse(column, _range_text("whole number", least, most))
        return int(value)

    def gpus(self, column: str) -> int:
        """Return the GPUs of a job, at least one."""
        return self.whole(column, least=1, most=MOST_GPUS)

    def moment_s(self, column: str) -> float:
        """Return a date and time such as ``2020-04-01 12:30:00`` as Unix seconds; without a zone it is UTC."""
        try:
            return unix_s(self.text(column))
        except ValueError:
            self.refuse(column, f"a date and time such as 2020-04-01 12:30:00, {_DATES}")

    def refuse(self, column: str | None, wanted: str) -> NoReturn:
        """Raise the error of this row: what the column holds, and what would be right."""
        found = "" if column is None else f"found {shown(self.text(column))}, "
        raise TraceError(file=self.file, line=self.line, column=column, problem=f"{found}expected {wanted}")


def _range_text(unit: str, least: float, most: float) -> str:
    if math.isinf(most):
        return f"a finite {unit}" if math.isinf(least) else f"a {unit} of at least {least:g}"
    return f"a {unit} from {least:g} to {most:g}"


def rows_of(source: Source, needed: Sequence[str], *, delimiter: str = ",", quoted: bool = True) -> Iterator[Row]:
    """Yield every data row of a delimited file with a header line; each time the same object, filled again.

    Raises:
        TraceError: If the file is empty, a needed column is missing, or a row has more or fewer cells than the header.
    """
    pairs = source.rows(delimiter, quoted=quoted)
    first = next(pairs, None)
    if first is None:
        raise TraceError(file=source.name, problem="the file is empty")
    row = Row(file=source.name, at=header_of(source, first[1], needed))
    width = len(first[1])
    for row.line, row.cells in pairs:
        if len(row.cells) != width:
            row.refuse(None, f"{width} cells as in the header, found {len(row.cells)}")
        yield row
