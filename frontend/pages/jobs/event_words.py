"""What happened to a job, as icon, words and details: one line an event."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from frontend.components.formats import data_size, duration, number
from frontend.components.states import look
from frontend.components.times import as_time
from frontend.pages.jobs.why import WORDS
from scheduler.core.reasons import sentence

DONE = {"cancel": "asked to cancel it", "suspend": "asked to suspend it", "resume": "asked to resume it"}
Row = dict[str, Any]  # JSON of event_row


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """One event for a table."""

    number: int | None
    at: datetime
    tone: str
    icon: str
    words: str
    reason: str
    actor: str
    details: str


def happening(row: Row) -> Happening:
    """Return one event in words."""
    tone, icon, words = _words(row)
    return Happening(
        number=row["number"],
        at=as_time(row["at"]),
        tone=tone,
        icon=icon,
        words=words,
        reason=row["reason"],
        actor=row["actor"],
        details=", ".join(f"{key.replace('_', ' ')} {_value(key, value)}" for key, value in row["data"].items()),
    )


def _words(row: Row) -> tuple[str, str, str]:
    if row["kind"] == "job_state":
        state = look(row["new_state"])
        return state.tone, state.icon, _moved(row, state.word)
    if row["kind"] == "job_wait":
        words, tone = WORDS.get(row["reason"], ("", "mute"))
        return tone, "hourglass", _wait_sentence(row) or words
    if row["kind"] == "job_wanted":
        return "mute", "user", f"{row['actor']} {DONE.get(row['reason'], row['reason'])}"
    return "mute", "info", row["kind"].replace("_", " ").capitalize()


def _moved(row: Row, word: str) -> str:
    if not row["old_state"]:
        return "Submitted"
    return f"{word}, was {look(row['old_state']).word.lower()}"


def _wait_sentence(row: Row) -> str:
    try:
        return sentence(row["reason"], row["data"])
    except ValueError:  # a reason of another release
        return ""


def _value(key: str, value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        if key.endswith("_s"):
            return duration(value)
        return data_size(value) if key.endswith("_bytes") else number(value, 0 if value == int(value) else 2)
    return str(value)[:200]
