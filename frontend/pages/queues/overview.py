"""The first tab of a queue: share against quota, waiting jobs, fairness, loans and news."""

from datetime import timedelta, tzinfo
from typing import TypedDict

from frontend.components.charts import Chart
from frontend.components.devices import DeviceWord
from frontend.components.happenings import Happening, happenings
from frontend.components.times import Range, series_in
from frontend.pages.queues.figures import fairness_chart, share_chart
from frontend.pages.queues.ranges import is_past
from scheduler.models import Event, Queue
from scheduler.selectors.cluster.fairness import FAIR, UNFAIR, fairness
from scheduler.selectors.events import NOT_NEWS, event_row, events_joined
from scheduler.selectors.jobs.listing import JobFilters, job_list
from scheduler.selectors.jobs.queue_line import QueueLine, queue_line
from scheduler.selectors.queues.rows import LoansNow
from scheduler.selectors.queues.tree import names_below
from scheduler.selectors.queues.usage import loan_ledger, share_series
from scheduler.selectors.visibility import Actor

POINTS = 120
WAITING_MOST = 10
FEED_MOST = 6
MOMENT = timedelta(seconds=1)


class QueueOverviewTab(TypedDict):
    """The context of the tab; ``unfair`` is the alert that the queue fares worse than the limit allows."""

    waiting: QueueLine
    share: Chart
    fair: Chart
    loans_now: LoansNow
    unused_gpus: int
    unfair: Happening | None
    feed: list[Happening]


def overview_context(user: Actor, queue: Queue, range_: Range, *, zone: tzinfo, device: DeviceWord) -> QueueOverviewTab:
    """Return what the tab shows."""
    shown, series = series_in(
        range_, zone, lambda since, until: share_series(queue, since=since, until=until, points=POINTS)
    )
    rated = fairness(
        user, range_.until, since=range_.since, is_past=is_past(range_), queue_pks=list(names_below(queue))
    )
    events = events_joined(Event.objects.filter(queue=queue).exclude(kind__in=NOT_NEWS)).order_by("-id")
    return {
        "waiting": queue_line(user, queue, most=WAITING_MOST),
        "share": share_chart(
            name=queue.name,
            color_slot=queue.color_slot,
            made_at=queue.created_at,
            series=series,
            range_=shown,
            zone=zone,
            device=device,
        ),
        "fair": fairness_chart(queue.name, queue.color_slot, rated, range_),
        "loans_now": loan_ledger(user, queue, since=range_.until - MOMENT, until=range_.until)["now"],
        "unused_gpus": sum(job.num_gpus for job in job_list(user, JobFilters(queue=queue.name, is_idle=True))),
        "unfair": _unfair(queue, device),
        "feed": happenings([event_row(event) for event in events[:FEED_MOST]], device),
    }


def _unfair(queue: Queue, device: DeviceWord) -> Happening | None:
    """Return the alert that the queue fares worse than the limit allows; None while it does not."""
    told = events_joined(Event.objects.filter(queue=queue, kind__in=(UNFAIR, FAIR))).order_by("-id").first()
    return happenings([event_row(told)], device)[0] if told is not None and told.kind == UNFAIR else None
