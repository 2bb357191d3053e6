"""The first lines of a file as text, in time and memory that do not grow with the file."""

import io
import os
from dataclasses import dataclass

MOST_BYTES = 1024 * 1024
LINE_LENGTH = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A part of a file.

    Attributes:
        lines: Without what cannot be shown; each at most LINE_LENGTH long.
        all_lines: How many the file has; None where not all of it was read.
        is_utf8: Whether all that was read is UTF-8; what is not is replaced.
    """

    lines: list[str]
    all_lines: int | None
    is_utf8: bool


def text_read(file: io.FileIO, *, most_lines: int) -> Text | None:
    """Return the first lines of a file; None for one that is no text."""
    data = os.pread(file.fileno(), MOST_BYTES, 0)
    is_all = len(data) < MOST_BYTES
    if b"\0" in data:
        return None
    text = data.decode("utf-8", "replace")
    # A character that the end of the part cuts in two is no fault of the file.
    damaged = text.count("\ufffd") - (0 if is_all else text[-3:].count("\ufffd"))
    if damaged > len(text) / 20:
        return None
    lines = text.splitlines()
    return Text(
        lines=[_shown(line[:LINE_LENGTH]) for line in lines[:most_lines]],
        all_lines=len(lines) if is_all else None,
        is_utf8=not damaged,
    )


def _shown(line: str) -> str:
    if line.isprintable():
        return line
    return "".join(letter if letter.isprintable() or letter == "\t" else "\ufffd" for letter in line)
