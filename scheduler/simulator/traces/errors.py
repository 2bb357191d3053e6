"""The error of all trace readers: the place in the file, what is there, and what would be right."""

import reprlib

_shown = reprlib.Repr()
_shown.maxstring = 80


class TraceError(Exception):
    """A trace that cannot be read without guessing.

    Attributes:
        file: Name of the file.
        line: Line as an editor counts, the first is 1 (in Parquet: row, the first is 1); None for the whole file.
        column: Name of the column or field; None for the whole line.
        problem: What is there and what would be right, one sentence.
    """

    def __init__(self, *, file: str, problem: str, line: int | None = None, column: str | None = None) -> None:
        place = [file]
        if line is not None:
            place.append(f"line {line}")
        if column is not None:
            place.append(f"column {column}")
        super().__init__(f"{', '.join(place)}: {problem}")
        self.file = file
        self.line = line
        self.column = column
        self.problem = problem


def shown(value: object) -> str:
    """Return a value as an error shows it: quoted, short."""
    return _shown.repr(value)
