"""One event of a job as a line of its table: icon, words, details."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from frontend.components.devices import DeviceWord
from frontend.components.event_words.jobs import kept_longer, resized_words, restored_words
from frontend.components.event_words.said import Said
from frontend.components.event_words.trials import trial_words
from frontend.components.formats import data_size, duration, number, percent
from frontend.components.reason_names import reason_name
from frontend.components.states import look
from frontend.components.times import as_time
from scheduler.core.operations.reasons import sentence
from scheduler.selectors.rows import EventRow

_UNITS: dict[str, Callable[[float], str]] = {"_s": duration, "_bytes": data_size, "_frac": percent}
# Their words in the feed begin with the job, which the table leaves out.
_OF_A_RUN: dict[str, Callable[[EventRow], Said]] = {
    "trial": lambda row: trial_words(row["data"]),
    "job_resized": resized_words,
    "job_restored": restored_words,
}
DONE = {"cancel": "asked to cancel it", "suspend": "asked to suspend it", "resume": "asked to resume it"}


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLine:
    """One event for a table."""

    number: int | None
    at: datetime
    tone: str
    icon: str
    words: str
    reason: str
    actor: str
    details: str


def event_line(row: EventRow, device: DeviceWord) -> EventLine:
    """Return one event in words."""
    tone, icon, words = _words(row)
    return EventLine(
        number=row["number"],
        at=as_time(row["at"]),
        tone=tone,
        icon=icon,
        words=device.said(words),
        reason=row["reason"],
        actor=row["actor"],
        details=", ".join(_detail(key, value, device) for key, value in row["data"].items() if value not in (None, "")),
    )


def _removal_words(row: EventRow) -> str:
    """Say who had the files of a job removed, or by which rule."""
    match row["reason"]:
        case "age":
            return "Its files are removed: they were kept as long as its queue keeps files"
        case "limit":
            return "Its files are removed: its queue or its user stored more than it may, and they were the oldest"
        case _:
            return f"{row['actor']} had its files removed"


def _words(row: EventRow) -> tuple[str, str, str]:
    if row["kind"] == "job_state":
        state = look(row["new_state"])
        return state.tone, state.icon, _moved(row, state.word)
    if row["kind"] == "job_wait":
        words, tone = reason_name(row["reason"])
        return tone, "hourglass", _wait_sentence(row) or words
    if row["kind"] == "job_wanted":
        return "mute", "user", f"{row['actor']} {DONE.get(row['reason'], row['reason'])}"
    if row["kind"] == "job_idle":
        return "warn", "hourglass", _idle_sentence(row)
    if row["kind"] == "job_changed":
        what = "its priority" if row["reason"] == "reprioritise" else "what it asks for"
        return "info", "pencil", f"{row['actor']} changed {what}"
    if row["kind"] == "directory_removal":
        return "mute", "trash-2", _removal_words(row)
    if row["kind"] == "files_removal":
        return "mute", "trash-2", f"{row['actor']} had files of it deleted"
    if row["kind"] == "files_not_removed":
        return "warn", "triangle-alert", _not_removed_words(row)
    if row["kind"] == "directory_kept":
        return "mute", "folder", f"{row['actor']} keeps its files {kept_longer(row)}"
    if row["kind"] in _OF_A_RUN:
        tone, icon, words = _OF_A_RUN[row["kind"]](row)
        return tone, icon, words[0].upper() + words[1:]
    return "mute", "info", row["kind"].replace("_", " ").capitalize()


def _not_removed_words(row: EventRow) -> str:
    paths, directory = row["data"].get("paths", ""), row["data"].get("directory", "")
    return (
        f"No server could delete all of {paths} within a day. Ask an admin to look at {directory} in the shared "
        "directory: whether the servers reach it, and whether their agents may change it. Then delete them again"
    )


def _idle_sentence(row: EventRow) -> str:
    verb = {"suspend": "suspended", "cancel": "cancelled"}.get(row["reason"])
    then = f", to be {verb} unless it goes on" if verb else ""
    return f"Has not used its GPUs for {duration(row['data'].get('idle_s'))}{then}"


def _moved(row: EventRow, word: str) -> str:
    if not row["old_state"]:
        return "Submitted"
    return f"{word}, was {look(row['old_state']).word.lower()}"


def _wait_sentence(row: EventRow) -> str:
    try:
        return sentence(row["reason"], row["data"])
    except ValueError:  # a reason of another release
        return ""


def _detail(key: str, value: object, device: DeviceWord) -> str:
    """Return one number of an event with its unit, which is the end of its name: ``needed 8 GPUs``, ``lost 3.2 s``."""
    if isinstance(value, dict) and value.keys() == {"before", "after"}:
        return f"{_spaced(key)} {value['before']} to {value['after']}"
    if isinstance(value, bool):
        return f"{_spaced(key)} {'yes' if value else 'no'}"
    if not isinstance(value, int | float):
        return f"{_spaced(key)} {str(value)[:200]}"
    for ending, write in _UNITS.items():
        if key.endswith(ending):
            return f"{_spaced(key.removesuffix(ending))} {write(value)}"
    if key in ("gpus", "num_gpus"):
        return device.counted(int(value))
    if key.endswith("_gpus"):
        return f"{_spaced(key.removesuffix('_gpus'))} {device.counted(int(value))}"
    return f"{_spaced(key)} {number(value, 0 if value == int(value) else 2)}"


def _spaced(name: str) -> str:
    return name.replace("_", " ")
