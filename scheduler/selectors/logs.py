"""Reads of job logs, straight from the attempt's directory."""

from dataclasses import dataclass

from scheduler.models import Attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChunk:
    """Some contiguous bytes of a log as text.

    Attributes:
        start_offset, end_offset: Bytes from the beginning of the whole log, dropped segments included.
        text: Decoded UTF-8, bad bytes replaced.
        truncated: Whether log before ``start_offset`` exists or was dropped.
        reason: Why there is nothing to read; empty when there is.
    """

    start_offset: int
    end_offset: int
    text: str
    truncated: bool
    reason: str = ""


def log_tail(attempt: Attempt, *, lines: int = 1000) -> LogChunk:
    """Return the last lines of the log."""
    raise NotImplementedError


def log_from(attempt: Attempt, offset: int, *, most_bytes: int) -> LogChunk:
    """Return what follows ``offset``, at most ``most_bytes``."""
    raise NotImplementedError


def log_open(attempt: Attempt) -> object:
    """Open the kept log for reading in pieces (download)."""
    raise NotImplementedError
