"""The log of an attempt as a page shows it: its end, or the part around a byte, and what a script needs to go on."""

from dataclasses import dataclass

from frontend.components.formats import counted, data_size
from frontend.pages.jobs.logs.log_text import LogLine, log_lines
from frontend.pages.jobs.subject import Subject
from scheduler.core.spec.launch import LaunchPer, stored_per
from scheduler.models import Attempt
from scheduler.selectors.jobs.logs import LogChunk, log_from, log_tail, ranks_of

TAIL_LINES = 1000
SHORT_LINES = 12
AROUND_BYTES = 64 * 1024
COUNTED_BYTES = 1024 * 1024  # a log whose shown part begins further on has bytes in its gutter, not line numbers
LEVELS = {"": "All levels", "warn": "Warnings and errors", "bad": "Errors"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPage:
    """A piece of a log.

    Attributes:
        attempt: Number of the attempt; None before the first.
        rank: Number of the process, as the URL names it; None for the first.
        ranks: Number and name of each process to choose from; empty where there is one.
        lines: What is shown, filtered.
        all_lines: How many there were before the filter.
        next_number: Number of the line after the last; empty where numbers are not known.
        earlier: Byte before which there is more; None where the log begins here.
        at: Byte of the line that the URL names.
        is_end: Whether this is the end of the log as it is now.
        follows: Whether new lines are to be expected.
        note: What stands above the lines.
        empty: What is shown when there is no line.
    """

    attempt: int | None
    attempts: list[int]
    rank: int | None
    ranks: list[tuple[int, str]]
    lines: list[LogLine]
    all_lines: int
    start_offset: int
    end_offset: int
    next_number: int | str
    earlier: int | None
    at: int | None
    is_end: bool
    follows: bool
    note: str
    empty: str

    @property
    def rank_query(self) -> str:
        """Return what a link to another place of this log needs to stay with its process."""
        return "" if self.rank is None else f"&rank={self.rank}"


def short_log(subject: Subject, *, lines: int = SHORT_LINES) -> LogPage:
    """Return the last lines of the newest attempt."""
    return _page(subject, _newest(subject), lines=lines)


def full_log(subject: Subject) -> LogPage:
    """Return the last thousand lines, or those around ``?at=`` or before ``?before=``, narrowed by the query."""
    query = subject.request.GET
    number_ = whole(query.get("attempt", ""))
    attempt = _newest(subject) if number_ is None else subject.job.attempts.filter(number=number_).first()
    at, before = whole(query.get("at", "")), whole(query.get("before", ""))
    level = query.get("level", "")
    return _page(
        subject,
        attempt,
        rank=whole(query.get("rank", "")),
        lines=TAIL_LINES,
        at=at,
        before=before,
        words=query.get("q", "")[:200],
        level=level if level in LEVELS else "",
    )


def whole(text: str) -> int | None:
    """Return the number in a part of a query; None where there is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 15 else None


def _newest(subject: Subject) -> Attempt | None:
    newest: Attempt | None = subject.job.attempts.order_by("-number").first()
    return newest


def _page(
    subject: Subject,
    attempt: Attempt | None,
    *,
    lines: int,
    rank: int | None = None,
    at: int | None = None,
    before: int | None = None,
    words: str = "",
    level: str = "",
) -> LogPage:
    newest = subject.detail["attempt"]
    numbers = list(range(newest["number"], 0, -1)) if newest else []
    chunk = _chunk(attempt, rank, lines=lines, at=at, before=before)
    is_end = at is None and before is None
    first = _first_number(attempt, rank, chunk)
    found = log_lines(chunk.text, start_offset=chunk.start_offset, first_number=first)
    shown = [line for line in found if _fits(line, words.lower(), level)]
    return LogPage(
        attempt=attempt.number if attempt else None,
        attempts=numbers,
        rank=rank,
        ranks=_ranks(subject, attempt),
        lines=shown,
        all_lines=len(found),
        start_offset=chunk.start_offset,
        end_offset=chunk.end_offset,
        next_number=first + len(found) if first else "",
        earlier=chunk.start_offset if chunk.start_offset > 0 else None,
        at=at,
        is_end=is_end,
        follows=is_end
        and not subject.is_over
        and (newest is None or attempt is None or attempt.number == newest["number"]),
        note=_note(chunk, len(found), has_numbers=first is not None),
        empty=_empty(subject, chunk, attempt, len(found)),
    )


def _ranks(subject: Subject, attempt: Attempt | None) -> list[tuple[int, str]]:
    """Return the processes of an attempt by number, with what they are called."""
    noun = "Server" if stored_per(subject.job.spec) is LaunchPer.SERVER else "Rank"
    return [(number, f"{noun} {number}, {server}") for number, server in ranks_of(attempt)] if attempt else []


def _chunk(attempt: Attempt | None, rank: int | None, *, lines: int, at: int | None, before: int | None) -> LogChunk:
    if attempt is None:
        return LogChunk(start_offset=0, end_offset=0, text="", truncated=False, reason="No log yet.")
    if at is None and before is None:
        return log_tail(attempt, lines=lines, rank=rank)
    place = at if at is not None else before or 0
    start = max(0, place - AROUND_BYTES)
    size = 2 * AROUND_BYTES if at is not None else place - start
    return _from_line_start(log_from(attempt, start, most_bytes=max(1, size), rank=rank), is_cut=start > 0)


def _first_number(attempt: Attempt | None, rank: int | None, chunk: LogChunk) -> int | None:
    """Return the number of the first line of a chunk; None where it would take long to count, or a part is gone."""
    if chunk.start_offset == 0 or attempt is None:
        return 1
    if chunk.start_offset > COUNTED_BYTES:
        return None
    before = log_from(attempt, 0, most_bytes=chunk.start_offset, rank=rank)
    if before.start_offset != 0 or before.end_offset != chunk.start_offset:
        return None
    return before.text.count("\n") + 1


def _from_line_start(chunk: LogChunk, *, is_cut: bool) -> LogChunk:
    """Return a chunk without the line that it cuts through at its beginning."""
    if not is_cut or chunk.truncated:
        return chunk
    head, newline, rest = chunk.text.partition("\n")
    if not newline:
        return chunk
    skipped = len(head.encode("utf-8", "replace")) + 1
    return LogChunk(
        start_offset=chunk.start_offset + skipped, end_offset=chunk.end_offset, text=rest, truncated=chunk.truncated
    )


def _fits(line: LogLine, words: str, level: str) -> bool:
    level_fits = not level or line.level == "bad" or (level == "warn" and line.level == "warn")
    return level_fits and (not words or words in line.text.lower())


def _note(chunk: LogChunk, lines: int, *, has_numbers: bool) -> str:
    if chunk.start_offset == 0:
        return ""
    words = f"{counted(lines, 'line')}. {data_size(chunk.start_offset)} of log come before"
    return f"{words}." if has_numbers else f"{words}, so the numbers at the left count bytes."


def _empty(subject: Subject, chunk: LogChunk, attempt: Attempt | None, lines: int) -> str:
    if lines:
        return "No line matches."
    if attempt is None:
        return "It never started, so there is no log." if subject.is_over else "The log appears when the job starts."
    return chunk.reason or "No line here."


def download_headers(job_number: int, attempt: int, rank: int | None) -> dict[str, str]:
    """Return the headers of a log that is saved, never shown: a browser must not take it for a page."""
    name = f"J-{job_number}-attempt-{attempt}" + ("" if rank is None else f"-rank-{rank}")
    return {
        "Content-Disposition": f'attachment; filename="{name}.log"',
        "X-Content-Type-Options": "nosniff",
    }
