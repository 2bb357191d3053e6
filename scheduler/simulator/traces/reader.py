"""The declaration of a trace format: how its files begin, and the function that reads them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from scheduler.simulator.traces.source import Source
from scheduler.simulator.traces.trace import Trace

Read = Callable[[Source, Path], Trace]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """One format.

    Attributes:
        looks_like: How a file of it begins, for people.
        fits: Whether a file that begins with these bytes (64 KiB) can be of this format.
        read: Reads the whole file; the folder holds the profiles of models.
        whole_only: Whether the first rows of a file cannot be read without the rest.
    """

    looks_like: str
    fits: Callable[[bytes], bool]
    read: Read
    whole_only: bool = False


def delimited(columns: tuple[str, ...], read: Read, *, delimiter: str = ",") -> Reader:
    """Return the reader of a format whose first line that is not blank names at least these columns."""

    def fits(head: bytes) -> bool:
        lines = (line for line in head.decode(errors="replace").splitlines() if line.strip())
        names = {cell.strip().strip('"') for cell in next(lines, "").split(delimiter)}
        return names.issuperset(columns)

    return Reader(looks_like=delimiter.join(columns), fits=fits, read=read)
