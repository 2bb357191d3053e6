"""What happened since a moment: the page behind "Show what changed"."""

from datetime import datetime, timedelta

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from frontend.components.devices import device_word
from frontend.components.formats import clock, counted
from frontend.components.happenings import happenings
from frontend.components.viewer import now_utc, viewer_zone
from scheduler.selectors.cluster.changes import events_since
from scheduler.selectors.cluster.servers import device_kinds

MOST = 200
SPAN = timedelta(days=1)
OLDEST = timedelta(days=36_500)  # before that a time may have no date in the reader's zone


@require_safe
def events(request: HttpRequest) -> HttpResponse:
    """Show the events since ``?since=`` (ISO 8601; a day ago where it is none)."""
    now, zone = now_utc(), viewer_zone(request)
    since = _since(request.GET.get("since", ""), now)
    device = device_word(device_kinds(request.user))
    rows = events_since(request.user, since, limit=MOST + 1)
    title = f"{counted(len(rows), 'thing')} happened since {clock(since, now, zone)}"
    if len(rows) > MOST:
        title = f"More than {MOST} things happened since {clock(since, now, zone)}"
    context = {"title": title if rows else f"Nothing happened since {clock(since, now, zone)}"}
    return render(request, "overview/events.html", {**context, "feed": happenings(rows[:MOST], device), "most": MOST})


def _since(text: str, now: datetime) -> datetime:
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        return now - SPAN
    return given if given.tzinfo is not None and timedelta() <= now - given < OLDEST else now - SPAN
