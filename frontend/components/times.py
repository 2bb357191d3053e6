"""Times as selectors hand them over: aware datetimes, or ISO text where the same data also serves JSON."""

from datetime import datetime


def as_time(value: datetime | str) -> datetime:
    """Return the time."""
    return datetime.fromisoformat(value) if isinstance(value, str) else value


def as_time_or_none(value: datetime | str | None) -> datetime | None:
    """Return the time, or None where there is none."""
    return None if value is None else as_time(value)
