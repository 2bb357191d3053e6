"""What the next round would do under other settings: one round is planned on the present state, and nothing is applied.

The tables are made by the code of a live round, so an answer is what a round made at the same moment would decide. What
is submitted, ends or reports until then may change it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

import numpy as np

from scheduler.core.model.errors import PlanInvariantError
from scheduler.core.model.plan import Plan
from scheduler.core.model.tables import Placements
from scheduler.core.round.config import SchedulerConfig
from scheduler.core.round.plan_round import plan_round
from scheduler.live.rounds.run_round import forming_kept, with_promotions
from scheduler.live.rounds.snapshot import LiveSnapshot, snapshot_read
from scheduler.models import Job
from scheduler.selectors.visibility import Actor
from scheduler.services.cluster.settings import cluster_row, config_with, settings_checked, settings_of
from scheduler.services.permission import require_admin

# Jobs of each kind that are named; the others are counted.
NAMED_MOST = 12

Unknown = Literal["", "paused", "refused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Affected:
    """Jobs that a round treats alike.

    Attributes:
        count, num_gpus: Of all of them, and what they hold or get.
        named: The first of them.
    """

    count: int = 0
    num_gpus: int = 0
    named: tuple[Job, ...] = ()

    @property
    def unnamed(self) -> int:
        """Return how many are not named."""
        return self.count - len(self.named)


@dataclass(frozen=True, slots=True, kw_only=True)
class NextRound:
    """What a round made now would do.

    Attributes:
        unknown: Why nothing is known; empty where it is: scheduling is paused, or the plan breaks a rule.
        preempted: Running jobs that would leave their servers, in the order of the plan.
        elsewhere: How many of them would go on on other servers in the same round.
        starts: Waiting jobs that would get GPUs, some after the preempted jobs have left, in the order of the policy.
        resized: Running jobs that would go on with another number of GPUs.
        preempted_anyway: Jobs that a round with the settings in force would preempt.
    """

    unknown: Unknown = ""
    preempted: Affected = Affected()
    elsewhere: int = 0
    starts: Affected = Affected()
    resized: int = 0
    preempted_anyway: int = 0


def next_round(*, actor: Actor, changes: Mapping[str, Any], at: datetime) -> NextRound:
    """Return what a round made at ``at`` would do after a change of the settings.

    Args:
        changes: As ``settings_change`` takes them.

    Raises:
        NotAllowed: ``actor`` is no admin.
        SpecInvalid: As ``settings_change``.
    """
    require_admin(actor, "ask what other settings would do to the jobs of the cluster")
    cluster = cluster_row()
    before = settings_of(cluster)
    after = settings_checked(before, changes)
    if after["paused"]:
        return NextRound(unknown="paused")
    live = snapshot_read(cluster, at=at)
    try:
        plan = _plan(live, config_with(after))
    except PlanInvariantError:  # the live round refuses such a plan as well
        return NextRound(unknown="refused")
    preempted, starts = _preempted(live, plan), _starts(live, plan)
    granted = set(plan.grants.job.tolist())
    return NextRound(
        preempted=_affected(live, preempted, live.tables.held),
        elsewhere=sum(row in granted for row in preempted),
        starts=_affected(live, starts, plan.grants),
        resized=len(plan.resized),
        preempted_anyway=_preempted_anyway(live, before),
    )


def _plan(live: LiveSnapshot, config: SchedulerConfig) -> Plan:
    """Return what a round with this configuration decides; nothing is written, promotions neither."""
    seen = forming_kept(replace(live, tables=with_promotions(live.tables, config)), config)
    return plan_round(seen.tables, config)


def _preempted(live: LiveSnapshot, plan: Plan) -> list[int]:
    return [preemption.job for preemption in plan.preemptions if preemption.job in live.attempt_pks]


def _starts(live: LiveSnapshot, plan: Plan) -> list[int]:
    granted, running = set(plan.grants.job.tolist()), live.tables.jobs.running.tolist()
    return [row for row in plan.order if row in granted and not running[row]]


def _preempted_anyway(live: LiveSnapshot, settings: Mapping[str, Any]) -> int:
    try:
        return len(_preempted(live, _plan(live, config_with(settings))))
    except PlanInvariantError:
        return 0


def _affected(live: LiveSnapshot, rows: list[int], seats: Placements) -> Affected:
    """Return the jobs in ``rows`` with the GPUs that ``seats`` has of them."""
    num_gpus = int(seats.num_gpus[np.isin(seats.job, rows)].sum())
    pks = [live.job_pks[row] for row in rows[:NAMED_MOST]]
    jobs = Job.objects.filter(pk__in=pks).select_related("queue").defer("spec").in_bulk()
    named = tuple(jobs[pk] for pk in pks if pk in jobs)
    return Affected(count=len(rows), num_gpus=num_gpus, named=named)
