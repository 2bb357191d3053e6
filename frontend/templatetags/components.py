"""Template tags of the components: icons, badges, bars, and numbers and times as ``formats`` writes them."""

from collections.abc import Mapping
from datetime import datetime
from typing import TypedDict

from django import template
from django.templatetags.static import static
from django.utils.html import format_html
from django.utils.safestring import SafeString

from frontend.components import formats
from frontend.components.devices import GPUS, DeviceWord
from frontend.components.from_shell import from_shell
from frontend.components.gpu_cells import silent_words
from frontend.components.states import look
from frontend.components.times import as_time
from frontend.components.viewer import now_utc, viewer_zone
from scheduler.selectors.cluster.rows import ServerRow
from scheduler.services.inputs import REASON_CHARS

register = template.Library()

for filter_ in (
    formats.number,
    formats.significant,
    formats.gpu_hours,
    formats.signed,
    formats.percent,
    formats.duration,
):
    register.filter(filter_.__name__, filter_)
register.filter("data_size", formats.data_size)
register.filter("day", formats.day)


@register.filter
def iso(at: datetime | str) -> str:
    """Write a time as ISO 8601."""
    return formats.iso(as_time(at))


@register.filter
def counted(count: int, nouns: str) -> str:
    """Write a count with its noun: ``{{ 7|counted:"job" }}``, ``{{ 2|counted:"reply,replies" }}``."""
    return formats.counted(count, *nouns.split(",", 1))


@register.filter
def silent(row: ServerRow) -> str:
    """Write for how long a server has not reported, where that is long."""
    return silent_words(row)


@register.filter
def middle(name: str, most: int) -> str:
    """Write a long name with its middle left out; what uses it shows the whole as a title."""
    return formats.shortened(name, most)


@register.simple_tag
def both_ends(text: str, tail: int) -> SafeString:
    """Write a text that loses its middle where it is longer than its place: its last ``tail`` letters always show.

    The style of ``.fit`` cuts the first part with an ellipsis; the whole text stands in the page and as a title.
    """
    at = len(text) - tail
    if at <= tail:
        return format_html('<span class="fit"><span>{}</span></span>', text)
    word = text.find(" ", at)  # the end begins with a word where one begins in it
    at = word + 1 if 0 <= word < len(text) - tail // 2 else at
    return format_html('<span class="fit" title="{}"><span>{}</span><span>{}</span></span>', text, text[:at], text[at:])


@register.filter
def marked(text: str, letters: str) -> SafeString:
    """Write a text with the letters that were searched for marked where they first stand."""
    at = text.lower().find(letters.lower()) if letters else -1
    if at < 0:
        return format_html("{}", text)
    end = at + len(letters)
    return format_html("{}<mark>{}</mark>{}", text[:at], text[at:end], text[end:])


@register.filter
def key(values: Mapping[str, object], name: str) -> object:
    """Return ``values[name]`` or None."""
    return values.get(name)


@register.simple_tag
def icon(name: str, label: str = "") -> SafeString:
    """Draw a Lucide icon; it is hidden from screen readers unless it has a label."""
    href = f"{static('components/icons.svg')}#{name}"
    if label:
        return format_html(
            '<svg class="i" role="img" aria-label="{}"><title>{}</title><use href="{}"></use></svg>', label, label, href
        )
    return format_html('<svg class="i" aria-hidden="true"><use href="{}"></use></svg>', href)


@register.inclusion_tag("components/badge.html")
def badge(state: str) -> dict[str, object]:
    """Show a job's or server's state as icon and word in its colour."""
    return {"state": state, "look": look(str(state))}


@register.inclusion_tag("components/badge.html")
def server_badge(row: ServerRow) -> dict[str, object]:
    """Show a server's state, with whether a server that drains is done."""
    return badge(row["phase"])


@register.inclusion_tag("components/progress.html")
def progress(
    step: int | None, total_steps: int | None, steps_per_s: float | None = None, tall: bool = False
) -> dict[str, object]:
    """Show how far a job is; no bar when it has not said how far it goes."""
    frac = min(1.0, step / total_steps) if step is not None and total_steps else None
    return {"frac": frac, "step": step, "total_steps": total_steps, "steps_per_s": steps_per_s, "tall": tall}


class QuotaShare(TypedDict):
    """What a quota bar shows of a queue; its row has more."""

    held_gpus: int
    quota_gpus: int | None


@register.inclusion_tag("components/quota_bar.html", takes_context=True)
def quota_bar(context: template.Context, share: QuotaShare, scale_gpus: int) -> dict[str, object]:
    """Show what a queue holds against its quota; all bars of a page share ``scale_gpus``."""
    held, quota = int(share["held_gpus"]), share["quota_gpus"]
    borrowed = max(0, held - quota) if quota is not None else 0
    scale = max(1, scale_gpus, held, quota or 0)
    frame = context.get("frame")
    return {
        "share": share,
        "held": held,
        "quota": quota,
        "borrowed": borrowed,
        "unused": max(0, (quota or 0) - held),
        "own_percent": 100 * (held - borrowed) / scale,
        "borrowed_percent": 100 * borrowed / scale,
        "quota_percent": 100 * (quota or 0) / scale,
        "scale": scale,
        "device": frame["device"] if frame else GPUS,
    }


@register.inclusion_tag("components/swatch.html")
def queue_swatch(name: str, color_slot: int | None, link: bool = True) -> dict[str, object]:
    """Show a queue: its colour with its name beside it."""
    return {"name": name, "slot": color_slot or 0, "link": link and bool(color_slot)}


@register.inclusion_tag("components/from_shell.html", takes_context=True)
def shell_ways(context: template.Context) -> dict[str, object]:
    """Show how to ask for the page from a shell; nothing where REST does not tell it at one path."""
    return {"ways": from_shell(context["request"], context.get("rest_filters") or {})}


@register.inclusion_tag("components/sparkline.html")
def sparkline(values: list[float | None]) -> dict[str, object]:
    """Draw a course of values as a line of 64 x 22 with a dot at now; nothing for fewer than two."""
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return {"points": ""}
    low, span = min(known), (max(known) - min(known)) or 1.0
    step = 62 / (len(known) - 1)
    places = [(1 + index * step, 20 - 18 * (value - low) / span) for index, value in enumerate(known)]
    return {"points": " ".join(f"{x:.1f},{y:.1f}" for x, y in places), "x": places[-1][0], "y": places[-1][1]}


@register.simple_tag
def reason_length() -> SafeString:
    """Write how short and how long a reason may be, for its field."""
    return format_html('minlength="{}" maxlength="{}"', *REASON_CHARS)


@register.simple_tag
def ago(at: datetime | str | None, missing: str = "never") -> SafeString:
    """Write a time as its distance from now, kept up to date by a script, with the exact time on hover."""
    if at is None:
        return format_html("{}", missing)
    at = as_time(at)
    return format_html(
        '<time datetime="{}" title="{}" data-time="ago">{}</time>',
        formats.iso(at),
        formats.iso(at),
        formats.relative(at, now_utc()),
    )


@register.simple_tag
def countdown(at: datetime | None) -> SafeString:
    """Write how long it is until a time as ``1:12``; a script counts it down."""
    if at is None:
        return format_html('<time data-time="{}"></time>', "countdown")
    left_s = max(0, round((at - now_utc()).total_seconds()))
    text = formats.duration(left_s) if left_s >= 3600 else f"{left_s // 60}:{left_s % 60:02d}"
    return format_html('<time datetime="{}" data-time="countdown">{}</time>', formats.iso(at), text)


@register.simple_tag
def since(at: datetime | str) -> SafeString:
    """Write how long something has lasted; a script counts on."""
    at = as_time(at)
    lasted_s = max(0.0, (now_utc() - at).total_seconds())
    return format_html('<span data-since="{}">{}</span>', formats.iso(at), formats.duration(float(int(lasted_s))))


@register.simple_tag(takes_context=True)
def clock(context: template.Context, at: datetime | str | None, missing: str = "", seconds: bool = False) -> SafeString:
    """Write a time of day in the reader's zone, with the exact time on hover."""
    if at is None:
        return format_html("{}", missing)
    at = as_time(at)
    text = formats.clock(at, now_utc(), viewer_zone(context["request"]), seconds=seconds)
    return format_html(
        '<time datetime="{}" title="{}" data-time="clock">{}</time>', formats.iso(at), formats.iso(at), text
    )


@register.simple_tag
def devices(word: DeviceWord, count: int) -> str:
    """Write a count of devices: ``{% devices frame.device 8 %}`` is ``8 GPUs`` or ``8 CPU slots``."""
    return word.counted(count)


@register.simple_tag(takes_context=True)
def in_words(context: template.Context, text: object, name: str = "") -> str:
    """Write a sentence of the core with the cluster's word for its devices; before the sign-in as it is.

    ``name`` is one in the sentence that a user gave: it stays as it is.
    """
    frame = context.get("frame")
    word: DeviceWord = frame["device"] if frame else GPUS
    return word.said(str(text), names=[name])


@register.filter
def with_subject(text: str, label: str) -> str:
    """Write an error of a field for a list of several: its label first, once."""
    return text if str(text).startswith((f"{label} ", f'"{label}" ')) else f"{label}: {text}"


@register.filter
def said(text: str, word: DeviceWord) -> str:
    """Write a sentence of the core with the cluster's word for its devices: ``{{ sentence|said:frame.device }}``."""
    return word.said(text)


@register.simple_tag(takes_context=True)
def query(context: template.Context, **changes: object) -> str:
    """Return the page's query string with some parameters set, or left out where the value is empty."""
    parameters = context["request"].GET.copy()
    for name, value in changes.items():
        if value in (None, ""):
            parameters.pop(name, None)
        else:
            parameters[name] = str(value)
    return f"?{parameters.urlencode()}" if parameters else "?"
