"""Causes in so few words that one line of the wall holds them whole; the pages of jobs have the long sentences."""

from collections.abc import Callable

from frontend.components.formats import counted, shortened
from scheduler.core.model.lifecycle import RANK_ENDED, EndCause
from scheduler.core.model.plan import PreemptRule, WaitReason
from scheduler.selectors.rows import Json

NAME_MOST = 9  # letters of a name within a cause

FAILURES: dict[str, str] = {
    EndCause.EXIT_CODE: "its command failed",
    EndCause.SIGNAL: "its command was killed",
    EndCause.OUT_OF_MEMORY: "out of memory",
    EndCause.OUT_OF_DISK: "out of disk",
    EndCause.COMMAND_NOT_FOUND: "no such command",
    EndCause.SECRET_MISSING: "a secret is missing",
    EndCause.DEPENDENCY: "a job before it failed",
    EndCause.ENVIRONMENT: "no Python environment",
    EndCause.TIME_LIMIT: "time limit reached",
    EndCause.STALLED: "no progress",
    EndCause.PROCESS_LIMIT: "too many processes",
    EndCause.LAUNCH_FAILED: "it could not start",
    EndCause.SERVER_LOST: "its server was lost",
    EndCause.SUPERVISOR_LOST: "its supervisor was lost",
    EndCause.LAUNCH_UNCONFIRMED: "no server confirmed it",
}
PREEMPTIONS: dict[str, str] = {
    PreemptRule.POLICY_ORDER: "another job goes first",
    PreemptRule.QUOTA_RECLAIM: "its GPUs were lent",
    PreemptRule.OVER_SHARE: "its queue borrows too much",
    PreemptRule.SERVER_GONE: "its server leaves",
    PreemptRule.NO_SHARE: "other jobs get its GPUs",
    PreemptRule.REPACKED: "all jobs were placed anew",
    PreemptRule.MOVED: "it goes on elsewhere",
    PreemptRule.UNPACKED: "it shares GPUs no more",
    RANK_ENDED: "one of its processes ended",
    EndCause.LAUNCH_UNCONFIRMED: FAILURES[EndCause.LAUNCH_UNCONFIRMED],
    EndCause.SMOKE_PASSED: "its smoke run has passed",
    EndCause.EARLY_STOPPED: "its loss falls no more",
}
_UNTIL = {"completed": "completes", "failed": "fails"}


def why_preempted(rule: str, *, by: str, own: str) -> str:
    """Return why a job lost its GPUs; ``by`` is the queue that got them, where it is known, ``own`` its own."""
    if rule == PreemptRule.QUOTA_RECLAIM and by:
        return f"{shortened(by, NAME_MOST)} took its quota back"
    if rule == PreemptRule.POLICY_ORDER and by and by != own:
        return f"a job of {shortened(by, NAME_MOST)} goes first"
    return PREEMPTIONS.get(rule, rule.replace("_", " "))


def why_failed(cause: str, exit_code: int | None) -> str:
    """Return why a job failed."""
    if cause == EndCause.EXIT_CODE and exit_code is not None:
        return f"exit code {exit_code}"
    return FAILURES.get(cause, cause.replace("_", " "))


def why_waits(reason: str, evidence: Json) -> str:
    """Return why a job waits; its queue and how many GPUs it needs stand beside it."""
    return _WAITS[WaitReason(reason)](evidence) if reason else ""


def _free(evidence: Json) -> str:
    free = evidence.get("free_gpus") or 0
    return f"only {free} {'is' if free == 1 else 'are'} free" if free else "none is free"


def _quota(evidence: Json) -> str:
    held, quota = evidence.get("queue_held_gpus"), evidence.get("queue_quota_gpus")
    if isinstance(held, int) and isinstance(quota, int) and held < quota:
        return f"{quota - held} of {_quota_of(evidence)} left"
    return f"{_quota_of(evidence)} is used up"


def _quota_of(evidence: Json) -> str:
    return "the quota above" if _is_hidden(evidence) else f"{_queue(evidence)}'s quota"


def _queue(evidence: Json) -> str:
    """Return the binding queue, which may be one above the job's."""
    if _is_hidden(evidence):
        return "a queue above"
    return shortened(str(evidence.get("queue", "")), NAME_MOST) or "its queue"


def _is_hidden(evidence: Json) -> bool:
    """Return whether the binding queue is one above that the reader may not see; see ``selectors.evidence``."""
    return str(evidence.get("queue", "")).startswith("A queue above ")


def _dependency(evidence: Json) -> str:
    number, _, name = str(evidence.get("job", "")).partition(" ")
    job = shortened(name, NAME_MOST + 3) if name else number or "another job"
    return f"until {job} {_UNTIL.get(str(evidence.get('until')), 'ends')}"


def _behind(evidence: Json) -> str:
    ahead, is_strict = evidence.get("ahead_jobs"), "first_needs_gpus" in evidence
    if ahead == 0:
        return "next in line"
    told = f"{counted(ahead, 'job')} ahead" if ahead else "other jobs are ahead"
    return told if is_strict or "free_gpus" not in evidence else f"{told}, {_free(evidence).removeprefix('only ')}"


def _drained(evidence: Json) -> str:
    return f"{shortened(evidence['drained'], NAME_MOST + 3)} is drained" if evidence.get("drained") else ""


_WAITS: dict[WaitReason, Callable[[Json], str]] = {
    WaitReason.NEW: lambda evidence: "the next round decides",
    WaitReason.QUEUE_QUOTA: _quota,
    WaitReason.QUEUE_MAX: lambda evidence: f"{_queue(evidence)} holds all it may",
    WaitReason.USER_LIMIT: lambda evidence: "its owner holds all one may",
    WaitReason.ARRAY_LIMIT: lambda evidence: "its array has enough at work",
    WaitReason.DEPENDENCY: _dependency,
    WaitReason.NO_CAPACITY: _free,
    WaitReason.BEHIND_POLICY_ORDER: _behind,
    WaitReason.FRAGMENTATION: lambda evidence: (
        f"the largest free block is {evidence['largest_free_gpus']}"
        if evidence.get("largest_free_gpus")
        else "no server has so many free"
    ),
    WaitReason.CPU_OR_MEMORY: lambda evidence: "too few cores, or memory",
    WaitReason.NEVER_FEASIBLE: lambda evidence: _drained(evidence) or "no server is large enough",
    WaitReason.ISOLATION: lambda evidence: "no isolated server has room",
    WaitReason.PREPARING_ENVIRONMENT: lambda evidence: "its environment is prepared",
    WaitReason.NO_SERVER: lambda evidence: _drained(evidence) or "no server is up",
    WaitReason.RECONFIGURING: lambda evidence: "until another job has left",
    WaitReason.BACKOFF: lambda evidence: (
        f"tried again at {evidence['retry_at']}" if evidence.get("retry_at") else "tried again soon"
    ),
    WaitReason.HELD: lambda evidence: "suspended",
    WaitReason.POLICY_PAUSED: lambda evidence: "scheduling is paused",
    WaitReason.SCHEDULER_STALE: lambda evidence: "no round has finished",
}
