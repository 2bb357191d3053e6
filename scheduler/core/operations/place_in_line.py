"""Which jobs that wait after a round have a place in line, and why the first of them waits.

Lists, pages and estimates count by these places alone, so that a job that is told to be ahead really goes first.
"""

from typing import NamedTuple

from scheduler.core.model.plan import Cause, Evidence, Plan, WaitReason
from scheduler.core.operations.needed_change import needed_change

# Jobs that no policy puts in order; a plan names them after all others.
HELD_BACK = frozenset({WaitReason.ARRAY_LIMIT, WaitReason.DEPENDENCY})
# Reasons for which a job by itself may be unable to start; others that need a change, such as a pause, are of all jobs.
OF_ONE_JOB = frozenset(
    {
        WaitReason.QUEUE_QUOTA,
        WaitReason.QUEUE_MAX,
        WaitReason.USER_LIMIT,
        WaitReason.NEVER_FEASIBLE,
        WaitReason.ISOLATION,
    }
)
_MAY_LACK_PLACE = HELD_BACK | OF_ONE_JOB


class Placed(NamedTuple):
    """One job that waits: its row, its place from 1 or None where it has none, and why it waits."""

    job: int
    place: int | None
    cause: Cause


def cannot_start_itself(reason: WaitReason | str, evidence: Evidence) -> bool:
    """Return whether something about this job or what it asks for has to change before it can start."""
    return reason in OF_ONE_JOB and bool(needed_change(reason, evidence))


def line_of(plan: Plan) -> list[Placed]:
    """Return the jobs that wait after a round in the order of the policy; their places have no gaps.

    Jobs that the round stops have none: they wait once they have left their servers.
    """
    leaving = frozenset(plan.preemptions.job.tolist())
    line: list[Placed] = []
    place = 0
    for row, cause in zip(plan.waiting.job.tolist(), plan.waiting.causes, strict=True):
        if row in leaving or (cause[0] in _MAY_LACK_PLACE and not _has_place(cause)):
            line.append(Placed(row, None, cause))
            continue
        place += 1
        line.append(Placed(row, place, _as_first(cause) if place == 1 else cause))
    return line


def _has_place(cause: Cause) -> bool:
    return cause[0] not in HELD_BACK and not cannot_start_itself(*cause)


def _as_first(cause: Cause) -> Cause:
    """Return why the first in line waits: no job that waits is ahead of it, so running ones hold what it needs."""
    reason, evidence = cause
    if reason is WaitReason.BEHIND_POLICY_ORDER and "first_needs_gpus" not in evidence:
        return WaitReason.NO_CAPACITY, evidence
    return cause
