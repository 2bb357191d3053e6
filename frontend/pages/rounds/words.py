"""Sentences and tiles of the decision log."""

from typing import Literal, TypedDict

from frontend.components.devices import DeviceWord
from frontend.components.formats import counted, data_size, duration, joined, number
from frontend.components.happenings import RULES
from scheduler.core.operations.reasons import sentence
from scheduler.selectors.cluster.rows import GrantedSeat, PreemptionRow, RoundRow, WaitingRow

TRIGGERS = {
    "beat": "the beat",
    "start": "the start of the scheduler",
    "submit": "a submit",
    "end": "the end of a job",
    "cancel": "a cancel",
    "suspend": "a suspend",
    "resume": "a resume",
    "server": "a change of a server",
    "quota": "a change of a quota",
    "settings": "a change of the settings",
    "change": "a change of what a job asks for",
    "restore": "a cancel that was taken back",
    "resized": "a job that changed its size",
    "environment": "an environment that was built",
    "profile": "a profile that was measured",
    "idle": "a job that used nothing",
    "backoff": "a retry that was due",
    "introspection": "the end of a turn, or of a trial",
    "parked": "a job that made room for the next turn",
}


class RoundTile(TypedDict):
    """One number over the list; ``course`` is its sparkline, oldest round first."""

    label: str
    value: str
    unit: str
    delta: str
    course: list[float]


def trigger_words(trigger: str) -> str:
    """Return what started a round: the beat, or what happened before the beat was due."""
    return joined([TRIGGERS.get(word.strip(), word.strip()) for word in trigger.split(",") if word.strip()])


def what_it_did(row: RoundRow) -> str:
    """Return what one round changed, as the end of a sentence that begins with its number."""
    if row["error"]:
        return "was refused and changed nothing"
    done = [
        text
        for count, text in (
            (row["num_launched"], f"started {counted(row['num_launched'], 'job')}"),
            (row["num_preempted"], f"preempted {number(row['num_preempted'])}"),
        )
        if count
    ]
    return joined(done) if done else "changed nothing"


def seat_words(seats: list[GrantedSeat], device: DeviceWord) -> str:
    """Return the seats of a job: ``2 GPUs, 6 cores, 24 GiB on gpu-07``."""
    return "; ".join(_seat(seat, device) for seat in seats)


def _seat(seat: GrantedSeat, device: DeviceWord) -> str:
    cores, memory = _cores(seat["cpus"]), data_size(seat["memory_bytes"])
    return f"{device.counted(seat['gpus'])}, {cores}, {memory} on {seat['server'] or 'a server that left'}"


def _cores(cores: float) -> str:
    """Return a number of cores, which may be fractional."""
    return f"{number(cores, 1 if cores % 1 else 0)} {'core' if cores == 1 else 'cores'}"


def folded_words(rows: list[RoundRow]) -> str:
    """Return what several rounds that changed nothing have in common."""
    return f"{counted(len(rows), 'round')} changed nothing"


def preemption_words(entry: PreemptionRow, device: DeviceWord) -> str:
    """Return why a job had to stop, and for which job."""
    by = entry["by_job"]
    rule = device.said(RULES.get(entry["rule"], entry["rule"]))
    return f"{rule[0].upper()}{rule[1:]}" + (f", for {by['name']}." if by else ".")


def wait_words(entry: WaitingRow, device: DeviceWord) -> str:
    """Return why a job waits; nothing about the jobs of queues that the reader may not see."""
    if not entry["reason"]:
        return ""
    ahead = {"ahead_jobs": entry["position"] - 1} if entry["position"] else {}
    return device.said(sentence(entry["reason"], {**entry["evidence"], **ahead}))


def pace(rows: list[RoundRow]) -> list[RoundTile]:
    """Return the tiles over the list: how long rounds took, what they did."""
    taken = sorted(row["duration_s"] for row in rows)
    if not taken:
        return []
    return [
        {
            "label": "Median duration",
            "value": duration(taken[len(taken) // 2]),
            "unit": "",
            "delta": f"longest {duration(taken[-1])}",
            "course": [row["duration_s"] for row in reversed(rows)],
        },
        _tile(rows, "Jobs started", "num_launched"),
        _tile(rows, "Jobs preempted", "num_preempted"),
        {
            "label": "Waiting after the last",
            "value": number(rows[0]["num_waiting"]),
            "unit": "job" if rows[0]["num_waiting"] == 1 else "jobs",
            "delta": f"{number(rows[0]['num_running'])} run",
            "course": [float(row["num_waiting"]) for row in reversed(rows)],
        },
    ]


def _tile(rows: list[RoundRow], label: str, name: Literal["num_launched", "num_preempted"]) -> RoundTile:
    return {
        "label": label,
        "value": number(sum(row[name] for row in rows)),
        "unit": "",
        "delta": f"in {counted(len(rows), 'round')}",
        "course": [float(row[name]) for row in reversed(rows)],
    }
