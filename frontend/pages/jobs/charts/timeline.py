"""The course of a job as bars: waiting, attempts, preemptions, in proportion."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from frontend.components.formats import clock, counted, duration, joined, number, whole_s
from frontend.pages.jobs.charts.figures import Gap
from frontend.pages.jobs.subject import Subject
from scheduler.core.model.lifecycle import PREPARING, EndCause, JobState
from scheduler.core.model.plan import WaitReason
from scheduler.selectors.jobs.rows import AttemptRow, ReceiptRow, RunRow, TimelineRow

LABEL_FRAC = 0.16  # of the width; a narrower bar has its words on hover alone
NARROW_FRAC = 0.03
SHORT_S = 600.0  # a shorter course is told with seconds
QUIET_CAUSES = frozenset(
    {
        EndCause.COMPLETED,
        EndCause.PREEMPTED,
        EndCause.SUSPENDED,
        EndCause.CANCELLED,
        EndCause.SMOKE_PASSED,
        EndCause.EARLY_STOPPED,
    }
)

CAUSES: dict[str, str] = {
    EndCause.COMPLETED: "Completed",
    EndCause.PREEMPTED: "Preempted",
    EndCause.SUSPENDED: "Suspended",
    EndCause.CANCELLED: "Cancelled",
    EndCause.EXIT_CODE: "Failed",
    EndCause.SIGNAL: "Ended by a signal",
    EndCause.OUT_OF_MEMORY: "Out of memory",
    EndCause.OUT_OF_DISK: "Out of disk",
    EndCause.COMMAND_NOT_FOUND: "Command could not be run",
    EndCause.SECRET_MISSING: "Secret was not there",
    EndCause.DEPENDENCY: "Waited in vain",
    EndCause.ENVIRONMENT: "No environment",
    EndCause.TIME_LIMIT: "Time limit",
    EndCause.STALLED: "No progress",
    EndCause.PROCESS_LIMIT: "Too many processes",
    EndCause.SMOKE_PASSED: "Smoke run passed",
    EndCause.EARLY_STOPPED: "Stopped early",
    EndCause.LAUNCH_FAILED: "Launch failed",
    EndCause.SERVER_LOST: "Server lost",
    EndCause.SUPERVISOR_LOST: "Supervisor lost",
    EndCause.LAUNCH_UNCONFIRMED: "Launch not confirmed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineBar:
    """One bar.

    Attributes:
        span: Weight of its width, seconds.
        css: wait, past, now or fail; with ``narrow`` where it has no room for padding; preempt: a thin mark.
        label: What stands in it; empty where it does not fit.
        title: The whole in words.
    """

    span: float
    css: str
    label: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Bars with what stands above and below them."""

    title: str
    bars: list[TimelineBar]
    begin: datetime
    middle: str
    end: datetime
    checkpoint_percent: float | None
    with_seconds: bool = False


def cause_words(attempt: AttemptRow) -> str:
    """Return why an attempt ended, with its exit code or signal."""
    words = CAUSES.get(attempt["end_cause"], "")
    if attempt["end_cause"] == EndCause.EXIT_CODE and attempt["exit_code"] is not None:
        return f"{words}, exit code {attempt['exit_code']}"
    if attempt["end_cause"] == EndCause.SIGNAL and attempt["exit_signal"] is not None:
        return f"{words}, {attempt['exit_signal']}"
    return words


def timeline_of(subject: Subject) -> Timeline:
    """Return the course of a job until now or its end."""
    entries = _without_dust(_merged(subject.timeline))
    total_s = sum(entry["duration_s"] for entry in entries) or 1.0
    bars: list[TimelineBar] = []
    for index, entry in enumerate(entries):
        before = entries[index - 1] if index else None
        if before is not None and before.get("end_cause") == EndCause.PREEMPTED:
            bars.append(TimelineBar(span=0.001, css="preempt", label="", title="Preempted"))
        bars.append(_bar(entry, subject, total_s))
    begin = subject.job.submitted_at
    end = subject.job.ended_at or subject.at
    last = next(((a["receipt"], a["lost_s"]) for a in reversed(subject.attempts) if a["receipt"]), None)
    return Timeline(
        title=_title(subject),
        bars=bars,
        begin=begin,
        middle=_short_receipt(*last, subject) if last else "",
        end=end,
        with_seconds=(end - begin).total_seconds() < SHORT_S,
        checkpoint_percent=_percent(subject.job.checkpoint_at, begin, end),
    )


def _percent(at: datetime | None, begin: datetime, end: datetime) -> float | None:
    span_s = (end - begin).total_seconds()
    if at is None or span_s <= 0 or not begin <= at <= end:
        return None
    return round(100 * (at - begin).total_seconds() / span_s, 2)


def _merged(entries: Sequence[TimelineRow]) -> Sequence[TimelineRow]:
    """Return the entries with waits that follow each other as one: the reasons stand on another tab."""
    merged: list[TimelineRow] = []
    for entry in entries:
        if merged and entry["kind"] == merged[-1]["kind"] == "wait" and _prepares(entry) == _prepares(merged[-1]):
            merged[-1] = {
                **merged[-1],
                "end": entry["end"],
                "duration_s": merged[-1]["duration_s"] + entry["duration_s"],
            }
        else:
            merged.append(entry)
    return merged


def _prepares(entry: TimelineRow) -> bool:
    """Return whether a wait is for the Python environment: pages call the job preparing."""
    return entry["kind"] == "wait" and entry["reason"] == WaitReason.PREPARING_ENVIRONMENT


def _without_dust(entries: Sequence[TimelineRow]) -> Sequence[TimelineRow]:
    """Leave out waits of less than a second beside what lasted: a bar would be wider than what it shows."""
    lasting = [entry for entry in entries if entry["kind"] == "attempt" or entry["duration_s"] >= 1]
    return lasting or entries


def _bar(entry: TimelineRow, subject: Subject, total_s: float) -> TimelineBar:
    frac = entry["duration_s"] / total_s
    took = duration(whole_s(entry["duration_s"]))
    if entry["kind"] == "attempt":
        css, words = _attempt_bar(entry, subject)
    elif entry["kind"] == "suspended":
        css, words = "wait", "Suspended"
    else:
        css, words = "wait", "Preparing" if _prepares(entry) else "Waiting"
    label = words if frac >= LABEL_FRAC or (frac >= 0.09 and len(words) < 10) else ""
    narrow = " narrow" if frac < NARROW_FRAC else ""
    return TimelineBar(span=max(entry["duration_s"], 0.001), css=css + narrow, label=label, title=f"{words}, {took}")


def _attempt_bar(entry: RunRow, subject: Subject) -> tuple[str, str]:
    where = joined([seat["server"] for seat in entry["servers"]])
    words = f"Attempt {entry['number']} · {subject.device.counted(entry['num_gpus'])}" + (
        f" · {where}" if where else ""
    )
    if entry["end"] is None:
        return "now", words
    if entry["end_cause"] not in QUIET_CAUSES:
        return "fail", f"Attempt {entry['number']} · {cause_words(entry)}"
    return "past", words


def _title(subject: Subject) -> str:
    """Return what the course shows: how often it was preempted, and how long it waited."""
    attempts, preemptions = subject.attempts, [a for a in subject.attempts if a["end_cause"] == EndCause.PREEMPTED]
    if preemptions:
        gone_s = sum((gap.end - gap.start).total_seconds() for gap in gaps_of(subject))
        times = f"{number(len(preemptions))} preemptions" if len(preemptions) > 1 else "One preemption"
        return f"{times}, {duration(gone_s)} without {subject.device.many}" if gone_s >= 1 else times
    waited_s = sum(entry["duration_s"] for entry in subject.timeline if entry["kind"] == "wait")
    if not attempts and subject.state is JobState.SUSPENDED:
        return "Suspended before its first attempt"
    if not attempts:
        verb = "Prepares" if subject.detail["phase"] == PREPARING else "Waits"
        return f"{verb} for {duration(whole_s(waited_s))}, no attempt yet" if not subject.is_over else "It never ran"
    if len(attempts) > 1:
        return f"{counted(len(attempts), 'attempt')}, waited {duration(waited_s)} in all"
    return f"Started after {duration(waited_s)} of waiting" if waited_s >= 1 else "Started at once"


def gaps_of(subject: Subject) -> tuple[Gap, ...]:
    """Return the times between attempts, for the charts."""
    gaps: list[Gap] = []
    for before, after in pairwise([*subject.attempts, None]):
        assert before is not None
        if after is None and (subject.is_over or before["end"] is None):
            continue
        start = subject.time(before["ended_at"])
        end = subject.time(after["started_at"] or after["created_at"]) if after else subject.at
        if start is None or end is None:
            continue
        took = duration(max(0.0, (end - start).total_seconds()))
        words = f"{CAUSES.get(before['end_cause'], 'Stopped')}{f', back after {took}' if after else f' {took} ago'}"
        resume_step = after["resume_step"] if after else None
        gaps.append(Gap(start=start, end=end, last_step=before["last_step"], resume_step=resume_step, words=words))
    return tuple(gaps)


def _short_receipt(receipt: ReceiptRow, lost_s: float | None, subject: Subject) -> str:
    at = subject.time(receipt["at"])
    when = f"{clock(at, subject.at, subject.zone)} " if at else ""
    by = f" by {receipt['by_job']['name']}" if receipt["by_job"] else ""
    lost = f", {duration(lost_s)} lost" if lost_s else ""
    return f"{when}preempted{by}{lost}"
