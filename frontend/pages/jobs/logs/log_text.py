"""A job's log as lines of styled text that are safe to show.

Colours come from an allow-list; every other control sequence is dropped, and characters that change how text reads
without being seen are spelled out. Nothing a job writes can hide what it wrote next. The same rules stand in
``static/jobs/log_text.js`` for lines that arrive live.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

MOST_CHARS = 4000  # of one line; the rest is counted
LEVEL_CHARS = 300  # where a level word may stand

_CONTROL = re.compile(
    r"\x1b\[(?P<sgr>[0-9;:]{0,64})m"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # any other control sequence: cursor, erase, modes
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]{0,2000}(?:\x07|\x1b\\|\x9c)"  # titles, links, device strings
    r"|\x1b[ -/]*[0-~]"
    r"|(?P<unseen>[\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff])"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)
_COLORS = {1: "bad", 2: "ok", 3: "warn", 4: "info", 5: "violet", 6: "teal"}  # the last digit of 30 to 37 and 90 to 97
_LEVEL = re.compile(
    r"^[\d\s:.,TZ/\[\]()+-]{0,40}(?P<word>(?:(?P<bad>error|critical|fatal|traceback)|(?P<warn>warn(?:ing)?))\b)",
    re.IGNORECASE | re.ASCII,
)
_LEVEL_LATER = re.compile(
    r"(?:^|[\s\[(|])(?P<word>(?P<bad>ERROR|CRITICAL|FATAL|[\w.]{0,60}(?:Error|Exception)(?=:|$))"
    r"|(?P<warn>WARN(?:ING)?|[\w.]{0,60}Warning(?=:|$)))(?=\W|$)",
    re.ASCII,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A piece of a line; ``css`` are class names from a closed list, "" for plain text."""

    text: str
    css: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One line.

    Attributes:
        offset: Bytes from the beginning of the log to the line.
        number: 1 for the first line of the log; None where the beginning is not known.
        spans: What is shown.
        level: "bad", "warn" or "".
    """

    offset: int
    number: int | None
    spans: tuple[Span, ...]
    level: str

    @property
    def text(self) -> str:
        """Return the line without its styles."""
        return "".join(span.text for span in self.spans)


class _Style:
    """What colour sequences have asked for so far; it holds over line ends."""

    def __init__(self) -> None:
        self.color = ""
        self.weight = ""

    @property
    def css(self) -> str:
        return " ".join(name for name in (self.color, self.weight) if name)

    def apply(self, parameters: str) -> None:
        codes = iter([int(part[:4]) if part else 0 for part in re.split("[;:]", parameters)])
        for code in codes:
            if code == 0:
                self.color = self.weight = ""
            elif code in (1, 2):
                self.weight = "bold" if code == 1 else "dim"
            elif code == 22:
                self.weight = ""
            elif code == 39:
                self.color = ""
            elif code // 10 in (3, 9) and code % 10 < 8:
                self.color = self._named(code % 10)
            elif code in (38, 48):
                color = self._extended(codes)
                self.color = color if code == 38 else self.color

    @staticmethod
    def _named(digit: int) -> str:
        return f"c-{_COLORS[digit]}" if digit in _COLORS else "dim" if digit == 0 else ""

    def _extended(self, codes: Iterator[int]) -> str:
        """Take the parameters of 38 or 48; only the sixteen named colours of a palette are shown."""
        kind = next(codes, 0)
        if kind == 2:
            for _ in range(3):
                next(codes, 0)
            return ""
        value = next(codes, 16) if kind == 5 else 16
        return self._named(value % 8) if value < 16 else ""


def log_lines(text: str, *, start_offset: int, first_number: int | None) -> list[LogLine]:
    """Return the lines of a piece of a log.

    Args:
        text: The piece; it begins where a line begins.
        start_offset: Bytes from the beginning of the log to the piece.
        first_number: Number of its first line; None when unknown.
    """
    style, offset, lines = _Style(), start_offset, []
    rows = text.split("\n")
    if rows[-1] == "":
        rows.pop()
    for index, row in enumerate(rows):
        spans = _spans(row, style)
        level, spans = _leveled(spans)
        number = None if first_number is None else first_number + index
        lines.append(LogLine(offset=offset, number=number, spans=spans, level=level))
        offset += len(row.encode("utf-8", "replace")) + 1
    return lines


def _spans(row: str, style: _Style) -> tuple[Span, ...]:
    """Return one line; a carriage return writes over what stands before it, as progress bars mean it."""
    row = row.rstrip("\r").rpartition("\r")[2]
    shown, left = row[:MOST_CHARS], len(row) - MOST_CHARS
    spans: list[Span] = []
    at = 0
    for match in _CONTROL.finditer(shown):
        _add(spans, shown[at : match.start()], style.css)
        at = match.end()
        if match["sgr"] is not None:
            style.apply(match["sgr"])
        elif match["unseen"]:
            spans.append(Span(text=f"U+{ord(match['unseen']):04X}", css="ctl"))
    _add(spans, shown[at:], style.css)
    if left > 0:
        spans.append(Span(text=f" … {left} more {'character' if left == 1 else 'characters'}", css="dim"))
    return tuple(spans)


def _add(spans: list[Span], text: str, css: str) -> None:
    if text and spans and spans[-1].css == css:
        spans[-1] = Span(text=spans[-1].text + text, css=css)
    elif text:
        spans.append(Span(text=text, css=css))


def _leveled(spans: tuple[Span, ...]) -> tuple[str, tuple[Span, ...]]:
    """Return the level of a line, and its word coloured where the job set no colours itself."""
    head = "".join(span.text for span in spans)[:LEVEL_CHARS]
    match = _LEVEL.match(head) or _LEVEL_LATER.search(head)
    if match is None:
        return "", spans
    level = "bad" if match["bad"] else "warn"
    if len(spans) != 1 or spans[0].css:
        return level, spans
    text, start, end = spans[0].text, *match.span("word")
    pieces = (Span(text=text[:start]), Span(text=text[start:end], css=f"c-{level}"), Span(text=text[end:]))
    return level, tuple(piece for piece in pieces if piece.text)
