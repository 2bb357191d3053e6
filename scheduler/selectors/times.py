"""Times as JSON says them: ISO 8601, UTC, with ``Z``."""

from datetime import UTC, datetime
from typing import overload


@overload
def iso(at: datetime) -> str: ...
@overload
def iso(at: None) -> None: ...
@overload
def iso(at: datetime | None) -> str | None: ...
def iso(at: datetime | None) -> str | None:
    """Return ``2026-03-07T14:32:05.123Z`` for an aware time, milliseconds only when there are any; None for None."""
    if at is None:
        return None
    spec = "milliseconds" if at.microsecond else "seconds"
    return at.astimezone(UTC).isoformat(timespec=spec).removesuffix("+00:00") + "Z"


def seconds_between(start: datetime, end: datetime) -> float:
    """Return seconds from ``start`` to ``end``, never negative: the wall clock may have stepped back."""
    return max(0.0, (end - start).total_seconds())
