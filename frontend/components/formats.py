"""How numbers, times and sizes are written on all pages. Pure functions."""

from datetime import UTC, datetime, tzinfo

from scheduler.core.spec.units import duration_words

NBSP = "\u00a0"
THIN = "\u202f"
MINUS = "\u2212"
NOT_MEASURED = "not measured"


def number(value: float | None, digits: int = 0) -> str:
    """Return a number with thin spaces between thousands and a true minus sign."""
    if value is None:
        return NOT_MEASURED
    text = f"{abs(value):,.{digits}f}".replace(",", THIN)
    return f"{MINUS}{text}" if value < 0 and float(f"{value:.{digits}f}") != 0 else text


def significant(value: float | None) -> str:
    """Return a measured value with three significant digits: 0.0123, 1.23, 12.3, 4 212."""
    return NOT_MEASURED if value is None else number(value, digits_of(value))


def gpu_hours(hours: float | None) -> str:
    """Return GPU-hours, as read on all pages: 0.08, 1.23, 12.3, 4 212; hundredths are half a minute of one GPU."""
    if hours is not None and 0 < hours < 0.005:
        return "under 0.01"
    return NOT_MEASURED if hours is None else number(hours, min(2, digits_of(hours)))


def whole_s(seconds: float) -> float:
    """Return seconds as a page counts them: whole ones, and never none, since no one reads milliseconds of a wait."""
    return max(1.0, float(int(seconds)))


def digits_of(value: float) -> int:
    """Return how many digits after the point tell enough of a value of this size."""
    size = abs(value)
    return 0 if size >= 100 or not size else 1 if size >= 10 else 2 if size >= 1 else 3 if size >= 0.1 else 4


def signed(value: float, digits: int = 0) -> str:
    """Return a difference: ``+4``, ``0``, or with a minus sign."""
    text = number(value, digits)
    return f"+{text}" if float(f"{value:.{digits}f}") > 0 else text


def percent(frac: float | None, digits: int = 0) -> str:
    """Return a fraction (0 to 1) in per cent."""
    return NOT_MEASURED if frac is None else f"{number(frac * 100, digits)}{NBSP}%"


def counted(count: int, one: str, many: str = "") -> str:
    """Return a count with its noun: ``1 job``, ``7 jobs``."""
    return f"{number(count)}{NBSP}{one if count == 1 else many or one + 's'}"


def duration(seconds: float | None) -> str:
    """Return a length of time in its two largest units: ``40 s``, ``17 min``, ``1 h 8 min``, ``2 d 3 h``."""
    return NOT_MEASURED if seconds is None else duration_words(seconds, space=NBSP)


def rough(seconds: float) -> tuple[str, str]:
    """Return a length of time in one unit, as value and unit: ``9``, ``min`` or ``3.6``, ``h``."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        value = seconds / size
        if value >= 1 or unit == "s":
            return (f"{value:.1f}" if value < 10 and round(value, 1) % 1 else f"{value:.0f}"), unit
    raise AssertionError  # the last unit always returns


def data_size(size_bytes: float | None) -> str:
    """Return a size in binary units: ``13.4 GiB``."""
    if size_bytes is None:
        return NOT_MEASURED
    value, unit = float(size_bytes), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        if abs(value) < 1024:
            break
        value, unit = value / 1024, larger
    return f"{number(value, 0 if unit == 'B' or abs(value) >= 100 else 1)}{NBSP}{unit}"


def relative(at: datetime, now: datetime) -> str:
    """Return how long ago or how far ahead a time is: ``3 s ago``, ``in 1 h 24 min``."""
    distance_s = (now - at).total_seconds()
    if abs(distance_s) < 1:
        return "now"
    if distance_s > 0:
        return f"{duration(whole_s(distance_s))} ago"
    return f"in {duration(whole_s(-distance_s))}"


def clock(at: datetime, now: datetime, zone: tzinfo, *, seconds: bool = False) -> str:
    """Return the time of day, 24 h; with the weekday or the date once it is not today."""
    local, today = at.astimezone(zone), now.astimezone(zone)
    time = f"{local:%H:%M:%S}" if seconds else f"{local:%H:%M}"
    if local.date() == today.date():
        return time
    if abs((local.date() - today.date()).days) < 7:
        return f"{local:%a} {time}"
    day = f"{local.day} {local:%b}"
    return f"{day} {time}" if local.year == today.year else f"{day} {local.year}"


def day(date: str) -> str:
    """Write an ISO date as ``30 Nov 2026``."""
    at = datetime.fromisoformat(date)
    return f"{at.day} {at:%b %Y}"


def iso(at: datetime) -> str:
    """Return a time as ISO 8601 in UTC with ``Z``, whole seconds."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def shortened(name: str, most: int) -> str:
    """Return a long name with its middle left out."""
    return name if len(name) <= most else f"{name[: most // 2]}\u2026{name[-(most - most // 2 - 1) :]}"


def joined(words: list[str]) -> str:
    """Return ``a``, ``a and b``, ``a, b and c``."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else ""
