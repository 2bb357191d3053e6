"""Detect jobs that hold GPUs without using them, and decide what happens to them.

The owner of such a job is told as soon as its GPUs did nothing for as long as its queue allows. The job is stopped only
where the queue says so, a grace later, and never while it computes on its cores or makes steps.
"""

from dataclasses import dataclass
from enum import StrEnum

GPU_BELOW_FRAC = 0.05
WORKING_CORES = 0.5  # a process that computes keeps a core busy; one that waits for its user does not
SILENT_S = 30.0  # without a report for so long nothing is known
GRACE_MOST_S = 900.0


class IdleAction(StrEnum):
    """What happens to a job whose GPUs stay idle after its owner was told."""

    TELL = "tell"  # its owner is told, no more
    SUSPEND = "suspend"  # it writes a checkpoint and gives its GPUs back until it is resumed
    CANCEL = "cancel"  # it ends for good


class IdleStep(StrEnum):
    """The next step against an idle job."""

    NOTHING = "nothing"
    TELL = "tell"
    FORGET = "forget"  # it was told of, and uses its GPUs again
    ACT = "act"


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleRule:
    """The rule of a queue: how long GPUs may be idle, seconds, and what happens then."""

    after_s: float
    action: IdleAction

    @property
    def grace_s(self) -> float:
        """Return the time between telling and acting: as long again, but no longer than GRACE_MOST_S."""
        return min(self.after_s, GRACE_MOST_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The activity of one running job, from its reports. Times are of one monotonic clock, seconds.

    Attributes:
        heard_s: The newest report.
        used_s: The newest in which its GPUs did something; the first report counts as such.
        worked_s: The newest in which it used its GPUs, computed on its cores or had made a step.
        step: The furthest step; None before the first.
    """

    heard_s: float
    used_s: float
    worked_s: float
    step: int | None


def seen_after(before: Seen | None, *, now_s: float, gpu_frac: float, busy_cores: float, step: int | None) -> Seen:
    """Return what is known after one more report.

    Args:
        before: What was known; None for the first report of a run.
        now_s: Now, seconds.
        gpu_frac: Mean utilization of its GPUs, 0 to 1.
        busy_cores: Cores that it keeps busy.
        step: Its step; None when it reports none.
    """
    if before is None or now_s - before.heard_s > SILENT_S:
        return Seen(heard_s=now_s, used_s=now_s, worked_s=now_s, step=step)
    uses = gpu_frac >= GPU_BELOW_FRAC
    steps = step is not None and (before.step is None or step > before.step)
    works = uses or steps or busy_cores >= WORKING_CORES
    return Seen(
        heard_s=now_s,
        used_s=now_s if uses else before.used_s,
        worked_s=now_s if works else before.worked_s,
        step=step if steps else before.step,
    )


def idle_step(seen: Seen, rule: IdleRule, *, is_told: bool, now_s: float) -> IdleStep:
    """Return the next step against a job whose reports are not older than SILENT_S."""
    if now_s - seen.used_s < rule.after_s:
        return IdleStep.FORGET if is_told else IdleStep.NOTHING
    if not is_told:
        return IdleStep.TELL
    rests_s = now_s - max(seen.used_s, seen.worked_s)
    if rule.action is not IdleAction.TELL and rests_s >= rule.after_s + rule.grace_s:
        return IdleStep.ACT
    return IdleStep.NOTHING
