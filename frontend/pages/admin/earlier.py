"""Earlier settings of the scheduler, each of which can be chosen again."""

from datetime import datetime
from typing import TypedDict

from frontend.pages.admin.settings_form import SECTIONS, SMOKE_RUN_LABEL, VOLUME_LABELS
from scheduler.models import Event
from scheduler.services.cluster.settings import FIELDS, cluster_row, settings_of

SHOWN = 10
# What settings are called in the middle of a sentence.
CALLED: dict[str, str] = {
    **{name: label[0].lower() + label[1:] for name, label in (*VOLUME_LABELS, ("smoke_run_s", SMOKE_RUN_LABEL))},
    **{str(kind): label.lower() for kind, label, _ in SECTIONS},
    **{f"{kind}_options": f"options of the {label.lower()}" for kind, label, _ in SECTIONS},
}


class EarlierSettings(TypedDict):
    """What was chosen before a change: until when, in words, and what the settings that differ now are called."""

    event: int
    until: datetime
    by: str
    words: str
    differ: list[str]


def earlier_settings() -> list[EarlierSettings]:
    """Return what was chosen before each of the newest changes, newest first; what equals the present is left out."""
    now = settings_of(cluster_row())
    then = dict(now)
    found: list[EarlierSettings] = []
    for event in Event.objects.filter(kind="settings").order_by("-pk")[:SHOWN]:
        then |= {name: value for name, value in event.data.get("before", {}).items() if name in FIELDS}
        differ = [name for name in FIELDS if then[name] != now[name] and name != "paused"]
        if differ:
            words = " · ".join((then["policy"], then["locality"], then["mechanism"], *then["introspection"]))
            called = [CALLED[name] for name in differ]
            found.append(
                {
                    "event": event.pk,
                    "until": event.at,
                    "by": event.actor,
                    "words": words,
                    "differ": called,
                }
            )
    return found
