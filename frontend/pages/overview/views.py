"""The overview: the cluster, the queues and the user's jobs on one screen."""

from datetime import timedelta

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from frontend.components.devices import device_word
from frontend.components.gpu_cells import draining_words, free_words, server_cells
from frontend.components.happenings import happenings
from frontend.components.times import Range, series_in
from frontend.components.viewer import now_utc, viewer_zone
from frontend.pages.overview.completion import completion
from frontend.pages.overview.fairness import fairness_chart
from frontend.pages.overview.own_jobs import own_jobs
from frontend.pages.overview.utilization import utilization
from frontend.pages.overview.words import SPANS, bar_scale, consequence, finding, shares_title, tiles
from scheduler.selectors.cluster.overview import (
    cluster_now,
    cluster_series,
    fairness,
    feed,
    gpu_map,
    jct_summary,
    queue_shares,
)
from scheduler.selectors.visibility import queues_submittable, queues_visible

POINTS = 120
STRIP_MOST = 64
ROOMY_MOST = 6  # so few servers are drawn larger
QUEUES_MOST = 8


@require_safe
def overview(request: HttpRequest) -> HttpResponse:
    """Show the overview over a range of time (``?range=1h|6h|24h|7d``)."""
    user, zone, until = request.user, viewer_zone(request), now_utc()
    chosen = request.GET.get("range", "24h")
    chosen = chosen if chosen in SPANS else "24h"
    span, span_s = SPANS[chosen]
    since = until - timedelta(seconds=span_s)
    frame, summary = cluster_now(), jct_summary(user, since)
    range_, series = series_in(
        Range(since=since, until=until, words=f"last {span}"), zone, lambda a, b: cluster_series(a, b, POINTS)
    )
    servers, shares = gpu_map(user), queue_shares(user)
    device = device_word(server["device_kind"] for server in frame["servers"])
    jobs, jobs_note = own_jobs(user, zone, device)
    title, soft = finding(frame, device)
    return render(
        request,
        "overview/overview.html",
        {
            "cluster": frame,
            "device": device,
            "title": title,
            "soft": soft,
            "consequence": consequence(frame, servers, device),
            "ranges": [(key, f"?range={key}", label, key == chosen) for key, (label, _) in SPANS.items()],
            "range_s": span_s,
            "shown_since": range_.since,
            "tiles": tiles(frame=frame, series=series, summary=summary, span=span, began=range_.began, device=device),
            "servers": server_cells(servers[:STRIP_MOST]),
            "roomy": len(servers) <= ROOMY_MOST,
            "hidden_servers": max(0, len(servers) - STRIP_MOST),
            "free_words": ", ".join(filter(None, (free_words(servers), draining_words(servers)))),
            "utilization": utilization(series=series, range_=range_, zone=zone, device=device),
            "shares": shares[:QUEUES_MOST],
            "shares_title": shares_title(shares, device),
            "scale_gpus": bar_scale(shares),
            "fairness": fairness_chart(fairness(user)),
            "completion": completion(summary, f"last {span}"),
            "jobs": jobs,
            "jobs_note": jobs_note,
            "feed": happenings(feed(user, 6)),
            "groups": ["cluster", *(f"queue.{pk}" for pk in queues_visible(user).values_list("pk", flat=True)[:50])],
            "first_queue": queues_submittable(user).values_list("name", flat=True).first() or "my-queue",
            "submit_url": request.build_absolute_uri("/api/v1/jobs"),
        },
    )
