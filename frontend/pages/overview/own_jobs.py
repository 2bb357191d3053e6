"""The reader's own jobs on the overview: those that are not over first, then what ended last."""

from datetime import datetime, timedelta
from typing import Any

from frontend.components.formats import clock, counted, duration
from frontend.components.states import look
from frontend.components.times import as_time
from frontend.components.viewer import now_utc
from scheduler.core.lifecycle import TERMINAL, JobState
from scheduler.selectors.jobs import JobFilters, job_list, job_row
from scheduler.selectors.visibility import Actor

MOST = 6
ORDER = [
    JobState.RUNNING,
    JobState.LAUNCHING,
    JobState.PREEMPTING,
    JobState.SUSPENDING,
    JobState.QUEUED,
    JobState.SUSPENDED,
]


def own_jobs(user: Actor, zone: Any) -> tuple[list[dict[str, Any]], str]:
    """Return at most six rows with what to say about each, and a line that counts all that are not over."""
    username = user.get_username()
    live = list(job_list(user, JobFilters(states=tuple(ORDER), owner=username))[:200])
    live.sort(key=lambda job: (ORDER.index(JobState(job.state)), -job.number))
    over = job_list(user, JobFilters(states=tuple(sorted(TERMINAL)), owner=username))[: max(0, MOST - len(live))]
    rows = [{**job_row(job), "when": ""} for job in [*live[:MOST], *over]]
    for row in rows:
        row["when"] = when(row, now_utc(), zone)
    counts = {state: sum(job.state == state for job in live) for state in ORDER}
    words = [f"{count} {look(state).word.lower()}" for state, count in counts.items() if count]
    return rows, " · ".join(words) if words else (counted(len(rows), "job") if rows else "")


def when(row: dict[str, Any], now: datetime, zone: Any) -> str:
    """Return when the job will end, how long it has waited, or when it ended."""
    changed = as_time(row["state_changed_at"])
    if row["state"] == JobState.RUNNING:
        step, total, rate = row["step"], row["total_steps"], row["steps_per_s"]
        if step is not None and total and rate and total > step:
            return f"Ends about {clock(now + timedelta(seconds=(total - step) / rate), now, zone)}"
        return f"Runs for {duration((now - changed).total_seconds())}"
    if row["state"] == JobState.QUEUED:
        return f"Waits for {duration(max(0.0, (now - changed).total_seconds()))}"
    return clock(changed, now, zone)
