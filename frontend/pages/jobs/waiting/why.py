"""Why a job waits, in sentences with their numbers, and the jobs ahead of it."""

from datetime import datetime
from typing import TypedDict

from frontend.components.formats import clock, counted, number, whole_s
from frontend.components.gpu_cells import free_by_server, free_words
from frontend.pages.jobs.head import place_in_line
from frontend.pages.jobs.subject import Subject
from scheduler.core.model.plan import WaitReason
from scheduler.core.operations.place_in_line import HELD_BACK, cannot_start_itself
from scheduler.selectors.jobs.reason_rows import Explanation
from scheduler.services.cluster.settings import cluster_row, config_of

# Reasons of which free devices are the evidence.
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
# Reasons of which the queues that hold the devices are.
SHOWS_HOLDERS = OF_PLACE | {WaitReason.QUEUE_QUOTA}


class ReasonBox(TypedDict, total=False):
    """Variables of the partial ``reason_box``."""

    since: datetime | None
    waited_s: float
    for_this: str
    code: str
    sentence: str
    numbers: str


def reason_context(subject: Subject) -> ReasonBox:
    """Return the variables of the partial ``reason_box``; empty when the job does not wait."""
    explain = subject.explain
    if not explain["reason"]:
        return {}
    since, changed = subject.time(explain["waits_since"] or explain["since"]), subject.time(explain["since"])
    return {
        "since": since,
        "waited_s": whole_s((subject.at - since).total_seconds()) if since else 0.0,
        "for_this": clock(changed, subject.at, subject.zone) if changed and changed != since else "",
        "code": explain["reason"],
        "sentence": subject.words(explain["sentence"]),
        "numbers": numbers_words(subject),
    }


def numbers_words(subject: Subject) -> str:
    """Return the numbers behind the reason: what is free and where, what is broken, and its place in its queue."""
    explain = subject.explain
    parts: list[str] = []
    if explain["reason"] in OF_PLACE and subject.servers:
        parts.append(evidence_words(subject))
    position, waiting = explain["queue_position"], explain["queue_waiting_jobs"]
    # The line under the title tells what it asks for and its place in the cluster.
    if position and waiting and waiting != explain["waiting_jobs"]:
        place = place_in_line(position, waiting)
        parts.append(f"{place[0].upper()}{place[1:]} in {subject.job.queue.name}.")
    return " ".join(parts)


def evidence_words(subject: Subject) -> str:
    """Return what is held, free and broken now, as sentences.

    Devices that came free since the round that said why are told as such: the sentence above may say that none is.
    """
    device, servers = subject.device, subject.servers
    by_server = free_by_server(servers)
    free = sum(count for _, count in by_server)
    told = subject.explain["evidence"].get("free_gpus")
    now = " by now" if isinstance(told, int) and told < free else ""
    held, total = (sum(row[name] for row in servers) for name in ("allocated_gpus", "num_gpus"))
    if free:
        where = f", on {by_server[0][0]}" if len(by_server) == 1 else f": {free_words(servers)}"
        words = f"{device.counted(free)} {'is' if free == 1 else 'are'} free{now}{where}."
    elif held and held < total:
        words = (
            f"{number(held)} of {device.counted(total)} {'is' if held == 1 else 'are'} held; the rest takes no jobs."
        )
    elif held > 1:
        words = f"All {device.counted(held)} are held."
    else:
        words = f"No {device.one} is free."
    broken = [
        f"{device.one} {gpu['index']} of {row['name']}" for row in servers for gpu in row["gpus"] if not gpu["healthy"]
    ]
    if broken:
        more = f" and {number(len(broken) - 3)} more" if len(broken) > 3 else ""
        words += f" Broken: {', '.join(broken[:3])}{more}."
    return words


def ahead_title(explain: Explanation) -> str:
    """Return how many jobs go first, as a finding."""
    count, position = explain["num_ahead"], explain["position"]
    if not position:
        return _without_place(explain)
    if not count:
        return "It is first in line"
    return f"{counted(count, 'job')} {'is' if count == 1 else 'are'} ahead of it"


def starts_when(subject: Subject) -> str:
    """Return when the first in line starts, and what jobs behind it may do until then."""
    explain, device = subject.explain, subject.device
    gpus = 1 if subject.job.smoke_due else subject.job.num_gpus
    if explain["reason"] not in OF_PLACE:
        return "It starts with the first round in which it passes every check."
    starts = f"It starts with the first round that finds {device.counted(gpus)} for it"
    if gpus == 1:
        return f"{starts}."
    if not getattr(config_of(cluster_row()).policy, "backfill", True):  # ``MayBackfill``
        return f"{starts}; until then no job behind it in its queue starts."
    return f"{starts}; until then smaller jobs may start on {device.many} that are too few for it."


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
