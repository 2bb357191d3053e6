"""Logs: the last thousand lines of an attempt, followed while it runs."""

from collections.abc import Iterable
from typing import TypedDict

from frontend.pages.jobs.logs.log_view import LEVELS, LogPage, full_log
from frontend.pages.jobs.subject import Subject


class LogsTab(TypedDict):
    """The variables of its template."""

    log: LogPage
    only_attempt: bool
    levels: Iterable[tuple[str, str]]
    level: str
    words: str


def context(subject: Subject) -> LogsTab:
    """Return the variables of the template."""
    query = subject.request.GET
    return {
        "log": full_log(subject),
        "only_attempt": "attempt" in query,  # chosen by the reader: no other is to follow it
        "levels": LEVELS.items(),
        "level": query.get("level", ""),
        "words": query.get("q", "")[:200],
    }
