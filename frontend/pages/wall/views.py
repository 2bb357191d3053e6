"""The wall as one page: rendered whole, for a person by their rights, for a screen by the link that opened it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import quote

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render, resolve_url
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from frontend.components.devices import device_word
from frontend.components.formats import clock, rough
from frontend.components.times import Range, as_time, as_time_or_none, series_in
from frontend.components.viewer import now_utc, viewer_zone
from frontend.pages.wall import words
from frontend.pages.wall.drawing import WallServer, band_of, counts_of, hours_of, wall_servers
from frontend.pages.wall.layout import Shape, page_of
from scheduler.selectors.cluster.next_free import NextFreeRow, next_free
from scheduler.selectors.cluster.overview import (
    cluster_now,
    cluster_series,
    feed,
    gpu_map,
    jct_summary,
    queue_shares,
)
from scheduler.selectors.visibility import Actor
from scheduler.selectors.wall import wall_line, wall_takers
from scheduler.services.accounts.walls import wall_link_of_session, wall_link_used

DAY = timedelta(days=1)
POINTS = 192
FEED_READ, NEWS = 60, 5
LINE = 5
QUEUES = 5
TICKS = 12  # cells of the countdown


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """Whose rights the wall is read by, and whether it names jobs."""

    user: Actor
    names: bool


@never_cache
@require_safe
def wall(request: HttpRequest) -> HttpResponse:
    """Show the wall (``?theme=light`` or ``dark``)."""
    now = now_utc()
    reader = _reader(request, now)
    if reader is None:
        return redirect(f"{resolve_url(settings.LOGIN_URL)}?next={quote(request.get_full_path())}")
    theme = request.GET.get("theme", "")
    context = {**_context(request, reader, now), "wall_theme": theme if theme in ("light", "dark") else "dark"}
    return render(request, "wall/wall.html", context)


def _reader(request: HttpRequest, now: datetime) -> Reader | None:
    if request.user.is_authenticated:
        return Reader(user=request.user, names=True)
    link = wall_link_of_session(request.session)
    if link is None:
        return None
    wall_link_used(link, at=now)
    return Reader(user=link.created_by, names=link.shows_names)


def _context(request: HttpRequest, reader: Reader, now: datetime) -> dict[str, object]:
    zone, user = viewer_zone(request), reader.user
    frame, rows = cluster_now(now), gpu_map(user, now)
    device = device_word(server["device_kind"] for server in frame["servers"])
    servers = wall_servers(rows)
    page = page_of([len(server.cells) for server in servers], now.timestamp())
    line = wall_line(user, now, most=LINE, names=reader.names)
    events = [row for row in feed(user, FEED_READ) if words.is_news(row)][:NEWS]
    news = words.news_of(events, wall_takers(user, events), device, names=reader.names)
    recent = now - timedelta(seconds=2 * settings.ROUND_S)
    shares = sorted(queue_shares(user), key=lambda share: -share["held_gpus"])[:QUEUES]
    summary = jct_summary(user, now - DAY)
    range_, series = series_in(
        Range(since=now - DAY, until=now, words="last 24 h"), zone, lambda a, b: cluster_series(a, b, POINTS)
    )
    free_next = _not_free(next_free(user, now))
    whole_at = as_time_or_none(free_next["whole_at"]) if free_next else None
    measured = frame["allocated_gpus"] - frame["unknown_gpus"]
    next_day, next_time = words.day_and_time(clock(whole_at, now, zone) if whole_at else "")
    title, title_soft = words.line_title(line, frame, device)
    return {
        "now": now,
        "clock": clock(now, now, zone),
        "frame_now": frame,
        "device": device,
        "headline": words.headline(frame, news, events, recent, device),
        "late": words.late_words(frame, now, settings.ROUND_S),
        "round_s": settings.ROUND_S,
        "ticks": range(TICKS),
        "usable": frame["usable_gpus"],
        "busy_percent": round(100 * frame["busy_gpus"] / measured)
        if measured
        else None
        if frame["unknown_gpus"]
        else 0,
        "idle": max(0, measured - frame["busy_gpus"]),
        "counts": counts_of(servers),
        "servers": [_place(server, page.shape) for server in servers[page.first : page.last]],
        "num_servers": len(servers),
        "page": page,
        "line_title": title,
        "line_soft": title_soft,
        "line": [
            {
                "row": row,
                "name": words.job_name(row["name"], row["queue"], names=reader.names),
                "why": words.why_words(row, device),
                "starts": words.starts_words(row, now, zone),
            }
            for row in line["first"]
        ],
        "line_more": max(0, line["jobs"] - len(line["first"])),
        "shares": shares,
        "shares_title": words.shares_title(shares, device),
        "scale_gpus": max((max(share["held_gpus"], share["quota_gpus"]) for share in shares), default=1),
        "news": [(told, clock(told.at, now, zone)) for told in news],
        "next_free_day": next_day,
        "next_free_time": next_time,
        "free_now": bool(free_next and free_next["free_gpus"] == free_next["num_gpus"]),
        "next_free": words.next_free_words(free_next, names=reader.names),
        "wait": rough(summary["wait_p50_s"]) if summary["wait_p50_s"] is not None else None,
        "completion": rough(summary["p50_s"]) if summary["p50_s"] is not None else None,
        "band_words": range_.words,
        "band": band_of(series, [f"{as_time(at).astimezone(zone):%H:%M}" for at in series["at"]]),
        "hours": hours_of(range_, zone),
    }


def _place(server: WallServer, shape: Shape) -> tuple[WallServer, str, int]:
    """Return a server, its note where there is room for one, and the letters of its name."""
    note = server.note if shape.has_room(server.name, server.note) else ""
    return server, note, shape.letters(note)


def _not_free(rows: Sequence[NextFreeRow]) -> NextFreeRow | None:
    """Return the server that is wholly free next; the first that is so already where no other says when."""
    return next((row for row in rows if row["whole_at"]), rows[0] if rows else None)
