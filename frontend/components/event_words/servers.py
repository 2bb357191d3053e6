"""What becomes of servers."""

from frontend.components.event_words.said import SUBJECT, Said, why_of
from frontend.components.formats import joined, number
from frontend.components.states import look
from scheduler.selectors.rows import EventRow


def server_state_words(row: EventRow) -> Said:
    """Return the words of ``server_state``."""
    state, detail = look(row["new_state"]), row["data"].get("detail", "")
    if row["reason"] == "register":
        return "mute", "server", f"{row['actor']} added {SUBJECT}."
    why = f": {detail}" if detail else ""
    words = {
        "up": "is up.",
        "draining": f"{row['actor']} drained {SUBJECT}{why}.",
        "lost": "is lost: no report for too long. Its jobs wait again.",
    }
    if row["reason"] == "undrain":
        return state.tone, "server", f"{row['actor']} undrained {SUBJECT}{why}."
    return state.tone, "server" if row["new_state"] == "up" else state.icon, words.get(row["new_state"], "joins.")


def server_size_words(row: EventRow) -> Said:
    """Return the words of ``server_size``."""
    if row["reason"] == "confirmed":
        return "ok", "check", f"{row['actor']} confirmed the size of {SUBJECT}{why_of(row)}."
    cores = (
        f"{number(row['data']['claimed']['num_cpus'])} CPU cores after {number(row['data']['believed']['num_cpus'])}"
    )
    return "warn", "triangle-alert", f"reports a size that is not believed: {cores}. An admin may confirm it."


def server_mix_words(row: EventRow) -> Said:
    """Return the words of ``server_mix``."""
    allowed = row["data"].get("after", {}).get("may_mix_queues")
    what = "jobs of several queues" if allowed else "jobs of one queue alone"
    return "info", "layers", f"{row['actor']} lets {SUBJECT} take {what} where nothing keeps them apart{why_of(row)}."


def server_change_words(row: EventRow) -> Said:
    """Return the words of ``server_change``."""
    before, after = row["data"].get("before", {}), row["data"].get("after", {})
    parts = []
    if before.get("name") != after.get("name"):
        parts.append(f"renamed {SUBJECT} from {before.get('name')} to {after.get('name')}")
    if before.get("labels") != after.get("labels"):
        labels = joined(after.get("labels", []))
        it = "it" if parts else SUBJECT
        parts.append(f"labelled {it} {labels}" if labels else f"took the labels of {it} away")
    return "mute", "server", f"{row['actor']} {' and '.join(parts)}{why_of(row)}."


def server_removal_words(row: EventRow) -> Said:
    """Return the words of ``server_removal``."""
    return (
        "mute",
        "trash-2",
        f"{row['actor']} removed the server {SUBJECT if row['server'] else row['data'].get('name', '')}{why_of(row)}.",
    )
