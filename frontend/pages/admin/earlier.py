"""Earlier settings of the scheduler, each of which can be chosen again."""

from datetime import datetime
from typing import TypedDict

from frontend.components.settings_history import settings_history
from frontend.pages.admin.settings_form import SECONDS_LABELS, SECTIONS, VOLUME_LABELS
from scheduler.services.cluster.settings import FIELDS, cluster_row, settings_of

SHOWN = 10
# What settings are called in the middle of a sentence.
CALLED: dict[str, str] = {
    **{name: label[0].lower() + label[1:] for name, label in (*VOLUME_LABELS, *SECONDS_LABELS)},
    **{str(kind): label.lower() for kind, label, _ in SECTIONS},
    **{f"{kind}_options": f"options of the {label.lower()}" for kind, label, _ in SECTIONS},
}


class EarlierSettings(TypedDict):
    """What was chosen before a change: until when, in words, and what the settings that differ now are called."""

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
        differ = [name for name in FIELDS if then[name] != now[name] and name != "paused"]
        if differ:
            found.append(
                {
                    "event": change.event,
                    "version": change.version - 1,
                    "until": change.at,
                    "by": change.by,
                    "words": " · ".join((then["policy"], then["locality"], then["mechanism"], *then["introspection"])),
                    "differ": [CALLED[name] for name in differ],
                }
            )
    return found
