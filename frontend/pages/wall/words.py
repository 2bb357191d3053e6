"""Sentences of the wall: one headline, what is free, why jobs wait, what happened. ``causes.py`` has the causes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo

from frontend.components.devices import DeviceWord
from frontend.components.formats import clock, counted, number
from frontend.components.happenings import Happening, happenings
from frontend.components.times import as_time
from frontend.pages.wall.causes import why_failed, why_preempted, why_waits
from scheduler.core.model.lifecycle import JobState
from scheduler.selectors.cluster.next_free import NextFreeRow
from scheduler.selectors.cluster.rows import ClusterFrame, QueueShareRow
from scheduler.selectors.rows import EventRow
from scheduler.selectors.wall import WallLine, WallWaiting

BAD_CODE = "This code opens no wall. It may have been revoked: ask an admin for another link."
NEWS_STATES = (JobState.LAUNCHING, JobState.PREEMPTING, JobState.COMPLETED, JobState.FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """The title of the wall: the finding, with the name that it may be about, and what follows."""

    bold: str
    soft: str
    name: str = ""


def headline(
    frame: ClusterFrame, news: Sequence[Happening], rows: Sequence[EventRow], since: datetime, device: DeviceWord
) -> Headline:
    """Return the newest start or preemption of the last two rounds; else how full the cluster is."""
    waiting = frame["waiting_jobs"]
    waits = f"and {counted(waiting, 'job')} {'waits' if waiting == 1 else 'wait'}" if waiting else "and no job waits"
    if not frame["num_gpus"]:
        return Headline(bold="No server has reported yet", soft="")
    for told, row in zip(news, rows, strict=True):
        if row["new_state"] in (JobState.PREEMPTING, JobState.LAUNCHING) and told.at >= since:
            return Headline(name=told.subject, bold=told.words.rstrip("."), soft=waits)
    usable = frame["usable_gpus"]
    verb = "is" if frame["allocated_gpus"] == 1 == usable else "are"
    return Headline(bold=f"{number(frame['allocated_gpus'])} of {device.counted(usable)} {verb} allocated", soft=waits)


def news_of(rows: Sequence[EventRow], takers: Mapping[int, str], device: DeviceWord, *, names: bool) -> list[Happening]:
    """Return what happened in short, without names of jobs where they are not to be shown.

    ``takers``: the queue that got the GPUs of a preempted job, by event.
    """
    shown = [row if names else _nameless(row) for row in rows]
    told = zip(shown, happenings(shown, device), strict=True)
    return [replace(one, href="", words=_short(row, takers, device) or one.words) for row, one in told]


def _short(row: EventRow, takers: Mapping[int, str], device: DeviceWord) -> str:
    """Return the words of an event whose sentence would be too long for a line; empty for others."""
    if row["new_state"] == JobState.PREEMPTING:
        by = takers.get(row["id"], "")
        cause = why_preempted(row["reason"], by=by, own=row["queue"] or "")
        return f" is preempted: {device.said(cause, names=[by])}."
    if row["new_state"] == JobState.FAILED:
        return f" failed: {why_failed(row['reason'], row['data'].get('exit_code'))}."
    return " is lost: its jobs wait again." if row["new_state"] == "lost" else ""


def is_news(row: EventRow) -> bool:
    """Return whether the wall tells of an event: what jobs and servers did, never what a person did."""
    if row["kind"] == "job_state":
        return row["new_state"] in NEWS_STATES
    return row["kind"] == "server_state" and row["new_state"] in ("up", "lost") and row["actor"] == "scheduler"


def _nameless(row: EventRow) -> EventRow:
    return {**row, "job_name": job_name("", row["queue"] or "", names=False)} if row["job_number"] else row


def job_name(name: str, queue: str, *, names: bool) -> str:
    """Return the name of a job, or only whose it is."""
    return name if names else f"a job of {queue}" if queue else "a job"


def line_title(line: WallLine, frame: ClusterFrame, device: DeviceWord) -> tuple[str, str]:
    """Return the title of the list: how many jobs wait, and for how many devices."""
    if not line["jobs"]:
        return "No job waits", f"{device.counted(frame['free_gpus'])} free" if frame["num_gpus"] else ""
    verb = "waits" if line["jobs"] == 1 else "wait"
    return f"{counted(line['jobs'], 'job')} {verb}", f"for {device.counted(line['gpus'])}"


def why_words(row: WallWaiting, device: DeviceWord) -> str:
    """Return the second line of a job that waits: why it was preempted just now, else why it waits."""
    by, own = row["preempted_by_queue"], row["queue"]
    if row["preempted_rule"]:
        return device.said(why_preempted(row["preempted_rule"], by=by, own=own), names=[by])
    return why_waits(row["reason"], row["evidence"])


def starts_words(row: WallWaiting, now: datetime, zone: tzinfo) -> str:
    """Return when a job starts; empty where that is not known."""
    return clock(as_time(row["starts_at"]), now, zone) if row["starts_at"] else ""


def shares_title(shares: Sequence[QueueShareRow], device: DeviceWord) -> str:
    """Return which queue borrows most, or that none does."""
    most = max(shares, key=lambda share: share["borrowed_gpus"], default=None)
    if most is None:
        return "No queue yet"
    if not most["borrowed_gpus"]:
        return "No queue borrows"
    return f"{most['name']} borrows {device.counted(most['borrowed_gpus'])}"


def day_and_time(text: str) -> tuple[str, str]:
    """Return what stands before the last word of a time, for the small line, and the rest."""
    day, _, time = text.rpartition(" ")
    return day, time


def next_free_words(row: NextFreeRow | None, *, names: bool) -> str:
    """Return which server is free next, and whose end it waits for."""
    if row is None:
        return "no server says when"
    if row["free_gpus"] == row["num_gpus"]:
        return f"{row['server']} is free"
    last = row["last_job"]
    return f"{row['server']}, when {job_name(last['name'], last['queue'], names=names)} ends" if last else row["server"]


def late_words(frame: ClusterFrame, now: datetime, round_s: float) -> str:
    """Return by how much the next round is late; empty while it is not."""
    due = frame["next_round_at"]
    if due is None or now - as_time(due) < timedelta(seconds=max(5.0, round_s / 10)):
        return ""
    late_s = int((now - as_time(due)).total_seconds())
    return f"Round {number(frame['round'] + 1)} is {late_s // 60}:{late_s % 60:02d} late"
