"""The reader's theme, time zone and last visited queue, from cookies that hold no secret."""

from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.http import HttpRequest

THEMES = ("system", "light", "dark")
THEME_COOKIE = "theme"
ZONE_COOKIE = "zone"
QUEUE_COOKIE = "queue"


def viewer_theme(request: HttpRequest) -> str:
    """Return the chosen theme; ``system`` when none is."""
    theme = request.COOKIES.get(THEME_COOKIE, "")
    return theme if theme in THEMES else "system"


def viewer_zone(request: HttpRequest) -> tzinfo:
    """Return the browser's time zone; UTC until a script has told it."""
    name = request.COOKIES.get(ZONE_COOKIE, "")
    if not name or len(name) > 64:
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC


def now_utc() -> datetime:
    """Return the present time; the one clock of the pages."""
    return datetime.now(tz=UTC)
