"""Earlier settings of the scheduler, each of which can be chosen again."""

from datetime import datetime
from typing import TypedDict

from frontend.components.event_words.settings import setting_changes
from frontend.components.settings_history import settings_history
from scheduler.services.cluster.settings import cluster_row, settings_of

SHOWN = 10


class EarlierSettings(TypedDict):
    """What was chosen before a change: until when, in words, and what differs now."""

    event: int
    version: int
    until: datetime
    by: str
    words: str
    differ: list[str]


def earlier_settings() -> list[EarlierSettings]:
    """Return what was chosen before each of the newest changes, newest first; what equals the present is left out."""
    now = settings_of(cluster_row())
    found: list[EarlierSettings] = []
    for change in settings_history(SHOWN):
        then = change.before
        differ = setting_changes(then, {**now, "paused": then["paused"]})
        if differ:
            found.append(
                {
                    "event": change.event,
                    "version": change.version - 1,
                    "until": change.at,
                    "by": change.by,
                    "words": " · ".join((then["policy"], then["locality"], then["mechanism"], *then["introspection"])),
                    "differ": [f"{one.what} ({one.before}, now {one.after})" for one in differ],
                }
            )
    return found
