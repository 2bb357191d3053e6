"""What became of secrets, as sentences: set, replaced, deleted, used."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from scheduler.models import Event

LOOKS = {
    "set": ("ok", "plus", "added"),
    "replace": ("info", "rotate-ccw", "replaced"),
    "delete": ("bad", "trash-2", "deleted"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedLine:
    """One event; ``job`` is its number with ``J-``, empty for what people did."""

    tone: str
    icon: str
    who: str
    words: str
    job: str
    at: datetime


def secret_lines(events: Iterable[Event]) -> list[FeedLine]:
    """Return the lines of the feed."""
    return [_line(event) for event in events]


def _line(event: Event) -> FeedLine:
    name = str(event.data.get("name", ""))
    if event.reason == "use":
        job = str(event.data.get("used_by", ""))
        words = f"of {event.actor} started with {name}."
        return FeedLine(tone="mute", icon="play", who=job, words=words, job=job, at=event.at)
    if event.reason == "fetch":
        words = f"fetched code from {event.data.get('host', '')} with {name}."
        return FeedLine(tone="mute", icon="download", who=event.actor, words=words, job="", at=event.at)
    tone, icon, verb = LOOKS.get(event.reason, ("mute", "key-round", event.reason))
    return FeedLine(tone=tone, icon=icon, who=event.actor, words=f"{verb} {name}.", job="", at=event.at)
