"""What has to change before a job that waits can start, where no end of a running job is enough.

Sentence, checks and start estimate of a reason all ask here, so that none promises a start that cannot come.
"""

from collections.abc import Callable

from scheduler.core.model.plan import Evidence, WaitReason


def needed_change(reason: WaitReason | str, evidence: Evidence) -> str:
    """Return what completes "It cannot start until ..."; empty where jobs that end, or the next round, may start it.

    Args:
        reason: Why the job waits.
        evidence: Its numbers and names, as for ``scheduler.core.operations.reasons.sentence``.
    """
    find = _CHANGES.get(WaitReason(reason))
    return find(evidence) if find else ""


def cannot_start(reason: WaitReason | str, evidence: Evidence) -> str:
    """Return the same as a sentence with a blank before it, to put behind another one."""
    change = needed_change(reason, evidence)
    return f" It cannot start until {change}." if change else ""


def quantity(evidence: Evidence, key: str, unit: str = "GPU") -> str:
    """Return ``8 GPUs``, ``1 GPU``, or ``enough GPUs`` when the number is not known."""
    value = evidence.get(key)
    if not isinstance(value, int | float):
        return f"enough {unit}s"
    text = f"{value:,.10g}".replace(",", "\N{NARROW NO-BREAK SPACE}")
    return f"{text} {unit}" if value == 1 else f"{text} {unit}s"


def name(evidence: Evidence, key: str, otherwise: str) -> str:
    """Return a name that a shell added to the evidence."""
    return str(evidence.get(key) or otherwise)


def _exceeds(evidence: Evidence, limit: str) -> bool:
    """Return whether the job is larger than a limit that ends of other jobs do not raise."""
    least, most = evidence.get("least_gpus", evidence.get("needed_gpus")), evidence.get(limit)
    return isinstance(least, int | float) and isinstance(most, int | float) and least > most


def _or_fewer(evidence: Evidence, limit: str) -> str:
    return ", or it asks for fewer" if evidence.get(limit) else ""


def _quota(evidence: Evidence) -> str:
    if evidence.get("may_borrow") or not _exceeds(evidence, "queue_quota_gpus"):
        return ""
    queue, fewer = name(evidence, "queue", "its queue"), _or_fewer(evidence, "queue_quota_gpus")
    return f"{queue} has a quota of {quantity(evidence, 'needed_gpus')} or may borrow{fewer}"


def _queue_max(evidence: Evidence) -> str:
    if not _exceeds(evidence, "queue_max_gpus"):
        return ""
    queue, fewer = name(evidence, "queue", "its queue"), _or_fewer(evidence, "queue_max_gpus")
    return f"{queue} may hold {quantity(evidence, 'needed_gpus')}{fewer}"


def _user_limit(evidence: Evidence) -> str:
    if not _exceeds(evidence, "user_max_gpus"):
        return ""
    queue = name(evidence, "queue", "its queue")
    return f"one user may hold {quantity(evidence, 'needed_gpus')} in {queue}, or it asks for fewer"


def _dependency(evidence: Evidence) -> str:
    job, state = evidence.get("stuck_job"), evidence.get("stuck_state")
    return f"{job} {'is resumed' if state == 'suspended' else 'can start'}" if job else ""


def _drained(evidence: Evidence) -> str:
    others = int(evidence.get("drained_servers", 1)) > 1
    return f"{evidence['drained']}{' or another drained server' if others else ''} takes jobs again"


def _never(evidence: Evidence) -> str:
    if evidence.get("drained"):
        return _drained(evidence)
    fewer = _or_fewer(evidence, "largest_possible_gpus")
    return f"servers that can give it {quantity(evidence, 'needed_gpus')} are up{fewer}"


def _isolation(evidence: Evidence) -> str:
    barred, servers = evidence.get("barred_servers"), evidence.get("servers")
    if (barred is None or barred != servers) and not _exceeds(evidence, "largest_possible_gpus"):
        return ""
    queue, fewer = name(evidence, "queue", "its queue"), _or_fewer(evidence, "largest_possible_gpus")
    needed = quantity(evidence, "needed_gpus")
    return f"servers that keep jobs apart well enough for {queue} can give it {needed}{fewer}"


_CHANGES: dict[WaitReason, Callable[[Evidence], str]] = {
    WaitReason.QUEUE_QUOTA: _quota,
    WaitReason.QUEUE_MAX: _queue_max,
    WaitReason.USER_LIMIT: _user_limit,
    WaitReason.DEPENDENCY: _dependency,
    WaitReason.NEVER_FEASIBLE: _never,
    WaitReason.ISOLATION: _isolation,
    WaitReason.NO_SERVER: lambda evidence: _drained(evidence) if evidence.get("drained") else "a server is up",
    WaitReason.HELD: lambda _: "it is resumed",
    WaitReason.POLICY_PAUSED: lambda _: "an admin resumes scheduling",
    WaitReason.SCHEDULER_STALE: lambda _: "the scheduler finishes rounds again",
}
