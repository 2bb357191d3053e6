"""Logs: the last thousand lines of an attempt, followed while it runs; before it, how its environment is built."""

from collections.abc import Iterable
from typing import TypedDict

from frontend.pages.jobs.job.preparing import failed_log, preparing_of
from frontend.pages.jobs.logs.log_view import LEVELS, LogPage, full_log
from frontend.pages.jobs.subject import Subject


class LogsTab(TypedDict):
    """The variables of its template."""

    log: LogPage
    builds: bool
    build_log: list[str]
    only_attempt: bool
    levels: Iterable[tuple[str, str]]
    level: str
    words: str


def context(subject: Subject) -> LogsTab:
    """Return the variables of the template."""
    query = subject.request.GET
    preparing = preparing_of(subject)
    lines = preparing.log if preparing is not None else failed_log(subject)
    return {
        "builds": preparing is not None or bool(lines),
        "build_log": lines,
        "log": full_log(subject),
        "only_attempt": "attempt" in query,  # chosen by the reader: no other is to follow it
        "levels": LEVELS.items(),
        "level": query.get("level", ""),
        "words": query.get("q", "")[:200],
    }
