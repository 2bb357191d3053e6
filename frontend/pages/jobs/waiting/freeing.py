"""What frees GPUs next: the ends of running jobs in order, and the server that first has room for a waiting job.

Ends are those that running jobs tell by their progress. They say nothing of preemptions, nor of jobs without an end.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from frontend.components.formats import clock, counted
from frontend.components.times import as_time, as_time_or_none
from frontend.pages.jobs.subject import Subject
from scheduler.core.model.plan import WaitReason
from scheduler.selectors.cluster.next_free import GpuEndRow, NextFreeRow

EVENTS_MOST = 5
FITTING_MOST = 2  # of them have room for the job: the first one, and the next should it be late
# Estimates are told in minutes: one that is earlier by less does not contradict the end of a job.
SLACK = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """The first server with room for the job; ``at`` is None where it has room now."""

    server: str
    at: datetime | None
    num_gpus: int
    is_whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NextEvent:
    """One server that frees GPUs: when, the finding, and what of it; ``is_room``: the one that the title names."""

    at: str
    finding: str
    detail: str
    is_room: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeing:
    """What the list and the map of servers tell alike. ``rows``: by name, of servers that take jobs."""

    title: str
    note: str
    events: list[NextEvent]
    room: Room | None
    rows: dict[str, NextFreeRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """A server in the list, with the end that is told of it; ``is_chance``: it is the next with room."""

    row: NextFreeRow
    end: GpuEndRow
    is_chance: bool = False


def freeing_of(subject: Subject, servers: Sequence[NextFreeRow]) -> Freeing | None:
    """Return what frees GPUs next, soonest first, with a title that names the first server with room for the job.

    None where it waits for something else: its queue's quota, or, first in line, beside a server with room for it.
    """
    needed, reason = _needed(subject), subject.explain["reason"]
    has_room = any(row["free_gpus"] >= needed for row in servers)
    if reason == WaitReason.QUEUE_QUOTA or (has_room and reason != WaitReason.BEHIND_POLICY_ORDER):
        return None
    room = None if _most_servers(subject) > 1 else room_for(servers, needed)
    is_early = _is_earlier(subject, room)
    named = None if is_early else room
    shown = _shown([row for row in servers if row["ends"] and row["free_gpus"] < needed], named, needed)
    return Freeing(
        title=_title(subject, servers, room),
        note="The estimate is earlier: a running job may be preempted for it, or end sooner." if is_early else "",
        events=[_event(subject, one, named) for one in shown],
        room=named,
        rows={row["server"]: row for row in servers},
    )


def _needed(subject: Subject) -> int:
    return 1 if subject.job.smoke_due else subject.job.num_gpus


def _most_servers(subject: Subject) -> int:
    return 1 if subject.job.smoke_due else subject.job.spec.get("resources", {}).get("max_servers") or 1


def room_for(servers: Sequence[NextFreeRow], needed: int) -> Room | None:
    """Return the server that is the first to have so many free GPUs for a job on one; None where none tells.

    Args:
        servers: Those that take jobs.
        needed: GPUs of the job.
    """
    found = []
    for row in servers:
        if row["free_gpus"] >= needed:
            found.append(("", row["free_gpus"], row))
        elif end := _end_with_room(row, needed):
            found.append((end["at"], _free_then(row, end), row))
    if not found:
        return None
    at, free, row = min(found, key=lambda entry: entry[0])
    return Room(server=row["server"], at=as_time(at) if at else None, num_gpus=free, is_whole=needed == row["num_gpus"])


def _end_with_room(row: NextFreeRow, needed: int) -> GpuEndRow | None:
    free = row["free_gpus"]
    for end in row["ends"]:
        free += end["num_gpus"]
        if free >= needed:
            return end
    return None


def _is_earlier(subject: Subject, room: Room | None) -> bool:
    """Return whether the estimate comes before the server has room: then it does not count on that server."""
    estimate = subject.explain["estimate"]
    p50_at = as_time_or_none(estimate["p50_at"]) if estimate else None
    return room is not None and room.at is not None and p50_at is not None and p50_at < room.at - SLACK


def _title(subject: Subject, servers: Sequence[NextFreeRow], room: Room | None) -> str:
    device, needed = subject.device, _needed(subject)
    if room and room.at is None:
        return f"{room.server} has room for it now, and jobs ahead go first"
    if room:
        return f"{room.server} is the first {'whole server' if room.is_whole else 'with room'} for it"
    if (most := _most_servers(subject)) > 1:
        return f"It may take up to {counted(most, 'server')}"
    if servers and all(row["num_gpus"] < needed for row in servers):
        return f"{device.counted(needed)} take several servers"
    if any(row["ends"] for row in servers):
        return "No server says when it has room for it"
    return f"Nothing says when {device.many} are free"


def _free_then(row: NextFreeRow, end: GpuEndRow) -> int:
    """Return how many GPUs of a server are free once a job on it ends, those before it included."""
    return row["free_gpus"] + sum(one["num_gpus"] for one in row["ends"] if one["at"] <= end["at"])


def _shown(rows: Sequence[NextFreeRow], room: Room | None, needed: int) -> list[_Line]:
    """Return the lines of the list by time: the server with room, the next chance, and the soonest others."""
    fits = [(row, end) for row in rows if (end := _end_with_room(row, needed))] if room and room.at else []
    fits.sort(key=lambda entry: (room is not None and entry[0]["server"] != room.server, entry[1]["at"]))
    lines = [_Line(row=row, end=end, is_chance=at > 0) for at, (row, end) in enumerate(fits[:FITTING_MOST])]
    taken = {line.row["server"] for line in lines}
    others = [_Line(row=row, end=row["ends"][0]) for row in rows if row["server"] not in taken]
    others.sort(key=lambda line: line.end["at"])
    return sorted([*lines, *others[: EVENTS_MOST - len(lines)]], key=lambda line: line.end["at"])


def _event(subject: Subject, line: _Line, room: Room | None) -> NextEvent:
    row, end = line.row, line.end
    is_room = room is not None and row["server"] == room.server
    free, ahead = _free_then(row, end), subject.explain["num_ahead"]
    gpus = subject.device.counted(free)
    frees = f"then has {gpus} free" if free > end["num_gpus"] else f"frees {gpus}"
    name = end["job"]["name"]
    what = f"{name if end['job']['number'] else f'{name[0].upper()}{name[1:]}'} ends then."
    if is_room and ahead:
        what += f" {counted(ahead, 'job')} {'goes' if ahead == 1 else 'go'} first."
    elif room and line.is_chance:
        what += f" The next chance if {room.server} is late."
    elif free < _needed(subject) and _most_servers(subject) == 1:
        what += " Too few for it."
    return NextEvent(
        at=clock(as_time(end["at"]), subject.at, subject.zone),
        finding=f"{row['server']} {frees}{', enough for it' if is_room else ''}.",
        detail=what,
        is_room=is_room,
    )
