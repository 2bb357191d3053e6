"""The overview: the cluster, the queues and the user's jobs on one screen."""

from datetime import datetime, timedelta, tzinfo

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from frontend.components.devices import DeviceWord, device_word
from frontend.components.formats import clock
from frontend.components.gpu_cells import drained_words, free_words, server_cells, silent_line
from frontend.components.happenings import happenings
from frontend.components.times import Range, as_time_or_none, series_in
from frontend.components.viewer import now_utc, viewer_zone
from frontend.pages.overview.alert_words import changed_words, next_free_title
from frontend.pages.overview.completion import completion
from frontend.pages.overview.fairness import fairness_chart
from frontend.pages.overview.inbox import Inbox, inbox_of
from frontend.pages.overview.looked import last_looked, note_look
from frontend.pages.overview.own_jobs import own_jobs
from frontend.pages.overview.utilization import utilization
from frontend.pages.overview.words import (
    SPANS,
    bar_scale,
    consequence,
    counts,
    finding,
    request_line,
    shares_title,
    tiles,
)
from scheduler.models.queue import Role
from scheduler.selectors.cluster.alerts import alerts
from scheduler.selectors.cluster.changes import changes_since
from scheduler.selectors.cluster.next_free import next_free
from scheduler.selectors.cluster.overview import (
    cluster_now,
    cluster_series,
    fairness,
    feed,
    gpu_map,
    jct_summary,
    queue_shares,
)
from scheduler.selectors.queues.requests import own_requests
from scheduler.selectors.visibility import Actor, access_of, is_admin, queues_submittable, queues_visible

POINTS = 120
STRIP_MOST = 64
ROOMY_MOST = 6  # so few servers are drawn larger
QUEUES_MOST = 8
NEXT_FREE_MOST = 6


@require_safe
def overview(request: HttpRequest) -> HttpResponse:
    """Show the overview over a range of time (``?range=1h|6h|24h|7d``)."""
    user, zone, until = request.user, viewer_zone(request), now_utc()
    asked = request.GET.get("range", "24h")
    chosen = asked if asked in SPANS else "24h"
    span, span_s = SPANS[chosen]
    since = until - timedelta(seconds=span_s)
    frame, summary = cluster_now(until), jct_summary(user, since)
    range_, series = series_in(
        Range(since=since, until=until, words=f"last {span}"), zone, lambda a, b: cluster_series(a, b, POINTS)
    )
    servers, shares = gpu_map(user, until), queue_shares(user)
    device = device_word(server["device_kind"] for server in frame["servers"])
    jobs, jobs_note = own_jobs(user, zone, device)
    title, soft = finding(frame, device)
    looked_at = last_looked(request, until)
    needs_admin = alerts(user, until)
    inbox = inbox_of(needs_admin, looked_at=looked_at, device=device) if is_admin(user) else None
    response = render(
        request,
        "overview/overview.html",
        {
            "notice": "" if asked == chosen else f"{asked[:20]} is no range here, so the last {span} are shown.",
            "inbox": inbox,
            "changed": _changed(user, looked_at, inbox, until, zone),
            "looked_at": looked_at,
            "requests": [request_line(row, device) for row in own_requests(user, until)],
            "next_free": None if jobs or _submits(user) else _next_free(user, device, until, zone),
            "cluster": frame,
            "device": device,
            "title": title,
            "soft": soft,
            "consequence": consequence(frame, servers, device),
            "silent": silent_line(servers),
            "ranges": [(key, f"?range={key}", label, key == chosen) for key, (label, _) in SPANS.items()],
            "range_s": span_s,
            "counts": counts(frame),
            "shown_since": range_.since,
            "tiles": tiles(
                frame=frame,
                series=series,
                summary=summary,
                servers=servers,
                span=span,
                began=range_.began,
                now=until,
                device=device,
            ),
            "servers": server_cells(servers[:STRIP_MOST]),
            "roomy": len(servers) <= ROOMY_MOST,
            "hidden_servers": max(0, len(servers) - STRIP_MOST),
            "free_words": ", ".join(filter(None, (free_words(servers), drained_words(servers, until, zone)))),
            "utilization": utilization(series=series, range_=range_, zone=zone, device=device),
            "shares": shares[:QUEUES_MOST],
            "shares_title": shares_title(shares, frame, device),
            "scale_gpus": bar_scale(shares),
            "fairness": fairness_chart(fairness(user, until, since=since), f"last {span}"),
            "completion": completion(summary, f"last {span}"),
            "jobs": jobs,
            "jobs_note": jobs_note,
            "feed": happenings(feed(user, 6), device),
            "groups": ["cluster", *(f"queue.{pk}" for pk in queues_visible(user).values_list("pk", flat=True)[:50])],
            "first_queue": queues_submittable(user).values_list("name", flat=True).first() or "my-queue",
            "submit_url": request.build_absolute_uri("/api/v1/jobs"),
        },
    )
    note_look(request, response, until)
    return response


def _submits(user: Actor) -> bool:
    """Return whether the user is one to submit jobs: a member of some queue. Leads and admins may, and seldom do."""
    return Role.MEMBER in access_of(user).roles.values()


def _changed(user: Actor, looked_at: datetime | None, inbox: Inbox | None, now: datetime, zone: tzinfo) -> str:
    if looked_at is None:
        return ""
    lines = (*inbox.first, *inbox.more) if inbox else ()
    return changed_words(changes_since(user, looked_at), sum(line.is_new for line in lines), looked_at, now, zone)


def _next_free(user: Actor, device: DeviceWord, now: datetime, zone: tzinfo) -> dict[str, object]:
    """Return the card of servers that are free next."""
    rows = next_free(user, now)
    at = as_time_or_none(rows[0]["whole_at"]) if rows else None
    title = next_free_title(rows, clock(at, now, zone) if at else "", device)
    return {"title": title, "rows": rows[:NEXT_FREE_MOST]}
