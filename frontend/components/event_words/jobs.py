"""What becomes of the files of jobs, and of their GPUs while they run."""

from frontend.components.event_words.said import SUBJECT, Said
from frontend.components.formats import counted, day, duration
from scheduler.selectors.rows import EventRow


def directory_kept_words(row: EventRow) -> Said:
    """Return the words of ``directory_kept``."""
    return "mute", "folder", f"{row['actor']} keeps the files of {SUBJECT} {kept_longer(row)}."


def kept_longer(row: EventRow) -> str:
    """Return until when, as the end of a sentence."""
    data = row["data"]
    until = data["day"] if "day" in data else (data["keep_until"]["after"] or "")[:10]  # the first events had no day
    return f"until {day(until)}" if until else "only as long as its queue does"


def resized_words(row: EventRow) -> Said:
    """Return the words of ``job_resized``: GPUs more or fewer, or the switch of its processes to them."""
    before, now, pause_s = (row["data"].get(name) for name in ("gpus_before", "gpus", "pause_s"))
    size = "" if now is None else f" {counted(now, 'GPU')}"
    if row["reason"] == "switched":
        pause = "" if pause_s is None else f", after a pause of {duration(pause_s)}"
        return "info", "check", f"trains on{size or ' its new GPUs'} now{pause}."
    if row["reason"] == "left":
        return "info", "log-out", f"has{size} left of {before}: the process of one has ended."
    if before is None or now is None or before == now:
        return "info", "settings", f"changes{size or ' its GPUs'}: the policy shares them out anew."
    verb = "grows" if now > before else "shrinks"
    return "info", "settings", f"{verb} from {before} to{size}: the policy shares them out anew."


def restored_words(row: EventRow) -> Said:
    """Return the words of ``job_restored``."""
    attempt = row["data"].get("attempt")
    which = "an attempt" if attempt is None else f"attempt {attempt}"
    return "warn", "triangle-alert", f"lost {which} to a restored backup, which is older than its start."
