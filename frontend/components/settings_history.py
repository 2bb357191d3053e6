"""The newest changes of the scheduler's settings: which version each made, of what, and for how long that is told."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from scheduler.models import Event
from scheduler.services.cluster.settings import FIELDS, cluster_row, settings_of
from scheduler.simulator.study.variants import ARM_FIELDS

# After that a change is no news any more.
TOLD_FOR = timedelta(minutes=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsVersion:
    """One change.

    Attributes:
        event: Its entry in the audit list.
        version: Of the settings that it made.
        before, after: All settings.
        restored: The version that was chosen again; None where it is no restore, or one of what is not looked at.
        scenario, variant: Of the what-if that was applied; empty and None where none was.
    """

    event: int
    version: int
    at: datetime
    by: str
    why: str
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    restored: int | None
    scenario: str
    variant: int | None

    @property
    def decides(self) -> bool:
        """Return whether it changed how rounds decide, and not only a pause or a limit."""
        return any(self.before[name] != self.after[name] for name in ARM_FIELDS if name in self.after)

    def is_told(self, now: datetime) -> bool:
        """Return whether it is young enough to be told as news."""
        return now - self.at < TOLD_FOR


def settings_history(most: int) -> list[SettingsVersion]:
    """Return the newest changes, newest first; each is undone to know what held before it."""
    cluster = cluster_row()
    events = list(Event.objects.filter(kind="settings").order_by("-pk")[:most])
    # A restore keeps when the change was made that it undid; what held before that is the version below it.
    before_change = {event.at.isoformat(): cluster.settings_version - back - 1 for back, event in enumerate(events)}
    after, found = settings_of(cluster), []
    for back, event in enumerate(events):
        before = after | {name: value for name, value in event.data.get("before", {}).items() if name in FIELDS}
        found.append(
            SettingsVersion(
                event=event.pk,
                version=cluster.settings_version - back,
                at=event.at,
                by=event.actor,
                why=event.data.get("reason", "").rstrip("."),
                before=before,
                after=after,
                restored=before_change.get(event.data.get("restored", "")),
                scenario=event.data.get("scenario", ""),
                variant=event.data.get("variant"),
            )
        )
        after = before
    return found


def version_before(event: Event) -> int:
    """Return the version of the settings that held before a change of them; every change makes one."""
    return cluster_row().settings_version - Event.objects.filter(kind="settings", pk__gte=event.pk).count()
