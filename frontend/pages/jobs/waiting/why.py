"""Why a job waits, with the evidence: servers as cells, checks, jobs ahead, what held it back before."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import TypedDict

from frontend.components.formats import clock, counted, duration, number, whole_s
from frontend.components.gpu_cells import free_by_server, free_words, is_free, server_cells
from frontend.components.reason_names import reason_name
from frontend.pages.jobs.head import asked_words, place_in_line
from frontend.pages.jobs.subject import Subject
from scheduler.core.model.plan import WaitReason
from scheduler.core.operations.place_in_line import HELD_BACK, cannot_start_itself
from scheduler.selectors.cluster.rows import GpuRow, ServerRow
from scheduler.selectors.jobs.reason_rows import CheckRow, Explanation
from scheduler.selectors.jobs.rows import GapRow

MOST_SERVERS = 64
LABEL_FRAC = 0.12  # of the width; a narrower piece has its words on hover alone
SHORT_FRAC = 0.01  # of the width; shorter pieces one after another are one
# Reasons that free devices are evidence for.
OF_PLACE = frozenset(
    {
        WaitReason.NO_CAPACITY,
        WaitReason.BEHIND_POLICY_ORDER,
        WaitReason.FRAGMENTATION,
        WaitReason.CPU_OR_MEMORY,
        WaitReason.NEVER_FEASIBLE,
        WaitReason.ISOLATION,
        WaitReason.PREPARING_ENVIRONMENT,
        WaitReason.NO_SERVER,
        WaitReason.RECONFIGURING,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerEvidence:
    """One server of the mini map; a cell is open, taken, broken, or free where the server takes no jobs."""

    name: str
    title: str
    slots: bool
    columns: int
    cells: list[str]
    free: int
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One stretch of waiting for one reason; ``words`` are empty where they do not fit."""

    span: float
    words: str
    tone: str
    title: str
    start: datetime


class ReasonBox(TypedDict, total=False):
    """Variables of the partial ``reason_box``."""

    since: datetime | None
    waited_s: float
    for_this: str
    code: str
    sentence: str
    numbers: str
    servers: list[ServerEvidence]
    evidence_label: str
    has_slots: bool


def reason_context(subject: Subject) -> ReasonBox:
    """Return the variables of the partial ``reason_box``; empty when the job does not wait."""
    explain = subject.explain
    if not explain["reason"]:
        return {}
    since, changed = subject.time(explain["waits_since"] or explain["since"]), subject.time(explain["since"])
    evidence = explain["reason"] in OF_PLACE
    return {
        "since": since,
        "waited_s": whole_s((subject.at - since).total_seconds()) if since else 0.0,
        "for_this": clock(changed, subject.at, subject.zone) if changed and changed != since else "",
        "code": explain["reason"],
        "sentence": subject.words(explain["sentence"]),
        "numbers": numbers_words(subject),
        "servers": evidence_cells(subject.servers[:MOST_SERVERS]) if evidence else [],
        "evidence_label": evidence_words(subject),
        "has_slots": any(row["device_kind"] == "cpu_slot" for row in subject.servers),
    }


def evidence_cells(rows: Sequence[ServerRow]) -> list[ServerEvidence]:
    """Return the servers as cells, with how many each has free."""

    def cell(gpu: GpuRow, state: str) -> str:
        if not gpu["healthy"]:
            return "broken"
        return "taken" if gpu["allocated"] else "open" if state == "up" else "free"

    return [
        ServerEvidence(
            name=drawn.short,
            title=drawn.label,
            slots=drawn.device_kind == "cpu_slot",
            columns=drawn.columns,
            cells=[cell(gpu, row["state"]) for gpu in row["gpus"]],
            free=sum(is_free(gpu) for gpu in row["gpus"]) if row["state"] == "up" else 0,
            state="" if row["state"] == "up" else row["state"],
        )
        for drawn, row in zip(server_cells(rows), rows, strict=True)
    ]


def numbers_words(subject: Subject) -> str:
    """Return the numbers behind the reason: what is free and where, what is broken, and its place in line."""
    explain = subject.explain
    parts: list[str] = []
    if explain["reason"] in OF_PLACE and subject.servers:
        parts.append(evidence_words(subject))
        parts.append(f"The job asks for {asked_words(subject)}.")
    position, waiting = explain["position"], explain["waiting_jobs"]
    if position and waiting:
        own, own_waiting = explain["queue_position"] or 1, explain["queue_waiting_jobs"]
        place = place_in_line(position, waiting)
        in_queue = "" if waiting == own_waiting else f", {place_in_line(own, own_waiting)} in {subject.job.queue.name}"
        parts.append(f"{place[0].upper()}{place[1:]}{in_queue}.")
    return " ".join(parts)


def evidence_words(subject: Subject) -> str:
    """Return what is free and what is broken, as a sentence."""
    device, servers = subject.device, subject.servers
    free = sum(count for _, count in free_by_server(servers))
    verb = "is" if free == 1 else "are"
    words = f"{device.counted(free)} {verb} free: {free_words(servers)}." if free else f"No {device.one} is free."
    broken = [
        f"{device.one} {gpu['index']} of {row['name']}" for row in servers for gpu in row["gpus"] if not gpu["healthy"]
    ]
    if broken:
        more = f" and {number(len(broken) - 3)} more" if len(broken) > 3 else ""
        words += f" Broken: {', '.join(broken[:3])}{more}."
    return words


def pieces_of(subject: Subject) -> tuple[list[Piece], str]:
    """Return what the job waited for, reason by reason, and a line that sums it up.

    Short waits one after another are one piece, coloured as the longest of them: a job that takes turns has hundreds.
    """
    waits = [entry for entry in subject.timeline if entry["kind"] == "wait" and entry["duration_s"] >= 1]
    waits = [entry for entry in waits if subject.time(entry["start"])]
    sum_s = sum(entry["duration_s"] for entry in waits)
    made: list[Piece] = []
    for is_short, run in groupby(waits, key=lambda entry: entry["duration_s"] < sum_s * SHORT_FRAC):
        entries = [*run]
        made += [_piece(subject, entries, sum_s)] if is_short else [_piece(subject, [one], sum_s) for one in entries]
    return made, duration(sum_s) if made else ""


def _piece(subject: Subject, waits: Sequence[GapRow], sum_s: float) -> Piece:
    words, tone = reason_name(max(waits, key=lambda entry: entry["duration_s"])["reason"])
    start, span_s = subject.time(waits[0]["start"]), sum(entry["duration_s"] for entry in waits)
    assert start
    what = words if len(waits) == 1 else f"{counted(len(waits), 'short wait')}, the longest: {words}"
    return Piece(
        span=span_s,
        words=words if len(waits) == 1 and span_s >= sum_s * LABEL_FRAC else "",
        tone=tone,
        title=f"{what}, {duration(span_s)} from {clock(start, subject.at, subject.zone)}",
        start=start,
    )


def checks_title(checks: Sequence[CheckRow]) -> str:
    """Return how many checks pass."""
    passing = sum(check["ok"] for check in checks)
    if passing == len(checks):
        return f"All {number(passing)} checks pass"
    return f"{number(passing)} of {counted(len(checks), 'check')} pass"


def ahead_title(explain: Explanation) -> str:
    """Return how many jobs go first, as a finding."""
    count, position = explain["num_ahead"], explain["position"]
    if not position:
        return _without_place(explain)
    if not count:
        return "It is first in line"
    return f"{counted(count, 'job')} {'is' if count == 1 else 'are'} ahead of it"


def _without_place(explain: Explanation) -> str:
    """Return why a waiting job has no place in line."""
    reason = explain["reason"]
    if reason in HELD_BACK:
        return "It has no place in line while it is held back"
    if reason == WaitReason.RECONFIGURING:
        return "It has passed the line"
    if reason == WaitReason.BACKOFF:
        return "It has no place in line during the pause"
    if cannot_start_itself(reason, explain["evidence"]):
        return "It has no place in line while it cannot start"
    return "Its place in line comes with the next round"
