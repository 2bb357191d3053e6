"""The range of time in the URL: 24h, 7d or 30d."""

from datetime import timedelta

from django.http import HttpRequest

from frontend.components.times import Range
from frontend.components.viewer import now_utc

SPANS = {"24h": ("24 h", 86_400), "7d": ("7 d", 604_800), "30d": ("30 d", 2_592_000)}


def asked_range(request: HttpRequest) -> Range:
    """Return the range that the URL asks for; the last 24 h by default."""
    span, span_s = SPANS.get(request.GET.get("range", ""), SPANS["24h"])
    until = now_utc()
    return Range(since=until - timedelta(seconds=span_s), until=until, words=f"last {span}")


def range_links(tab: str, range_: Range) -> list[tuple[str, str, bool]]:
    """Return each range as link, label and whether it is shown."""
    before = "" if tab == "overview" else f"tab={tab}&"
    return [(f"?{before}range={key}", label, range_.words == f"last {label}") for key, (label, _) in SPANS.items()]
