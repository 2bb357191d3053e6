"""Logs: the last thousand lines of an attempt, followed while it runs."""

from frontend.pages.jobs.logs.log_view import LEVELS, full_log
from frontend.pages.jobs.subject import Subject


def context(subject: Subject) -> dict[str, object]:
    """Return the variables of the template."""
    query = subject.request.GET
    return {
        "log": full_log(subject),
        "only_attempt": "attempt" in query,  # chosen by the reader: no other is to follow it
        "levels": LEVELS.items(),
        "level": query.get("level", ""),
        "words": query.get("q", "")[:200],
    }
