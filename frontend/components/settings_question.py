"""The question before the settings of the scheduler change: what differs, and what a round made now would do."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.http import HttpRequest

from frontend.components.devices import DeviceWord, device_word
from frontend.components.event_words.settings import SettingChange, setting_changes
from frontend.components.formats import counted
from frontend.components.viewer import now_utc
from scheduler.core.model.errors import SpecInvalid
from scheduler.selectors.cluster.servers import device_kinds
from scheduler.services.cluster.settings import cluster_row, settings_checked, settings_of
from scheduler.whatif.next_round import Affected, NextRound, next_round

UNKNOWN = {
    "paused": "Scheduling is paused: these settings hold from the first round after it goes on. What that round would "
    "preempt is not known.",
    "refused": "What the next round would preempt is not known: a plan made now with these settings breaks a rule, and "
    "such a plan is not applied.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsQuestion:
    """What a form asks before it changes settings.

    Attributes:
        names: Policy, locality and mechanism after the change.
        version: Of the settings that the answer is about.
        changes: Empty where they are in force already.
        sentence: What a round made now would do, or why that is not known.
        round: The same, with its jobs.
        at: When that round was planned.
    """

    names: str
    version: int
    changes: list[SettingChange]
    sentence: str
    round: NextRound
    at: datetime


def settings_question(request: HttpRequest, *, changes: Mapping[str, Any]) -> SettingsQuestion:
    """Return the question about a change of settings.

    Args:
        changes: As ``settings_change`` takes them.

    Raises:
        NotAllowed, SpecInvalid: As ``settings_change``.
    """
    at, cluster = now_utc(), cluster_row()
    before = settings_of(cluster)
    found = next_round(actor=request.user, changes=changes, at=at)
    after, device = settings_checked(before, changes), device_word(device_kinds(request.user))
    return SettingsQuestion(
        names=" · ".join((after["policy"], after["locality"], after["mechanism"])),
        version=cluster.settings_version,
        changes=[
            replace(
                change,
                what=device.said(change.what),
                before=device.said(change.before),
                after=device.said(change.after),
            )
            for change in setting_changes(before, after)
        ],
        sentence=round_sentence(found, device),
        round=found,
        at=at,
    )


def reason_missing(error: SpecInvalid) -> str:
    """Return what is wrong with the reason, where nothing else is; empty where something else is."""
    is_reason = all(entry.pointer == "/reason" for entry in error.errors)
    return " ".join(f"Why{entry.detail.removeprefix('reason')}" for entry in error.errors) if is_reason else ""


def round_sentence(found: NextRound, device: DeviceWord) -> str:
    """Return what a round made now would do, or why that is not known."""
    if found.unknown:
        return UNKNOWN[found.unknown]
    stops, starts = found.preempted, found.starts
    said = f"would preempt {_jobs(stops, 'hold', device)} and start {_jobs(starts, 'get', device)}."
    parts = [f"These settings hold from the next round. A round made now with them {said}"]
    if found.elsewhere:
        of_them = "It goes" if stops.count == 1 else f"{found.elsewhere} of the preempted jobs go"
        parts.append(f"{of_them} on elsewhere in the same round.")
    if found.resized:
        parts.append(f"{counted(found.resized, 'running job')} would go on with another number of {device.many}.")
    if stops.count or found.preempted_anyway:
        parts.append(f"With the settings in force it would preempt {_count(found.preempted_anyway)}.")
    return " ".join(parts)


def _jobs(jobs: Affected, verb: str, device: DeviceWord) -> str:
    if not jobs.count:
        return "no job"
    holds = f"{verb}s" if jobs.count == 1 else verb
    return f"{counted(jobs.count, 'job')} that {holds} {device.counted(jobs.num_gpus)}"


def _count(count: int) -> str:
    return counted(count, "job") if count else "none"
