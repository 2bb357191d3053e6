"""The range of time in the URL: 24h, 7d, 30d, or a calendar month as 2026-03."""

import re
from datetime import datetime, timedelta, tzinfo

from django.http import HttpRequest

from frontend.components.times import Range
from frontend.components.viewer import now_utc, viewer_zone

SPANS = {"24h": ("24 h", 86_400), "7d": ("7 d", 604_800), "30d": ("30 d", 2_592_000)}
MONTH = re.compile(r"(20[0-9]{2})-(0[1-9]|1[0-2])")
MOMENT = timedelta(minutes=1)
MONTHS_SHOWN = 2  # links: this month and the one before


def asked_range(request: HttpRequest) -> Range:
    """Return the range that the URL asks for; the last 24 h by default. A month is that of the reader's zone."""
    asked, until = request.GET.get("range", ""), now_utc()
    if month := MONTH.fullmatch(asked):
        zone = viewer_zone(request)
        first = _first_of(int(month[1]), int(month[2]), zone)
        if first < until:
            return Range(since=first, until=min(until, _next(first, zone)), words=f"in {first:%B %Y}")
    span, span_s = SPANS.get(asked, SPANS["24h"])
    return Range(since=until - timedelta(seconds=span_s), until=until, words=f"last {span}")


def range_links(tab: str, range_: Range, zone: tzinfo) -> list[tuple[str, str, bool]]:
    """Return each range as link, label and whether it is shown."""
    before = "" if tab == "overview" else f"tab={tab}&"
    links = [(f"?{before}range={key}", label, range_.words == f"last {label}") for key, (label, _) in SPANS.items()]
    now = now_utc().astimezone(zone)
    first = _first_of(now.year, now.month, zone)
    for _ in range(MONTHS_SHOWN):
        links.append((f"?{before}range={first:%Y-%m}", f"{first:%b}", range_.words == f"in {first:%B %Y}"))
        before_it = first - timedelta(days=1)
        first = _first_of(before_it.year, before_it.month, zone)
    return links


def is_past(range_: Range) -> bool:
    """Return whether a range is over: a month before this one."""
    return now_utc() - range_.until > MOMENT


def in_words(range_: Range) -> str:
    """Return a range as a part of a sentence: ``in the last 24 h``, ``in October 2026``."""
    return range_.words if range_.words.startswith("in ") else f"in the {range_.words}"


def _first_of(year: int, month: int, zone: tzinfo) -> datetime:
    return datetime(year, month, 1, tzinfo=zone)


def _next(first: datetime, zone: tzinfo) -> datetime:
    """Return the first moment of the month after."""
    return _first_of(first.year + first.month // 12, first.month % 12 + 1, zone)
