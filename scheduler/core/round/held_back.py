"""Leave jobs out of a round that may not start yet: jobs that wait for others, and those beyond their array's limit.

They are left out before anything is decided, so no policy, share or trial sees them; the plan names them last, with
their reasons. Of an array those that run come first, then those that have run, then the lowest number. Replays decide
the same as jobs arrive and end: ``scheduler/simulator/state/held_jobs.py``.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from scheduler.core.model.plan import Cause, Plan, WaitReason, Waits, plan_digest
from scheduler.core.model.tables import Snapshot, only_jobs


def held_rows(snapshot: Snapshot) -> dict[int, Cause]:
    """Return the waiting jobs that may not start, by row, with the reason."""
    if not snapshot.after and not snapshot.arrays:
        return {}
    jobs = snapshot.jobs
    row_of = {number: row for row, number in enumerate(jobs.job_id.tolist())}
    running: list[bool] = jobs.running.tolist()
    held: dict[int, Cause] = {}
    for after in snapshot.after:
        cause: Cause = (WaitReason.DEPENDENCY, {"first_number": after.on[0], "jobs": len(after.on)})
        waiting = (row_of[number] for number in after.jobs if number in row_of)
        held |= {row: cause for row in waiting if not running[row]}
    begun: list[bool] = np.isfinite(jobs.first_start_s).tolist()
    for array in snapshot.arrays:
        known = (row_of[number] for number in array.jobs if number in row_of)
        rows = sorted(
            (row for row in known if row not in held),
            key=lambda row: (not running[row], not begun[row], jobs.job_id[row]),
        )
        room = max(0, array.most - array.outside)
        beyond = [row for row in rows[room:] if not running[row]]
        at_work = array.outside + len(rows) - len(beyond)
        cause = (
            WaitReason.ARRAY_LIMIT,
            {"array_number": array.number, "array_most": array.most, "array_at_work": at_work},
        )
        held |= dict.fromkeys(beyond, cause)
    return held


def plan_without(snapshot: Snapshot, held: Mapping[int, Cause], decide: Callable[[Snapshot], Plan]) -> Plan:
    """Return the plan of the other jobs, in which these wait last.

    Args:
        snapshot: All jobs.
        held: What ``held_rows`` found, not empty.
        decide: Plans a round.
    """
    last = sorted(held)
    others = np.delete(np.arange(len(snapshot.jobs)), last)
    plan = decide(replace(only_jobs(snapshot, others), arrays=(), after=())).on_rows(others, len(snapshot.jobs))
    waiting = Waits(
        job=np.concatenate((plan.waiting.job, np.array(last, dtype=np.int64))),
        causes=[*plan.waiting.causes, *(held[row] for row in last)],
    )
    order = [*plan.order, *last]
    return replace(
        plan,
        order=order,
        waiting=waiting,
        plan_hash=plan_digest(
            snapshot,
            grants=plan.grants,
            order=order,
            preemptions=plan.preemptions,
            waiting=waiting,
            riding=plan.riding,
        ),
    )
