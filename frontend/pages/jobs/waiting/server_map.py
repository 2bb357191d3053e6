"""The servers as a waiting job sees them: which queue holds each GPU, and when the first of each server are free."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from frontend.components.formats import clock, counted, number
from frontend.components.gpu_cells import DeviceCell, ServerCells, is_free, server_cells, unheld
from frontend.components.times import as_time
from frontend.pages.jobs.subject import Subject
from frontend.pages.jobs.waiting.freeing import Freeing, Room
from scheduler.selectors.cluster.next_free import NextFreeRow
from scheduler.selectors.cluster.rows import ServerRow

SEEN_MOST = 16  # one line of them on a wide screen, two on a phone; a few more are no reason to fold
FOLDED_FROM = 20
ROOMY_MOST = 8
SERVERS_MOST = 64
UNHELD = {"free": "free", "drained": "drained", "unknown": "on servers that are not up", "broken": "broken"}
QUEUES_MOST = 8  # of the legend; with more, the seven largest and the rest


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerEvidence:
    """One server of the map.

    Attributes:
        title: The whole in words.
        when: When the first of its GPUs are free: a time, ``now``, ``?`` where no job on it tells, or its state.
        gpus: How many are free then.
        is_room: Whether the list of what frees next names it as the first with room.
    """

    name: str
    title: str
    slots: bool
    columns: int
    cells: list[DeviceCell]
    when: str
    gpus: str
    is_free: bool
    is_room: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """One entry of the legend."""

    name: str
    css: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerMap:
    """The map: the servers that are free soonest, further ones folded, and how many GPUs each queue holds.

    Attributes:
        folded_title: How many are folded.
        cut: How many servers are on the page of the cluster alone.
        is_roomy: Whether so few servers are there that cells may be larger.
    """

    title: str
    servers: list[ServerEvidence]
    folded: list[ServerEvidence]
    folded_title: str
    cut: int
    holders: list[Holder]
    is_roomy: bool


def server_map(subject: Subject, freeing: Freeing | None) -> ServerMap:
    """Return the map; without times where no end of a job starts it."""
    rows = subject.servers
    room = freeing.room if freeing else None
    seen = _soonest(rows, freeing.rows if freeing else {}, room)
    drawn = [_server(subject, row, cells, freeing) for row, cells in zip(rows, server_cells(rows), strict=True)]
    first = [one for row, one in zip(rows, drawn, strict=True) if row["id"] in seen]
    others = [one for row, one in zip(rows, drawn, strict=True) if row["id"] not in seen]
    folded = others[: SERVERS_MOST - len(first)]
    many = subject.device.many
    return ServerMap(
        title=f"Who holds the {many}, and when the first of each server are free"
        if freeing
        else f"Who holds the {many}",
        servers=first,
        folded=folded,
        folded_title=counted(len(folded), "more server"),
        cut=len(others) - len(folded),
        holders=holders_of(rows),
        is_roomy=len(rows) <= ROOMY_MOST,
    )


def holders_of(rows: Sequence[ServerRow]) -> list[Holder]:
    """Return how many devices each queue holds, most first, then what no job holds."""
    held = Counter(
        (gpu["color_slot"] or 0, gpu["queue"] or "")
        for row in rows
        for gpu in row["gpus"]
        if gpu["allocated"] and gpu["healthy"]
    )
    queues = sorted(held.items(), key=lambda entry: (not entry[0][0], -entry[1], entry[0][1]))
    if len(queues) > QUEUES_MOST:
        rest = sum(count for _, count in queues[QUEUES_MOST - 1 :])
        queues = [*queues[: QUEUES_MOST - 1], ((0, "other queues"), rest)]
    made = [Holder(name=name, css=f"q{slot}", count=count) for (slot, name), count in queues]
    others = Counter(
        unheld(row["state"]) if gpu["healthy"] else "broken"
        for row in rows
        for gpu in row["gpus"]
        if not (gpu["allocated"] and gpu["healthy"])
    )
    return made + [Holder(name=name, css=css, count=others[css]) for css, name in UNHELD.items() if others[css]]


def _soonest(rows: Sequence[ServerRow], free: Mapping[str, NextFreeRow], room: Room | None) -> set[str]:
    """Return the ids of the servers that are seen at once."""
    if len(rows) <= FOLDED_FROM:
        return {row["id"] for row in rows}

    def rank(row: ServerRow) -> tuple[bool, bool, str, int]:
        ends = free[row["name"]]["ends"] if row["name"] in free else []
        has_free = row["state"] == "up" and any(is_free(gpu) for gpu in row["gpus"])
        is_room = room is not None and row["name"] == room.server
        return not is_room, not has_free, ends[0]["at"] if ends else "~", row["number"]

    return {row["id"] for row in sorted(rows, key=rank)[:SEEN_MOST]}


def _server(subject: Subject, row: ServerRow, cells: ServerCells, freeing: Freeing | None) -> ServerEvidence:
    room = freeing.room if freeing else None
    free = sum(is_free(gpu) for gpu in row["gpus"]) if row["state"] == "up" else 0
    when, gpus = _free_from(subject, row, free, freeing) if row["state"] == "up" else (cells.state, "")
    told = f"{gpus} {'free now' if when == 'now' else f'about {when}'}" if gpus else when
    return ServerEvidence(
        name=cells.short,
        title=f"{cells.label}; {told}" if told and told != "?" else cells.label,
        slots=row["device_kind"] == "cpu_slot",
        columns=cells.columns,
        cells=cells.gpus,
        when=when,
        gpus=gpus,
        is_free=when == "now",
        is_room=room is not None and room.server == row["name"],
    )


def _free_from(subject: Subject, row: ServerRow, free: int, freeing: Freeing | None) -> tuple[str, str]:
    """Return when GPUs of a server that takes jobs are free, and how many."""
    gpus_words = subject.device.counted
    room = freeing.room if freeing else None
    if room and room.at and room.server == row["name"]:
        return short_clock(subject, room.at), gpus_words(room.num_gpus)
    if free:
        return "now", gpus_words(free)
    if freeing is None:
        return "", ""
    ends = freeing.rows[row["name"]]["ends"] if row["name"] in freeing.rows else []
    if ends:
        return short_clock(subject, as_time(ends[0]["at"])), gpus_words(ends[0]["num_gpus"])
    return "?" if any(gpu["allocated"] for gpu in row["gpus"]) else "", ""


def short_clock(subject: Subject, at: datetime) -> str:
    """Return the time of day, and of another day that day alone: a column of the map has room for no more."""
    local, today = at.astimezone(subject.zone), subject.at.astimezone(subject.zone)
    if local.date() == today.date():
        return clock(at, subject.at, subject.zone)
    return f"{local:%a}" if local - today < timedelta(days=7) else f"{number(local.day)} {local:%b}"
