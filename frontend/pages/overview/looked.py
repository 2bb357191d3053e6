"""When the reader last looked at the overview: a cookie with two times, so that no read writes a row.

``<before>.<last>`` in Unix seconds: a visit is over when 30 minutes pass without a look, and the next one then tells
what changed since.
"""

from datetime import UTC, datetime, timedelta

from django.http import HttpRequest, HttpResponse

LOOKED_COOKIE = "looked"
VISIT_OVER_AFTER = timedelta(minutes=30)
KEPT_S = 90 * 86_400
OLDEST = timedelta(days=30)


def last_looked(request: HttpRequest, now: datetime) -> datetime | None:
    """Return when the visit before this one ended; None at the first, or when that is too long ago to tell."""
    before, last = _times(request)
    at = last if last is not None and now - last > VISIT_OVER_AFTER else before
    return at if at is not None and timedelta() < now - at < OLDEST else None


def note_look(request: HttpRequest, response: HttpResponse, now: datetime) -> None:
    """Let the browser remember this look."""
    before = last_looked(request, now)
    value = f"{int(before.timestamp()) if before else 0}.{int(now.timestamp())}"
    response.set_cookie(LOOKED_COOKIE, value, max_age=KEPT_S, samesite="Lax", httponly=True, secure=request.is_secure())


def _times(request: HttpRequest) -> tuple[datetime | None, datetime | None]:
    parts = request.COOKIES.get(LOOKED_COOKIE, "").split(".")
    if len(parts) != 2:
        return None, None
    return _time(parts[0]), _time(parts[1])


def _time(text: str) -> datetime | None:
    is_seconds = text.isascii() and text.isdigit() and len(text) <= 11 and int(text)
    return datetime.fromtimestamp(int(text), tz=UTC) if is_seconds else None
