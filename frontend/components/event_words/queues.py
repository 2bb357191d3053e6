"""Changes of queues: quotas and requests for them, limits, budgets, members, fairness."""

from frontend.components.event_words.said import SUBJECT, Said, why_of
from frontend.components.formats import counted, data_size, day, duration, number
from scheduler.selectors.rows import EventRow


def quota_words(row: EventRow) -> Said:
    """Return the words of ``quota``."""
    after = row["data"].get("after", {})
    words = f"{row['actor']} set the quota of {SUBJECT} to {after.get('quota_gpus', '')}{why_of(row)}."
    return "info", "arrow-left-right", words


def quota_request_words(row: EventRow) -> Said:
    """Return the words of ``quota_request``."""
    data = row["data"]
    until = f" until {day(data['until'])}" if data.get("until") else ""
    asks = "now asks" if row["reason"] == "change" else "asks"
    words = f"{row['actor']} {asks} for a quota of {data.get('quota_gpus')} for {SUBJECT}{until}{why_of(row)}."
    return "warn", "arrow-left-right", words


def quota_answer_words(row: EventRow) -> Said:
    """Return the words of ``quota_answer``."""
    user, data = row["data"].get("user", ""), row["data"]
    if row["reason"] == "grant":
        words = (
            f"{row['actor']} granted {user}'s request: {SUBJECT} has a quota of {data.get('given_gpus')}{why_of(row)}."
        )
        return "ok", "check", words
    return "mute", "x", f"{row['actor']} refused {user}'s request for {SUBJECT}{why_of(row)}."


def user_limits_words(row: EventRow) -> Said:
    """Return the words of ``user_limits``."""
    after = row["data"].get("after", {})
    gpus, queued = after.get("user_max_gpus"), after.get("user_max_queued")
    parts = [*([f"hold {counted(gpus, 'GPU')}"] if gpus else []), *([f"have {queued} queued"] if queued else [])]
    what = f"lets each user of {SUBJECT} {' and '.join(parts)} at most" if parts else f"lifted the limits of {SUBJECT}"
    return "info", "users", f"{row['actor']} {what}{why_of(row)}."


def idle_rule_words(row: EventRow) -> Said:
    """Return the words of ``idle_rule``."""
    after = row["data"].get("after", {})
    after_s = after.get("idle_after_s")
    acts = {"suspend": "suspend", "cancel": "cancel"}.get(after.get("idle_action", ""), "tell of")
    what = f"{acts} jobs that use no GPU for {duration(after_s)}" if after_s else "no longer look for idle jobs"
    return "info", "hourglass", f"{row['actor']} lets {SUBJECT} {what}{why_of(row)}."


def isolation_words(row: EventRow) -> Said:
    """Return the words of ``isolation``."""
    what = {
        "files": "only where jobs of other queues cannot open their files",
        "user": "only where they have a user of their own",
        "full": "only where they have a user of their own and open their own files alone",
    }.get(row["data"].get("after", {}).get("isolation", ""), "on every server")
    return "info", "layers", f"{row['actor']} lets jobs of {SUBJECT} start {what}{why_of(row)}."


def kept_files_words(row: EventRow) -> Said:
    """Return the words of ``kept_files``."""
    after = row["data"].get("after", {})
    most = after.get("directories_most_bytes")
    room = f", at most {data_size(most)} of them" if most else ""
    days = counted(after.get("keep_directories_days", 0), "day")
    words = f"{row['actor']} lets {SUBJECT} keep the files of ended jobs for {days}{room}{why_of(row)}."
    return "info", "trash-2", words


def fairness_over_words(row: EventRow) -> Said:
    """Return the words of ``fairness_over``."""
    rho, limit = row["data"].get("rho"), row["data"].get("limit")
    words = f"{SUBJECT}'s jobs take {rho:.2g} times their fair time (limit {limit:g})."
    return "warn", "triangle-alert", words


def membership_words(row: EventRow) -> Said:
    """Return the words of ``membership``."""
    user, after = row["data"].get("user", ""), row["data"].get("after")
    if after is None:
        return "mute", "users", f"{row['actor']} removed {user} from {SUBJECT}."
    if after == "member" and not row["data"].get("before"):
        return "mute", "users", f"{row['actor']} added {user} to {SUBJECT}."
    return "mute", "users", f"{row['actor']} made {user} {after} of {SUBJECT}."


def budget_words(row: EventRow) -> Said:
    """Return the words of ``budget``."""
    amount, month = row["data"].get("after", {}).get("budget"), row["data"].get("month", "")
    what = "no budget" if amount is None else f"a budget of {number(amount)} a month"
    return "info", "gauge", f"{row['actor']} gave {SUBJECT} {what} from {month} on{why_of(row)}."
