"""The check that a job does not pass for each reason to wait: a name and what was found.

A list of checks always has this one, so that it never says that all is well of a job that waits.
"""

from collections.abc import Callable

from scheduler.core.model.plan import Evidence, WaitReason
from scheduler.core.operations.needed_change import name, quantity


def failing_check(reason: WaitReason | str, evidence: Evidence) -> tuple[str, str]:
    """Return name and finding of the check that is not passed.

    Args:
        reason: Why the job waits.
        evidence: Its numbers and names, as for ``scheduler.core.operations.reasons.sentence``.
    """
    return _CHECKS[WaitReason(reason)](evidence)


def _count(evidence: Evidence, key: str) -> str:
    return str(evidence.get(key, "?"))


def _of_queue(evidence: Evidence) -> str:
    # The words for a queue that the reader may not see are written to begin a sentence; here they stand inside one.
    queue = name(evidence, "queue", "its queue")
    return f"a{queue[1:]}" if queue.startswith("A queue above ") else queue


def _sum(evidence: Evidence, held: str, most: str, words: str) -> str:
    return f"{_count(evidence, held)} + {_count(evidence, 'needed_gpus')} of {words}{_count(evidence, most)}"


def _quota(evidence: Evidence) -> tuple[str, str]:
    return f"Quota of {_of_queue(evidence)}", _sum(evidence, "queue_held_gpus", "queue_quota_gpus", "")


def _queue_max(evidence: Evidence) -> tuple[str, str]:
    return f"Limit of {_of_queue(evidence)}", _sum(evidence, "queue_held_gpus", "queue_max_gpus", "at most ")


def _user_limit(evidence: Evidence) -> tuple[str, str]:
    return f"Limit of one user in {_of_queue(evidence)}", _sum(evidence, "user_held_gpus", "user_max_gpus", "at most ")


def _array_limit(evidence: Evidence) -> tuple[str, str]:
    at_work, most = _count(evidence, "array_at_work"), _count(evidence, "array_most")
    return "Limit of its array", f"{at_work} + 1 of at most {most} at work"


def _dependency(evidence: Evidence) -> tuple[str, str]:
    number = evidence.get("first_number")
    job = name(evidence, "job", f"J-{number}" if number else "another job")
    until = {"completed": "completed", "failed": "failed"}.get(str(evidence.get("until")), "ended")
    return "Jobs that it waits for", f"{job} has not {until}"


def _no_capacity(evidence: Evidence) -> tuple[str, str]:
    return "GPUs in the cluster", f"needs {_count(evidence, 'needed_gpus')}, {_count(evidence, 'free_gpus')} free"


def _behind(evidence: Evidence) -> tuple[str, str]:
    ahead, free, needed = evidence.get("ahead_jobs"), evidence.get("free_gpus"), evidence.get("needed_gpus")
    if isinstance(free, int) and isinstance(needed, int) and free < needed:
        return _no_capacity(evidence)  # the sentence says so too: the check of free GPUs cannot be passed beside it
    if ahead == 0:  # those that were have left the line since: the check of that name would be passed
        return _no_capacity(evidence) if "free_gpus" in evidence else ("Rounds", "none since it came first in line")
    if "first_needs_gpus" in evidence:
        return "Jobs ahead", f"the first of them waits for {quantity(evidence, 'first_needs_gpus')}"
    first = "1 goes first" if ahead == 1 else f"{ahead or 'others'} go first"
    return "Jobs ahead", first if free is None else f"{first}, {free} free"


def _fragmentation(evidence: Evidence) -> tuple[str, str]:
    most = evidence.get("max_servers", 1)
    where = "one server" if most == 1 else f"{most} servers" if most else "the servers"
    found = f"largest is {_count(evidence, 'largest_free_gpus')}"
    if evidence.get("too_spread"):
        found = "free, but not where this round may seat it"
    return f"GPUs on {where}", f"needs {_count(evidence, 'needed_gpus')}, {found}"


def _never(evidence: Evidence) -> tuple[str, str]:
    if drained := evidence.get("drained"):
        return "Size of the servers", f"{drained} is drained"
    if "largest_possible_gpus" not in evidence:
        return "Size of the servers", "none could hold it"
    needed, most = _count(evidence, "needed_gpus"), _count(evidence, "largest_possible_gpus")
    return "Size of the servers", f"needs {needed}, {most} at most"


def _isolation(evidence: Evidence) -> tuple[str, str]:
    barred, servers = evidence.get("barred_servers"), evidence.get("servers")
    if not isinstance(barred, int) or not isinstance(servers, int):
        return "Isolation of servers", "none with room keeps jobs apart well enough"
    room = ", without room" if barred < servers else ""
    keep = "keeps" if servers - barred == 1 else "keep"
    return "Isolation of servers", f"{servers - barred} of {servers} {keep} jobs apart well enough{room}"


def _preparing(evidence: Evidence) -> tuple[str, str]:
    ready = evidence.get("ready_servers")
    found = f"ready on {ready} of {_count(evidence, 'servers')} servers, without room" if ready else "being prepared"
    return "Python environment", found


def _backoff(evidence: Evidence) -> tuple[str, str]:
    return "Pause after a failure", f"tried again at {evidence['retry_at']}" if "retry_at" in evidence else "not over"


def _stale(evidence: Evidence) -> tuple[str, str]:
    return "Scheduler", f"no round since {evidence['since']}" if "since" in evidence else "no round for too long"


_CHECKS: dict[WaitReason, Callable[[Evidence], tuple[str, str]]] = {
    WaitReason.NEW: lambda _: ("Rounds", "the next one decides"),
    WaitReason.QUEUE_QUOTA: _quota,
    WaitReason.QUEUE_MAX: _queue_max,
    WaitReason.USER_LIMIT: _user_limit,
    WaitReason.ARRAY_LIMIT: _array_limit,
    WaitReason.DEPENDENCY: _dependency,
    WaitReason.NO_CAPACITY: _no_capacity,
    WaitReason.BEHIND_POLICY_ORDER: _behind,
    WaitReason.FRAGMENTATION: _fragmentation,
    WaitReason.CPU_OR_MEMORY: lambda _: ("CPU and memory", "too little beside free GPUs"),
    WaitReason.NEVER_FEASIBLE: _never,
    WaitReason.ISOLATION: _isolation,
    WaitReason.PREPARING_ENVIRONMENT: _preparing,
    WaitReason.NO_SERVER: lambda evidence: ("Servers", "all are drained" if evidence.get("drained") else "none is up"),
    WaitReason.RECONFIGURING: lambda _: ("GPUs that it was granted", "other jobs have not left them yet"),
    WaitReason.BACKOFF: _backoff,
    WaitReason.HELD: lambda _: ("Suspended", "not resumed yet"),
    WaitReason.POLICY_PAUSED: lambda _: ("Scheduler", "paused by an admin"),
    WaitReason.SCHEDULER_STALE: _stale,
}
