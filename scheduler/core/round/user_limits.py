"""Decide which jobs wait because their owner may not hold more GPUs in a queue.

A user's running jobs count first, then waiting ones in the order of the policy; a job too wide for what is left is
skipped. A job that waits for room keeps its claim on the limit, so that the user's own smaller jobs do not starve it.
No job is stopped because of a limit: when a limit is lowered, running jobs go on.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.core.model.plan import Cause, Evidence, WaitReason, Waits
from scheduler.core.model.tables import BoolArray, IntArray, JobTable, QueueTable, Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Beyond:
    """Why one job may not start now.

    Attributes:
        limit_gpus: What its owner may hold in its queue.
        held_gpus: GPUs that the owner's jobs hold there, with those of waiting jobs ahead of it.
    """

    limit_gpus: int
    held_gpus: int


def beyond_limits(jobs: JobTable, queues: QueueTable, order: IntArray, possible: BoolArray) -> dict[int, Beyond]:
    """Return the waiting jobs that are beyond the limit of their owner, by row.

    Args:
        jobs: The jobs.
        queues: The queues with their limits.
        order: (n,) job rows in the order of the policy.
        possible: (n,) jobs that could run at all; the others claim nothing.
    """
    limits: list[int] = queues.user_max_gpus[jobs.queue].tolist()
    owner: list[tuple[int, int]] = list(zip(jobs.queue.tolist(), jobs.owner.tolist(), strict=True))
    gpus: list[int] = jobs.num_gpus.tolist()
    runs: list[bool] = jobs.running.tolist()
    used: dict[tuple[int, int], int] = {}
    for row, running in enumerate(runs):
        if running and limits[row]:
            used[owner[row]] = used.get(owner[row], 0) + gpus[row]
    beyond: dict[int, Beyond] = {}
    for row in order[possible[order]].tolist():
        if runs[row] or not limits[row]:
            continue
        held = used.get(owner[row], 0)
        if held + gpus[row] > limits[row]:
            beyond[row] = Beyond(limit_gpus=limits[row], held_gpus=held)
        else:
            used[owner[row]] = held + gpus[row]
    return beyond


def needed_gpus(jobs: JobTable, row: int) -> Evidence:
    """Return what a job asks for, and with how many it would begin where those are fewer."""
    needed, least = int(jobs.num_gpus[row]), int(jobs.min_gpus[row])
    return {"needed_gpus": needed, "least_gpus": least} if least < needed else {"needed_gpus": needed}


def limit_cause(snapshot: Snapshot, row: int, limit: Beyond) -> Cause:
    """Return the limit of its owner as the reason why a job waits."""
    queue = int(snapshot.queues.queue_id[snapshot.jobs.queue[row]])
    return WaitReason.USER_LIMIT, {
        **needed_gpus(snapshot.jobs, row),
        "queue_id": queue,
        "user_held_gpus": limit.held_gpus,
        "user_max_gpus": limit.limit_gpus,
    }


def with_limits_told(waiting: Waits, beyond: Mapping[int, Beyond], snapshot: Snapshot) -> Waits:
    """Return the waiting jobs, with the limit as the reason of those beyond it."""
    if not beyond:
        return waiting
    return waiting.with_causes({row: limit_cause(snapshot, row, limit) for row, limit in beyond.items()})
