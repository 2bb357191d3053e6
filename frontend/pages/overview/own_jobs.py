"""The user's own jobs on the overview: open jobs first, then the jobs that ended last."""

from datetime import datetime, tzinfo

from django.db.models import Case, Count, Value, When

from frontend.components.devices import DeviceWord
from frontend.components.formats import clock, duration, number, whole_s
from frontend.components.happenings import CAUSES
from frontend.components.states import look
from frontend.components.times import as_time
from frontend.components.viewer import now_utc
from scheduler.core.model.lifecycle import TERMINAL, WAITING, JobState
from scheduler.core.operations.time_left import moment_after, time_left_s
from scheduler.selectors.jobs.listing import JobFilters, job_list, job_row
from scheduler.selectors.jobs.rows import JobRow
from scheduler.selectors.visibility import Actor

MOST = 6
ORDER = [
    JobState.RUNNING,
    JobState.PARKED,
    JobState.LAUNCHING,
    JobState.PREEMPTING,
    JobState.SUSPENDING,
    JobState.QUEUED,
    JobState.SUSPENDED,
]
PLACE = Case(*(When(state=state, then=Value(place)) for place, state in enumerate(ORDER)))


class OwnJobRow(JobRow):
    """A job with what the page says of it: why it waits or how it ended, and when."""

    what: str
    when: str


def own_jobs(user: Actor, zone: tzinfo, device: DeviceWord) -> tuple[list[OwnJobRow], str]:
    """Return at most six rows with what to say about each, and a line that counts all that are not over."""
    username = user.get_username()
    live = job_list(user, JobFilters(states=tuple(ORDER), owner=username))
    first = list(live.order_by(PLACE, "-number")[:MOST])
    over = job_list(user, JobFilters(states=tuple(sorted(TERMINAL)), owner=username))[: MOST - len(first)]
    now = now_utc()
    plain = [job_row(job) for job in [*first, *over]]
    rows: list[OwnJobRow] = [{**row, "what": device.said(what(row)), "when": when(row, now, zone)} for row in plain]
    counts = dict(live.order_by().values_list("state").annotate(Count("pk")))
    words = [f"{number(counts[state])} {look(state).word.lower()}" for state in ORDER if state in counts]
    return rows, " · ".join(words) if words else ("none runs or waits" if rows else "")


def what(row: JobRow) -> str:
    """Return why a job waits, or how it ended; nothing while it runs."""
    if row["wait_sentence"]:
        return str(row["wait_sentence"])
    if row["end_detail"]:
        return str(row["end_detail"])
    if row["state"] == JobState.COMPLETED and row["ended_at"]:
        return f"Took {duration((as_time(row['ended_at']) - as_time(row['submitted_at'])).total_seconds())}"
    step = f" at step {number(row['step'])}" if row["step"] is not None else ""
    return f"{CAUSES.get(row['end_cause'], look(row['state']).word).capitalize()}{step}" if row["ended_at"] else ""


def when(row: JobRow, now: datetime, zone: tzinfo) -> str:
    """Return when the job will end, how long it has waited, or when it ended."""
    changed = as_time(row["state_changed_at"])
    if row["state"] == JobState.RUNNING:
        left_s = time_left_s(step=row["step"], total_steps=row["total_steps"], steps_per_s=row["steps_per_s"])
        at = moment_after(now, left_s)
        if row["step"] is not None and left_s > 0 and at is not None:
            return f"Ends about {clock(at, now, zone)}"
        return f"Runs for {duration(whole_s((now - changed).total_seconds()))}"
    if row["state"] in WAITING:
        return f"Waits for {duration(whole_s((now - changed).total_seconds()))}"
    return clock(changed, now, zone)
