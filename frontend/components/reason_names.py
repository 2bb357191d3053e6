"""The reasons of waiting in two or three words, each with its tone.

A start is no alarm: until the first server has reported, jobs wait for one. That servers are lost is told by alerts.
"""

from scheduler.core.model.plan import WaitReason

REASON_NAMES: dict[str, tuple[str, str]] = {
    WaitReason.NEW: ("Not looked at yet", "mute"),
    WaitReason.QUEUE_QUOTA: ("Quota of the queue", "mute"),
    WaitReason.QUEUE_MAX: ("Limit of the queue", "mute"),
    WaitReason.USER_LIMIT: ("Limit of a user", "mute"),
    WaitReason.ARRAY_LIMIT: ("Limit of its array", "mute"),
    WaitReason.DEPENDENCY: ("Waits for other jobs", "info"),
    WaitReason.NO_CAPACITY: ("Too few free", "warn"),
    WaitReason.BEHIND_POLICY_ORDER: ("Behind other jobs", "info"),
    WaitReason.FRAGMENTATION: ("Free in pieces", "warn"),
    WaitReason.CPU_OR_MEMORY: ("Cores or memory", "warn"),
    WaitReason.NEVER_FEASIBLE: ("Fits no server now", "bad"),
    WaitReason.ISOLATION: ("Isolation of servers", "warn"),
    WaitReason.PREPARING_ENVIRONMENT: ("Environment in preparation", "teal"),
    WaitReason.NO_SERVER: ("No server yet", "info"),
    WaitReason.RECONFIGURING: ("Waits for another to leave", "teal"),
    WaitReason.BACKOFF: ("Pause after a failure", "mute"),
    WaitReason.HELD: ("Suspended", "warn"),
    WaitReason.POLICY_PAUSED: ("Scheduling paused", "mute"),
    WaitReason.SCHEDULER_STALE: ("No round", "bad"),
}


def reason_name(reason: str) -> tuple[str, str]:
    """Return what a reason is called, and its tone."""
    return REASON_NAMES.get(reason, (reason.replace("_", " "), "mute"))
