"""Job logs, read from the attempt's directory in time that does not grow with the log.

A log is kept as segments ``log.<first offset, 20 digits>``; the oldest are dropped when it grows too long, so the first
kept offset may be above 0. Offsets count from the beginning of the whole log. Names are made from ids alone; a symlink,
a FIFO or anything else that a job may have put in a segment's place is not opened.
"""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from scheduler.models import Attempt, GangMember

ATTEMPT_ID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")
SEGMENT = re.compile(r"log\.([0-9]{20})")
BLOCK_BYTES = 64 * 1024
# A tail is at most so long however long its lines are.
TAIL_BYTES = 4 * 1024 * 1024
# A job may have filled the directory with names.
SEGMENTS_LISTED = 100_000
SEGMENTS_OPENED = 1_024

NO_LOG_YET = "No log yet. It appears with the first line that the job writes."
LOG_EMPTY = "The job wrote no line."
LOG_GONE = "The log is gone: its directory does not exist any more."


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChunk:
    """Some contiguous bytes of a log as text.

    Attributes:
        start_offset, end_offset: Bytes from the beginning of the whole log, dropped segments included.
        text: Decoded as UTF-8; what is no UTF-8 is replaced. ``end_offset`` never splits a character.
        truncated: Whether the log has bytes before ``start_offset`` (kept or dropped) that this chunk was asked to
            show but does not.
        reason: Why there is nothing to read, as a sentence; empty when there is.
    """

    start_offset: int
    end_offset: int
    text: str
    truncated: bool
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One open file of a log."""

    start: int
    end: int
    descriptor: int


class Log:
    """The kept part of a log, open for reading. ``start`` and ``end`` are its offsets when it was opened."""

    def __init__(self, segments: list[Segment]) -> None:
        self._segments = segments
        self.start = segments[0].start if segments else 0
        self.end = segments[-1].end if segments else 0

    def read(self, offset: int, size: int) -> bytes:
        """Return at most ``size`` bytes from ``offset`` on; fewer at the end, or where a segment is missing."""
        parts: list[bytes] = []
        for segment in self._segments:
            if size <= 0 or segment.start > offset:
                break
            while size > 0 and segment.start <= offset < segment.end:
                wanted = min(size, segment.end - offset)
                part = os.pread(segment.descriptor, wanted, offset - segment.start)
                if not part:
                    return b"".join(parts)  # shortened under our hands
                parts.append(part)
                offset += len(part)
                size -= len(part)
        return b"".join(parts)

    def pieces(self) -> Iterator[bytes]:
        """Yield the whole kept log block by block, for a download."""
        offset = self.start
        while block := self.read(offset, BLOCK_BYTES):
            yield block
            offset += len(block)


@contextmanager
def log_open(attempt: Attempt, *, rank: int | None = None) -> Iterator[Log]:
    """Open the kept log of an attempt; of several processes that of the first, or of the one with that number.

    Raises:
        FileNotFoundError: The attempt has no directory (yet, or any more), or no such process.
    """
    name = attempt.pk if rank is None else _member(attempt, rank)
    if not ATTEMPT_ID.fullmatch(name):
        raise FileNotFoundError(name)
    directory = _open_directory(Path(settings.SHARED_DIR) / "attempts", name)
    opened: list[Segment] = []
    try:
        opened = _open_segments(directory)
        yield Log(opened)
    finally:
        for segment in opened:
            os.close(segment.descriptor)
        os.close(directory)


def ranks_of(attempt: Attempt) -> list[tuple[int, str]]:
    """Return number and server of each process that has a log of its own; nothing for an attempt of one process."""
    members = GangMember.objects.filter(gang_id=attempt.pk).order_by("number")
    found = list(members.values_list("number", "gpu__server__name"))
    return found if len(found) > 1 else []


def _member(attempt: Attempt, rank: int) -> str:
    """Return the id of one process of an attempt; empty when there is none of that number."""
    if rank == 0:
        return attempt.pk
    members = GangMember.objects.filter(gang_id=attempt.pk, number=rank)
    return members.values_list("pk", flat=True).first() or ""


def log_tail(attempt: Attempt, *, lines: int = 1000, rank: int | None = None) -> LogChunk:
    """Return the last lines of the log, found from its end backwards; at most 4 MiB."""
    try:
        with log_open(attempt, rank=rank) as log:
            return _tail(log, max(1, lines)) if log.end > log.start else _nothing(attempt, LOG_EMPTY)
    except OSError:
        return _missing(attempt, rank)


def log_from(attempt: Attempt, offset: int, *, most_bytes: int, rank: int | None = None) -> LogChunk:
    """Return what follows ``offset``, at most ``most_bytes``; what was dropped before the kept part is skipped."""
    try:
        with log_open(attempt, rank=rank) as log:
            if log.end == log.start:
                return _nothing(attempt, LOG_EMPTY)
            start = min(max(offset, log.start), log.end)
            data = _whole_characters(log.read(start, max(1, most_bytes)))
            end = start + len(data)
            return LogChunk(start_offset=start, end_offset=end, text=_text(data), truncated=start > offset)
    except OSError:
        return _missing(attempt, rank)


def _open_directory(parent: Path, name: str) -> int:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
    above = os.open(parent, flags & ~os.O_NOFOLLOW)
    try:
        return os.open(name, flags, dir_fd=above)
    finally:
        os.close(above)


def _open_segments(directory: int) -> list[Segment]:
    """Open the newest run of segments without a hole, oldest first; what lies before a hole counts as dropped."""
    run: list[Segment] = []
    try:
        for start, name in sorted(_segment_names(directory), reverse=True):
            segment = _open_segment(directory, name, start)
            if segment is None or (run and segment.end < run[-1].start) or len(run) == SEGMENTS_OPENED:
                if segment is not None:
                    os.close(segment.descriptor)
                break
            run.append(segment)
    except BaseException:
        for segment in run:
            os.close(segment.descriptor)
        raise
    return run[::-1]


def _open_segment(directory: int, name: str, start: int) -> Segment | None:
    """Open one segment, or return None when it is no regular file, or was dropped a moment ago."""
    # NONBLOCK: opening a FIFO would wait for ever before we see that it is one.
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(name, flags, dir_fd=directory)
    except OSError:
        return None
    about = os.fstat(descriptor)
    if not stat.S_ISREG(about.st_mode):
        os.close(descriptor)
        return None
    return Segment(start=start, end=start + about.st_size, descriptor=descriptor)


def _segment_names(directory: int) -> Iterator[tuple[int, str]]:
    with os.scandir(directory) as entries:
        for seen, entry in enumerate(entries):
            match = SEGMENT.fullmatch(entry.name)
            if match is not None:
                yield int(match[1]), entry.name
            if seen >= SEGMENTS_LISTED:
                break


def _tail(log: Log, lines: int) -> LogChunk:
    """Read blocks backwards until there are enough line ends."""
    blocks: list[bytes] = []
    start, line_ends = log.end, 0
    # One line end more than lines: the one that ends the last line begins no new one.
    while start > log.start and line_ends <= lines and log.end - start < TAIL_BYTES:
        size = min(BLOCK_BYTES, start - log.start)
        start -= size
        blocks.append(log.read(start, size))
        line_ends += blocks[-1].count(b"\n")
    data = b"".join(reversed(blocks))
    kept = data.split(b"\n")
    surplus = len(kept) - lines - data.endswith(b"\n")
    if surplus > 0:
        cut = sum(len(line) + 1 for line in kept[:surplus])
        data, start = data[cut:], start + cut
    data = _whole_characters(data)
    return LogChunk(start_offset=start, end_offset=start + len(data), text=_text(data), truncated=start > 0)


def _whole_characters(data: bytes) -> bytes:
    """Return the bytes without the beginning of a character at their end; the rest of it comes with the next chunk."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue  # inside a character: its first byte is before
        length = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return data[:-back] if length > back and len(data) > back else data
    return data


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _missing(attempt: Attempt, rank: int | None) -> LogChunk:
    """Return why a log could not be opened: it is not there, or no process has that number."""
    if rank is None or _member(attempt, rank):
        return _nothing(attempt, LOG_GONE)
    last = max((number for number, _ in ranks_of(attempt)), default=0)
    have = f"they are numbered 0 to {last}" if last else "it has one process, number 0"
    reason = f"Attempt {attempt.number} has no process of rank {rank}: {have}."
    return LogChunk(start_offset=0, end_offset=0, text="", truncated=False, reason=reason)


def _nothing(attempt: Attempt, once_ended: str) -> LogChunk:
    reason = NO_LOG_YET if attempt.ended_at is None else once_ended
    return LogChunk(start_offset=0, end_offset=0, text="", truncated=False, reason=reason)
