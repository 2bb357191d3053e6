"""What is kept of a round's decisions, as JSON, so that any past decision can be read and explained.

Shape of ``Round.decisions`` (jobs by number, servers by number):
    grants: [{job, state: kept | resized | launched | continued | reconfiguring | skipped, riding: its host or absent,
        seats: [{server, gpus, cpus, memory_bytes}]}]
    preemptions: [{job, rule, by_job, evidence, parks: true or absent}]
    waiting: [{job, position, reason, evidence}], the first ``WAITING_MOST`` in the order of the policy
    waiting_by_reason: {reason: count}, all of them
    keys: [[job, key]], the first ``KEYS_MOST`` in the order of the policy, smallest first; only where decisions differ
    trials: what introspection tried or judged, see ``trials.Tried``; absent when nothing
or ``{"same_as": number}`` when they equal those of an earlier round, word for word.
"""

import math
from collections import Counter, defaultdict
from typing import Any

from scheduler.core.model.plan import Plan
from scheduler.core.model.tables import NO_ROW
from scheduler.core.round.config import SchedulerConfig
from scheduler.live.rounds.apply_plan import AppliedPlan
from scheduler.live.rounds.snapshot import LiveSnapshot
from scheduler.models import Round

WAITING_MOST = 2_000
KEYS_MOST = 100

Decisions = dict[str, Any]  # JSON of the shape above


def decisions_of(live: LiveSnapshot, plan: Plan, applied: AppliedPlan) -> Decisions:
    """Return what a round decided and what became of it."""
    numbers = live.tables.jobs.job_id.tolist()
    parked = set(applied.parked)
    waiting = [
        {"job": numbers[w.job], "position": w.position, "reason": str(w.reason), "evidence": w.evidence}
        for w in plan.waiting
    ]
    waiting += [
        {"job": numbers[row], "position": None, "reason": "reconfiguring", "evidence": evidence}
        for row, evidence in sorted(applied.deferred.items())
    ]
    return {
        "grants": _grants(live, plan, applied),
        "preemptions": [
            {
                "job": numbers[p.job],
                "rule": str(p.rule),
                "by_job": None if p.by_job == NO_ROW else numbers[p.by_job],
                "evidence": p.evidence,
            }
            | ({"parks": True} if p.job in parked else {})
            for p in plan.preemptions
        ],
        "waiting": waiting[:WAITING_MOST],
        "waiting_by_reason": dict(sorted(Counter(str(entry["reason"]) for entry in waiting).items())),
    }


def _grants(live: LiveSnapshot, plan: Plan, applied: AppliedPlan) -> list[Decisions]:
    numbers, server_numbers = live.tables.jobs.job_id.tolist(), live.tables.servers.server_id.tolist()
    seats: dict[int, list[Decisions]] = defaultdict(list)
    grants = plan.grants
    for job, server, gpus, cpus, memory in zip(
        grants.job.tolist(),
        grants.server.tolist(),
        grants.num_gpus.tolist(),
        grants.cpus.tolist(),
        grants.memory_bytes.tolist(),
        strict=True,
    ):
        seats[job].append(
            {"server": server_numbers[server], "gpus": gpus, "cpus": round(cpus, 3), "memory_bytes": int(memory)}
        )
    states = dict.fromkeys(applied.launched, "launched") | dict.fromkeys(applied.deferred, "reconfiguring")
    states |= dict.fromkeys(applied.continued, "continued") | dict.fromkeys(plan.kept, "kept")
    states |= dict.fromkeys(plan.resized, "resized")
    return [
        {"job": numbers[row], "state": states.get(row, "skipped"), "seats": seats[row]}
        | ({"riding": numbers[plan.riding[row]]} if row in plan.riding else {})
        for row in plan.order
        if row in seats
    ]


def keys_of(live: LiveSnapshot, plan: Plan, config: SchedulerConfig) -> list[list[Any]]:
    """Return the first jobs in the order of the policy with the keys that made it; a key that is not finite is text."""
    numbers, keys = live.tables.jobs.job_id.tolist(), config.policy.priority(live.tables).tolist()
    rows = plan.order[:KEYS_MOST]
    return [[numbers[row], round(keys[row], 6) if math.isfinite(keys[row]) else str(keys[row])] for row in rows]


def shortened(decisions: Decisions, *, round_number: int) -> Decisions:
    """Return a reference to the round before when nothing differs, else the decisions themselves."""
    before = Round.objects.filter(number=round_number - 1).values_list("decisions", flat=True).first()
    if before is None:
        return decisions
    same_as = int(before.get("same_as", round_number - 1))
    if "same_as" in before:
        before = Round.objects.filter(number=same_as).values_list("decisions", flat=True).first()
    # Keys drift with time; what they led to is what counts.
    before = {name: value for name, value in (before or {}).items() if name != "keys"}
    return {"same_as": same_as} if before == decisions else decisions
