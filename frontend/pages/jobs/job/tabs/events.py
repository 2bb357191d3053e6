"""Events: everything that happened to the job, newest first."""

from typing import TypedDict

from frontend.pages.jobs.job.event_words import EventLine, event_line
from frontend.pages.jobs.subject import Subject
from scheduler.selectors.jobs.listing import event_row, job_events

MOST = 200


def count(subject: Subject) -> int | None:
    """Return how many there are."""
    return subject.detail["num_events"]


class EventsTab(TypedDict):
    """The variables of its template."""

    happenings: list[EventLine]
    older_href: str


def context(subject: Subject) -> EventsTab:
    """Return the variables of the template; ``?before=`` is the number of the event that the page begins before."""
    before = subject.request.GET.get("before", "")
    events = job_events(subject.job)
    if before.isascii() and before.isdigit() and len(before) < 10:
        events = events.filter(number__lt=int(before))
    found = list(events.order_by("-number")[: MOST + 1])
    shown = [event_line(event_row(event), subject.device) for event in found[:MOST]]
    return {"happenings": shown, "older_href": f"?before={shown[-1].number}" if len(found) > MOST else ""}
