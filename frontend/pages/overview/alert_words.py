"""Sentences of the inbox: finding first, then the number and the cause. ``words.py`` has the rest of the page."""

from collections.abc import Callable, Sequence
from datetime import datetime, tzinfo

from frontend.components.costs import money
from frontend.components.devices import DeviceWord
from frontend.components.formats import clock, counted, data_size, day, duration, joined, number, percent
from scheduler.selectors.cluster.alerts import AlertKind, AlertRow
from scheduler.selectors.cluster.changes import ChangesRow
from scheduler.selectors.cluster.next_free import NextFreeRow

Words = Callable[[AlertRow, DeviceWord], str]


def inbox_title(count: int, new: int) -> str:
    """Return ``5 alerts need an admin, 2 are new``."""
    if not count:
        return "No alert is open"
    title = f"{counted(count, 'alert')} {'needs' if count == 1 else 'need'} an admin"
    return f"{title}, {number(new)} {'is' if new == 1 else 'are'} new" if new else title


def inbox_cost(rows: Sequence[AlertRow], device: DeviceWord) -> str:
    """Return what they keep out of use together; empty for nothing."""
    keeping = [row["lost_gpus"] for row in rows if row["lost_gpus"]]
    if not keeping:
        return ""
    if len(keeping) == len(rows):
        subject = "It keeps" if len(rows) == 1 else "They keep"
    else:
        subject = "One of them keeps" if len(keeping) == 1 else f"{number(len(keeping))} of them keep"
    return f"{subject} {device.counted(sum(keeping))} out of use"


def finding_of(row: AlertRow, device: DeviceWord) -> str:
    """Return what is wrong, in a few words that name the thing."""
    return _FINDINGS[AlertKind(row["kind"])](row, device)


def cause_of(row: AlertRow, device: DeviceWord) -> str:
    """Return why, with the number."""
    return _CAUSES[AlertKind(row["kind"])](row, device)


def changed_words(changes: ChangesRow, new_alerts: int, looked_at: datetime, now: datetime, zone: tzinfo) -> str:
    """Return what changed since the reader last looked; only what is not zero, empty for nothing."""
    parts = [
        counted(changes["completed"], "job completed", "jobs completed") if changes["completed"] else "",
        f"{number(changes['failed'])} failed" if changes["failed"] else "",
        counted(changes["preempted"], "preemption") if changes["preempted"] else "",
        f"{number(changes['submitted'])} submitted" if changes["submitted"] else "",
        f"{counted(new_alerts, 'alert')} {'is' if new_alerts == 1 else 'are'} new" if new_alerts else "",
    ]
    said = [part for part in parts if part]
    return f"Since you last looked, {clock(looked_at, now, zone)}: {joined(said)}." if said else ""


def next_free_title(rows: Sequence[NextFreeRow], at: str, device: DeviceWord) -> str:
    """Return which server is wholly free next, and when.

    Args:
        rows: Servers that take jobs, the first to be free first.
        at: The time of the first that is not free, in words; empty where that is unknown.
    """
    if not rows:
        return "No server takes jobs"
    free = [row["server"] for row in rows if row["free_gpus"] == row["num_gpus"]]
    if free:
        rest = f" and {number(len(free) - 1)} more" if len(free) > 1 else ""
        return f"{free[0]}{rest} {'is' if len(free) == 1 else 'are'} wholly free now"
    if not at:
        return "No server says when it is wholly free"
    return f"{rows[0]['server']} is the next whole server, about {at}"


def _gpus(row: AlertRow, device: DeviceWord) -> str:
    return device.counted(row["lost_gpus"])


def _drained(row: AlertRow, device: DeviceWord) -> str:
    jobs, why = row["numbers"]["jobs"], row["numbers"]["reason"].rstrip(".")
    empty = f"{_gpus(row, device)} {'stands' if row['lost_gpus'] == 1 else 'stand'} empty until you undrain it."
    leaving = f"{counted(jobs, 'job')} still {'runs' if jobs == 1 else 'run'} on it and will move; nothing new starts."
    return (leaving if jobs else empty) + (f" Reason: {why}." if why else "")


def _broken(row: AlertRow, device: DeviceWord) -> str:
    indexes = [str(index) for index in row["numbers"]["gpus"]]
    if len(indexes) == 1:
        return f"{device.one} {indexes[0]} on {row['subject']} is broken"
    return f"{device.many} {joined(indexes)} on {row['subject']} are broken"


def _why_broken(row: AlertRow, device: DeviceWord) -> str:
    why = row["numbers"]["reason"]
    told = f"{why[:1].upper()}{why[1:].rstrip('.')}; it" if why else "It"
    return f"{told} gets no job." if row["lost_gpus"] == 1 else f"{told.removesuffix('it')}they get no job."


def _size(row: AlertRow, device: DeviceWord) -> str:
    numbers = row["numbers"]
    before, after = (numbers[name].get("num_cpus", 0) for name in ("believed", "claimed"))
    return f"{number(after)} CPU cores after {number(before)}. The size before is used until you confirm."


def _unfair(row: AlertRow, device: DeviceWord) -> str:
    limit = row["numbers"]["limit"]
    return f"Completion against an equal share of the cluster, mean of a day; the limit is {number(limit, 1)}."


def _late(row: AlertRow, device: DeviceWord) -> str:
    every = duration(row["numbers"]["round_s"])
    return f"Rounds come every {every}. Running jobs go on; nothing new starts."


def _asked(row: AlertRow, device: DeviceWord) -> str:
    numbers = row["numbers"]
    return f"{numbers['user']} asks for {device.counted(numbers['quota_gpus'])} for {row['subject']}"


def _why_asked(row: AlertRow, device: DeviceWord) -> str:
    numbers = row["numbers"]
    until = f"until {day(numbers['until'])}" if numbers["until"] else "for good"
    reason = numbers["reason"].rstrip(".")
    return f"In place of {number(numbers['before_gpus'])}, {until}: {reason}."


def _overdue(row: AlertRow, device: DeviceWord) -> str:
    return f"{row['subject']} had {device.counted(row['numbers']['quota_gpus'])} until {day(row['numbers']['until'])}"


def _over_budget(row: AlertRow, device: DeviceWord) -> str:
    is_spent = row["numbers"]["spent"] > row["numbers"]["budget"]
    return f"{row['subject']} {'has spent more than' if is_spent else 'is going beyond'} its budget"


def _why_over(row: AlertRow, device: DeviceWord) -> str:
    numbers, currency = row["numbers"], row["numbers"]["currency"]
    spent, budget = (money(numbers[name], currency) for name in ("spent", "budget"))
    ahead = (
        f"; {money(numbers['forecast'], currency)} by the end of the month at this pace" if numbers["forecast"] else ""
    )
    return f"Spent {spent} of {budget}{ahead}. Nothing is stopped for it."


_FINDINGS: dict[AlertKind, Words] = {
    AlertKind.SERVER_LOST: lambda row, device: f"{row['subject']} is lost",
    AlertKind.SERVER_DRAINED: lambda row, device: (
        f"{row['subject']} is {'being drained' if row['numbers']['jobs'] else 'drained'}"
    ),
    AlertKind.SERVER_SILENT: lambda row, device: f"{row['subject']} has never reported",
    AlertKind.GPU_BROKEN: _broken,
    AlertKind.ROUND_LATE: lambda row, device: f"Round {number(row['numbers']['round'] + 1)} is late",
    AlertKind.STEP_FAILING: lambda row, device: f"A part of the scheduler fails: {row['subject']}",
    AlertKind.QUEUE_UNFAIR: lambda row, device: (
        f"{row['subject']} jobs take {number(row['numbers']['rho'], 1)} times their fair time"
    ),
    AlertKind.QUOTA_ASKED: _asked,
    AlertKind.QUOTA_OVERDUE: _overdue,
    AlertKind.BUDGET_OVER: _over_budget,
    AlertKind.SIZE_JUMP: lambda row, device: f"{row['subject']} reports another size",
    AlertKind.DISK_FULL: lambda row, device: f"The shared disk is {percent(row['numbers']['used_frac'])} full",
    AlertKind.FILES_STAY: lambda row, device: f"Files of {counted(row['numbers']['jobs'], 'job')} are not removed",
    AlertKind.WEBHOOK_FAILING: lambda row, device: f"Webhook {row['subject']} fails",
}
_CAUSES: dict[AlertKind, Words] = {
    AlertKind.SERVER_LOST: lambda row, device: f"No report came. Its jobs wait again; {_gpus(row, device)} are gone.",
    AlertKind.SERVER_DRAINED: _drained,
    AlertKind.SERVER_SILENT: lambda row, device: "Its agent was never started, or does not reach the broker.",
    AlertKind.GPU_BROKEN: _why_broken,
    AlertKind.ROUND_LATE: _late,
    AlertKind.STEP_FAILING: lambda row, device: str(row["numbers"]["error"]),
    AlertKind.QUEUE_UNFAIR: _unfair,
    AlertKind.QUOTA_ASKED: _why_asked,
    AlertKind.QUOTA_OVERDUE: lambda row, device: (
        f"{row['numbers']['user']} asked for it; the quota before was {number(row['numbers']['before_gpus'])}. "
        "Saving the quota, the same or another, ends this."
    ),
    AlertKind.BUDGET_OVER: _why_over,
    AlertKind.SIZE_JUMP: _size,
    AlertKind.DISK_FULL: lambda row, device: f"{data_size(row['numbers']['free_bytes'])} left in {row['subject']}.",
    AlertKind.FILES_STAY: lambda row, device: (
        f"{data_size(row['numbers']['size_bytes'])} were to go a day ago, first those of "
        f"J-{row['numbers']['oldest_job']}. No agent has removed them: look whether one runs that owns them."
    ),
    AlertKind.WEBHOOK_FAILING: lambda row, device: (
        f"{counted(row['numbers']['failed'], 'message')} in a row failed"
        f"{': ' + str(row['numbers']['problem']).rstrip('.') if row['numbers']['problem'] else ''}."
    ),
}
