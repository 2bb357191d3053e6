"""What pages call the settings of the scheduler, and a change of them in words."""

from frontend.components.event_words.said import Said, why_of
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
    **{name: label[0].lower() + label[1:] for name, label in (*VOLUME_LABELS, *SECONDS_LABELS)},
    **{str(kind): label.lower() for kind, label in KIND_LABELS.items()},
    **{f"{kind}_options": f"options of the {label.lower()}" for kind, label in KIND_LABELS.items()},
    "paused": "pause of scheduling",
}


def settings_words(row: EventRow) -> Said:
    """Return the words for a change of the settings, or for a pause."""
    before, after = row["data"].get("before", {}), row["data"].get("after", {})
    if "paused" in after:
        if after["paused"]:
            return "warn", "pause", f"{row['actor']} paused scheduling{why_of(row)}."
        return "info", "play", f"{row['actor']} let scheduling go on{why_of(row)}."
    parts = [f"{name} from {before.get(name)} to {value}" for name, value in after.items() if isinstance(value, str)]
    parts = parts or [CALLED.get(name, name.replace("_", " ")) for name in after]
    why = f": {row['data']['reason']}" if row["data"].get("reason") else "."
    after_what_if = f" after the what-if {row['data']['scenario_name']}" if row["data"].get("scenario_name") else ""
    return "info", "settings", f"{row['actor']} changed {', '.join(parts)}{after_what_if}{why}"
