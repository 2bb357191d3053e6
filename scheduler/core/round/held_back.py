"""Leave jobs out of a round that may not start yet: jobs that wait for others, and those beyond their array's limit.

They are left out before anything is decided, so no policy, share or trial sees them; the plan names them last, with
their reasons. Of an array those that run come first, then those that have run, then the lowest number. Replays decide
the same as jobs arrive and end: ``scheduler/simulator/state/held_jobs.py``.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from scheduler.core.model.plan import Cause, Plan, Preemptions, WaitReason, Waits, plan_digest
from scheduler.core.model.tables import NO_ROW, IntArray, Snapshot, only_jobs


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
    return _widened(decide(replace(only_jobs(snapshot, others), arrays=(), after=())), snapshot, others, held, last)


def _widened(plan: Plan, snapshot: Snapshot, rows: IntArray, held: Mapping[int, Cause], last: list[int]) -> Plan:
    """Return a plan whose row r means row ``rows[r]`` of the snapshot."""
    before = plan.preemptions
    by_job = np.append(rows, NO_ROW)[before.by_job]  # NO_ROW is the last
    preemptions = Preemptions(
        job=rows[before.job], rules=before.rules, by_job=by_job.astype(np.int64), evidence=before.evidence
    )
    waiting = Waits(
        job=np.concatenate((rows[plan.waiting.job], np.array(last, dtype=np.int64))),
        causes=[*plan.waiting.causes, *(held[row] for row in last)],
    )
    grants = replace(plan.grants, job=rows[plan.grants.job])
    order = [*rows[np.array(plan.order, dtype=np.int64)].tolist(), *last]
    riding = {int(rows[guest]): int(rows[host]) for guest, host in plan.riding.items()}
    return replace(
        plan,
        grants=grants,
        order=order,
        kept=frozenset(rows[list(plan.kept)].tolist()),
        resized=frozenset(rows[list(plan.resized)].tolist()),
        lent=frozenset(rows[list(plan.lent)].tolist()),
        riding=riding,
        preemptions=preemptions,
        waiting=waiting,
        plan_hash=plan_digest(
            snapshot, grants=grants, order=order, preemptions=preemptions, waiting=waiting, riding=riding
        ),
    )
