"""Turns a plan and what became of it into ``Round.decisions``, so that any past decision can be explained.

The shape is ``scheduler.models.round.Decisions``. Decisions equal to those of an earlier round are kept as a
reference to it; only the first ``WAITING_MOST`` waiting jobs and the first ``KEYS_MOST`` keys are kept.
"""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from scheduler.core.model.plan import Plan
from scheduler.core.model.tables import NO_ROW
from scheduler.core.operations.place_in_line import Placed
from scheduler.live.rounds.apply_plan import AppliedPlan
from scheduler.live.rounds.seats import granted_seats
from scheduler.live.rounds.snapshot import LiveSnapshot
from scheduler.models import Round
from scheduler.models.round import DecidedGrant, DecidedPreemption, DecidedSeat, DecidedWait, Decisions

WAITING_MOST = 2_000
KEYS_MOST = 100


def decisions_of(live: LiveSnapshot, plan: Plan, applied: AppliedPlan, line: Sequence[Placed]) -> Decisions:
    """Return the decisions of a round with their results; ``line`` are the jobs that wait."""
    numbers = live.tables.jobs.job_id.tolist()
    waiting: list[DecidedWait] = [
        {"job": numbers[row], "position": place, "reason": str(reason), "evidence": evidence}
        for row, place, (reason, evidence) in line[:WAITING_MOST]
    ]
    waiting += [
        {"job": numbers[row], "position": None, "reason": "reconfiguring", "evidence": evidence}
        for row, evidence in sorted(applied.deferred.items())
    ]
    by_reason = Counter(str(reason) for _, _, (reason, _) in line)
    by_reason.update(["reconfiguring"] * len(applied.deferred))
    return {
        "grants": _grants(live, plan, applied),
        "preemptions": _preemptions(live, plan, applied),
        "waiting": waiting[:WAITING_MOST],
        "waiting_by_reason": dict(sorted(by_reason.items())),
    }


def _preemptions(live: LiveSnapshot, plan: Plan, applied: AppliedPlan) -> list[DecidedPreemption]:
    numbers, parked = live.tables.jobs.job_id.tolist(), set(applied.parked)
    entries: list[DecidedPreemption] = []
    for preemption in plan.preemptions:
        entry: DecidedPreemption = {
            "job": numbers[preemption.job],
            "rule": str(preemption.rule),
            "by_job": None if preemption.by_job == NO_ROW else numbers[preemption.by_job],
            "evidence": preemption.evidence,
        }
        if preemption.job in parked:
            entry["parks"] = True
        entries.append(entry)
    return entries


def _grants(live: LiveSnapshot, plan: Plan, applied: AppliedPlan) -> list[DecidedGrant]:
    numbers, server_numbers = live.tables.jobs.job_id.tolist(), live.tables.servers.server_id.tolist()
    seats: dict[int, list[DecidedSeat]] = {
        row: [
            {
                "server": server_numbers[seat.server],
                "gpus": seat.num_gpus,
                "cpus": round(float(seat.cpus), 3),  # of numpy's floats it takes twenty times as long
                "memory_bytes": seat.memory_bytes,
            }
            for seat in granted
        ]
        for row, granted in granted_seats(live, plan).items()
    }
    states = dict.fromkeys(applied.launched, "launched") | dict.fromkeys(applied.deferred, "reconfiguring")
    states |= dict.fromkeys(applied.continued, "continued") | dict.fromkeys(plan.kept, "kept")
    states |= dict.fromkeys(plan.resized, "resized")
    entries: list[DecidedGrant] = []
    for row in plan.order:
        if row not in seats:
            continue
        entry: DecidedGrant = {"job": numbers[row], "state": states.get(row, "skipped"), "seats": seats[row]}
        if row in plan.riding:
            entry["riding"] = numbers[plan.riding[row]]
        entries.append(entry)
    return entries


def keys_of(live: LiveSnapshot, plan: Plan) -> list[list[float | str]]:
    """Return the first jobs in the order of the policy with the keys that made it; a key that is not finite is text.

    Jobs that the policy was not asked about are left out; nothing is returned where another order than its own ruled.
    """
    rows = np.array(plan.order, dtype=np.int64) if len(plan.keys) else np.zeros(0, dtype=np.int64)
    rows = rows[~np.isnan(plan.keys[rows])][:KEYS_MOST]
    numbers, keys = live.tables.jobs.job_id[rows].tolist(), plan.keys[rows].tolist()
    return [
        [number, round(key, 6) if math.isfinite(key) else str(key)] for number, key in zip(numbers, keys, strict=True)
    ]


def shortened(decisions: Decisions, *, round_number: int) -> Decisions:
    """Return a reference to the round before when nothing differs, else the decisions themselves."""
    before = Round.objects.filter(number=round_number - 1).values_list("decisions", flat=True).first()
    if before is None:
        return decisions
    same_as = int(before.get("same_as", round_number - 1))
    if "same_as" in before:
        before = Round.objects.filter(number=same_as).values_list("decisions", flat=True).first()
    # Keys drift with time; decisions that are otherwise equal are the same.
    before = {name: value for name, value in (before or {}).items() if name != "keys"}
    return {"same_as": same_as} if before == decisions else decisions
