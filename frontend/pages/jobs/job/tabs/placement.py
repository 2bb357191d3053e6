"""Placement: the servers and devices on which the job runs or ran, among all servers."""

from typing import TypedDict

from frontend.components.formats import joined, number
from frontend.pages.jobs.job.locality import SpreadCost, spread_cost_of
from frontend.pages.jobs.job.next_gpu import NextGpuCard, next_gpu_of
from frontend.pages.jobs.subject import Subject
from scheduler.selectors.jobs.rows import AttemptRow, RunRow


class PlacementTab(TypedDict):
    """The variables of its template."""

    servers: list[dict[str, object]]
    placement_title: str
    attempts: list[RunRow]
    verdict: SpreadCost | None
    next_gpu: NextGpuCard | None


def context(subject: Subject) -> PlacementTab:
    """Return the variables of the template."""
    attempt = subject.detail["attempt"]
    held = {seat["server_id"]: set(seat["gpus"]) for seat in attempt["servers"]} if attempt else {}
    is_now = subject.is_holding
    servers = [
        {
            **row,
            "gpus": [{**gpu, "mine": is_now and gpu["index"] in held.get(row["id"], ())} for gpu in row["gpus"]],
            "mine": is_now and row["id"] in held,
        }
        for row in subject.servers
    ]
    return {
        "servers": servers,
        "placement_title": _title(subject, attempt),
        "attempts": subject.attempts[::-1],
        "verdict": spread_cost_of(subject),
        "next_gpu": next_gpu_of(subject),
    }


def _title(subject: Subject, attempt: AttemptRow | None) -> str:
    if attempt is None:
        return "It has not run on any server yet"
    names = joined([seat["server"] for seat in attempt["servers"]])
    if subject.is_holding:
        count = sum(len(seat["gpus"]) for seat in attempt["servers"])
        return f"It holds {subject.device.counted(count or attempt['num_gpus'])} on {names}"
    used = {seat["server"] for entry in subject.attempts for seat in entry["servers"]}
    return f"It ran on {names}" if len(used) == 1 else f"It ran on {number(len(used))} servers, last on {names}"
