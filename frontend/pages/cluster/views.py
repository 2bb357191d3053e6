"""Pages of the cluster: the map of all servers, and one server."""

from datetime import datetime, timedelta
from typing import TypedDict

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_safe

from frontend.components.devices import device_word
from frontend.components.errors import page
from frontend.components.gpu_cells import ServerCells, server_cells, silent_words
from frontend.components.happenings import happenings
from frontend.components.times import Range, Series, series_in
from frontend.components.viewer import now_utc, viewer_zone
from frontend.pages.cluster.heat import device_rows, heat_chart, lowest_title, server_row
from frontend.pages.cluster.hours import hours_chart, hours_rows, measured_words
from frontend.pages.cluster.words import (
    drain_effect,
    finding,
    isolation_in_short,
    isolation_line,
    mixing_line,
    server_title,
    start_table,
    state_line,
    tenants,
)
from frontend.pages.overview.utilization import utilization
from scheduler.models import Event
from scheduler.models.event import SampleScope
from scheduler.selectors.cluster.gpu_hours import gpu_hours
from scheduler.selectors.cluster.overview import cluster_series, gpu_map
from scheduler.selectors.cluster.rows import ServerRow
from scheduler.selectors.cluster.servers import server_detail
from scheduler.selectors.events import event_row, events_joined
from scheduler.selectors.samples import newest_of_each, series_thinned, series_thinned_each
from scheduler.selectors.visibility import is_admin

VIEWS = ("utilization", "queue", "job", "temperature", "table")
HEAT_SPAN = timedelta(minutes=30)
HEAT_MOST = 16
SMALL_MOST = 4  # so few servers leave room for more cards beside the map
SPANS = {"1h": timedelta(hours=1), "6h": timedelta(hours=6), "24h": timedelta(hours=24)}
LONG_SPANS = {
    "1h": (timedelta(hours=1), "1 h"),
    "24h": (timedelta(hours=24), "24 h"),
    "7d": (timedelta(days=7), "7 d"),
    "30d": (timedelta(days=30), "30 d"),
}
CACHED_FRESH = timedelta(minutes=1)
POINTS = 120
PARTS = 48


class Rack(TypedDict):
    """The servers of one rack; ``name`` is empty for servers without a rack."""

    name: str
    servers: list[ServerCells]


def _racks(cells: list[ServerCells]) -> list[Rack]:
    """Return the servers by rack; servers without a rack come last."""
    names = sorted({server.rack for server in cells}, key=lambda name: (not name, name))
    return [{"name": name, "servers": [server for server in cells if server.rack == name]} for name in names]


@require_safe
def cluster(request: HttpRequest) -> HttpResponse:
    """Show all servers with their devices (``?view=utilization|queue|job|temperature|table&server=<id>``)."""
    zone, until = viewer_zone(request), now_utc()
    servers = gpu_map(request.user, until)
    view = request.GET.get("view", "utilization")
    has_heat = any(gpu["temperature_c"] is not None for row in servers for gpu in row["gpus"])
    shown = [name for name in VIEWS if name != "table" and (name != "temperature" or has_heat)]
    view = view if view in (*shown, "table") else "utilization"
    chosen = request.GET.get("server", "")
    selected = next((row for row in servers if row["id"] == chosen), servers[0] if servers else None)
    device = device_word(row["device_kind"] for row in servers)
    title, soft = finding(servers)
    start_title, starts = start_table(servers, device)
    heat_range = Range(since=until - HEAT_SPAN, until=until, words="last 30 min")
    by_server = series_thinned_each(
        scope=SampleScope.SERVER,
        scope_ids=[row["id"] for row in servers[:HEAT_MOST]],
        names=("gpu_frac",),
        since=heat_range.since,
    )
    measured = [(row, by_server[row["id"]]) for row in servers[:HEAT_MOST]]
    heat_range = heat_range.shortened([at for _, series in measured for at in series["at"][:1]], zone)
    rows = [
        server_row(row["name"], series, takes_jobs=row["state"] == "up", range_=heat_range) for row, series in measured
    ]
    cells = server_cells(servers, view=view, selected=selected["id"] if selected else "")
    chosen_span = request.GET.get("range", "24h")
    chosen_span = chosen_span if chosen_span in LONG_SPANS else "24h"
    span, span_words = LONG_SPANS[chosen_span]
    whole = Range(since=until - span, until=until, words=f"last {span_words}")
    range_, series = series_in(whole, zone, lambda a, b: cluster_series(a, b, POINTS))
    hours = gpu_hours(request.user, since=range_.since, until=range_.until, points=PARTS)
    context = {
        "servers": servers,
        "title": title,
        "soft": soft,
        "state_line": state_line(servers, until, zone),
        "view": view,
        "views": shown,
        "racks": _racks(cells),
        "selected": selected,
        "isolation": isolation_in_short(selected["isolation"]) if selected else "",
        "device": device,
        "is_small": len(servers) <= SMALL_MOST,
        "start_title": start_title,
        "starts": starts,
        "heat": heat_chart(
            id_="heat",
            rows=rows,
            title=lowest_title(rows, what="Servers"),
            sub=f"Mean use of each server's {device.many}, {heat_range.words}",
            range_=heat_range,
            zone=zone,
        ),
        "is_admin": is_admin(request.user),
        "ranges": [(key, label, key == chosen_span) for key, (_, label) in LONG_SPANS.items()],
        "utilization": utilization(series=series, range_=range_, zone=zone, device=device),
        "hours": hours_chart(hours, range_=range_, zone=zone, device=device),
        "hours_rows": hours_rows(hours),
        "hours_in_all": hours["capacity"],
        "hours_words": measured_words(hours, range_),
    }
    return render(request, "cluster/cluster.html", context)


def _device_series(server_id: str, since: datetime) -> Series:
    return series_thinned(scope=SampleScope.SERVER, scope_id=server_id, names=("gpu_frac",), since=since)


def _cached(row: ServerRow, until: datetime) -> dict[str, float]:
    """Return the share of its datasets that each job on a server reports to be in the server's memory, by job id."""
    jobs = {gpu["job"]["id"] for gpu in row["gpus"] if gpu["job"]}
    since = until - CACHED_FRESH
    return newest_of_each(scope=SampleScope.JOB, scope_ids=sorted(jobs), name="cached_frac", since=since)


@page
@require_safe
def server(request: HttpRequest, server_id: str) -> HttpResponseBase:
    """Show one server: devices, the jobs on them, use over time."""
    zone, until = viewer_zone(request), now_utc()
    row = server_detail(request.user, server_id, until)
    chosen = request.GET.get("range", "1h")
    chosen = chosen if chosen in SPANS else "1h"
    device = device_word([row["device_kind"]])
    range_ = Range(since=until - SPANS[chosen], until=until, words=f"last {chosen[:-1]} h")
    series = _device_series(row["id"], range_.since)
    range_ = range_.shortened(series["at"][:1], zone)
    rows = device_rows(series, word=device.one, count=len(row["gpus"]), range_=range_)
    events = events_joined(Event.objects.filter(server_id=row["id"])).order_by("-id")[:8]
    context = {
        "server": row,
        "device": device,
        "title": server_title(row, until, zone),
        "silent": silent_words(row) if row["state"] != "lost" else "",
        "tenants": tenants(row, cached=_cached(row, until)),
        "isolation": isolation_line(row["isolation"]),
        "mixing": mixing_line(row),
        "ranges": [(f"?range={key}", f"{key[:-1]} h", key == chosen) for key in SPANS],
        "heat": heat_chart(
            id_="heat",
            rows=rows,
            title=lowest_title(rows, what=device.many),
            sub=f"Use of each {device.one}, {range_.words}",
            range_=range_,
            zone=zone,
        ),
        "feed": happenings([event_row(event) for event in events], device),
        "effect": drain_effect(row),
        "is_admin": is_admin(request.user),
    }
    return render(request, "cluster/server.html", context)
