"""What users do with the files of jobs."""

from frontend.components.event_words.said import SUBJECT, Said
from frontend.components.formats import day
from scheduler.selectors.rows import EventRow


def directory_kept_words(row: EventRow) -> Said:
    """Return the words of ``directory_kept``."""
    return "mute", "folder", f"{row['actor']} keeps the files of {SUBJECT} {kept_longer(row)}."


def kept_longer(row: EventRow) -> str:
    """Return until when, as the end of a sentence."""
    data = row["data"]
    until = data["day"] if "day" in data else (data["keep_until"]["after"] or "")[:10]  # the first events had no day
    return f"until {day(until)}" if until else "only as long as its queue does"
