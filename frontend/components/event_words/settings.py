"""What pages call the settings of the scheduler, and a change of them in words."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from frontend.components.event_words.options import (
    default_said,
    exact_duration,
    exact_number,
    option_label,
    option_said,
)
from frontend.components.event_words.said import Said, why_of
from frontend.components.formats import NBSP, counted, data_size
from scheduler.choices import ChoiceKind
from scheduler.selectors.rows import EventRow

KIND_LABELS: dict[ChoiceKind, str] = {
    "policy": "Policy",
    "locality": "Locality",
    "mechanism": "Mechanism",
    "introspection": "Introspection",
}
VOLUME_LABELS = (
    ("user_most_queued", "Jobs that a user may have queued"),
    ("spec_most_bytes", "Size of a spec, files included"),
    ("experiment_most_jobs", "Jobs of an experiment"),
    ("code_most_bytes", "Size of a sent folder"),
    ("code_most_files", "Files of a sent folder"),
)
SECONDS_LABELS = (
    ("min_run_s", "Least run in seconds"),
    ("smoke_run_s", "Seconds that a job of several devices runs on one first"),
)
# What settings are called in the middle of a sentence.
CALLED: dict[str, str] = {
    **{str(kind): label.lower() for kind, label in KIND_LABELS.items()},
    **{f"{kind}_options": f"options of the {label.lower()}" for kind, label in KIND_LABELS.items()},
    "min_run_s": "least run",
    "smoke_run_s": "time that a job of several devices runs on one first",
    **{name: label[0].lower() + label[1:] for name, label in VOLUME_LABELS},
    "paused": "pause of scheduling",
}
# How many changes a sentence names.
NAMED_MOST = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingChange:
    """One setting before and after, as text that is called what pages call it."""

    what: str
    before: str
    after: str


def setting_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[SettingChange]:
    """Return what differs, each option on its own; settings that only one side has are left out."""
    return [
        change
        for name in CALLED
        if name in before and name in after and before[name] != after[name]
        for change in _changes(name, before, after)
    ]


def _changes(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[SettingChange]:
    old, new, kind = before[name], after[name], name.removesuffix("_options")
    if name == "introspection_options":
        for one in sorted({*old, *new}):
            yield from _options("introspection", (one, one), old.get(one, {}), new.get(one, {}))
    elif name.endswith("_options"):
        chosen = (before.get(kind, ""), after.get(kind, ""))
        if chosen[0] == chosen[1]:
            yield from _options(kind, chosen, old, new)
        else:
            yield from _options(kind, (chosen[0], chosen[0]), old, None)
            yield from _options(kind, (chosen[1], chosen[1]), None, new)
    else:
        yield SettingChange(what=CALLED[name], before=setting_said(name, old), after=setting_said(name, new))


def _options(
    kind: str, chosen: tuple[str, str], old: Mapping[str, Any] | None, new: Mapping[str, Any] | None
) -> Iterator[SettingChange]:
    """Return the options that differ; None stands for a choice that is not made."""
    for name in {**(old or {}), **(new or {})}:
        sides = [
            "not chosen"
            if side is None
            else option_said(name, side[name])
            if name in side
            else default_said(kind, which, name)
            for which, side in zip(chosen, (old, new), strict=True)
        ]
        if sides[0] != sides[1]:
            label = option_label(name)
            what = f"{label[0].lower()}{label[1:]} of {chosen[1] or f'the {kind}'}"
            yield SettingChange(what=what, before=sides[0], after=sides[1])


def setting_said(name: str, value: Any) -> str:  # any JSON value of a setting
    """Return the value of a setting that is no set of options, with its unit."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(str(one) for one in value) or "none"
    if isinstance(value, int | float):
        if name.endswith("_bytes"):
            return data_size(value)
        return exact_duration(value) if name.endswith("_s") else exact_number(value)
    return value if isinstance(value, str) else f"another{NBSP}value"


def settings_words(row: EventRow) -> Said:
    """Return the words for a change of the settings, or for a pause."""
    before, after = row["data"].get("before", {}), row["data"].get("after", {})
    if "paused" in after:
        if after["paused"]:
            return "warn", "pause", f"{row['actor']} paused scheduling{why_of(row)}."
        return "info", "play", f"{row['actor']} let scheduling go on{why_of(row)}."
    parts = [f"{one.what} from {one.before} to {one.after}" for one in setting_changes(before, after)]
    if len(parts) > NAMED_MOST:
        parts = [*parts[:NAMED_MOST], counted(len(parts) - NAMED_MOST, "more setting")]
    why = f": {row['data']['reason']}" if row["data"].get("reason") else "."
    after_what_if = f" after the what-if {row['data']['scenario_name']}" if row["data"].get("scenario_name") else ""
    return "info", "settings", f"{row['actor']} changed {', '.join(parts) or 'the settings'}{after_what_if}{why}"
