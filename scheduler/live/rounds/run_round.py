"""Runs one round of the live cluster: read a snapshot, plan, apply in one transaction, tell the servers.

``plan_round`` decides. Nothing slow happens inside the transaction, and two schedulers cannot both apply a round on the
same state: a guarded update takes the round number.
"""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from time import perf_counter
from typing import Any

import numpy as np
from django.db import IntegrityError, OperationalError, transaction
from django.db.models import F

from scheduler.core.model.errors import PlanInvariantError
from scheduler.core.model.plan import Plan
from scheduler.core.model.tables import Snapshot
from scheduler.core.operations.place_in_line import Placed, line_of
from scheduler.core.round.capabilities import RESET_BY_PROMOTION, Promotes, takes_turns
from scheduler.core.round.config import SchedulerConfig
from scheduler.core.round.plan_round import plan_round
from scheduler.live.attempts.wants import wants_apply
from scheduler.live.gangs.membership import gangs_forming
from scheduler.live.rounds.apply_plan import AppliedPlan, plan_apply
from scheduler.live.rounds.decisions import decisions_of, keys_of, shortened
from scheduler.live.rounds.desired import desired_send
from scheduler.live.rounds.loans import loans_record
from scheduler.live.rounds.shadow_handover import shadow_offer
from scheduler.live.rounds.snapshot import LiveSnapshot, snapshot_read
from scheduler.live.rounds.trials import trials_write
from scheduler.live.rounds.waits import plan_waits, waits_of_pause
from scheduler.models import Cluster, Event, Job, Round
from scheduler.ports import Ports
from scheduler.services.cluster.settings import cluster_row, config_of
from scheduler.services.failures import is_away
from scheduler.services.jobs.dependencies import dependencies_apply
from scheduler.services.jobs.state import job_waits_record

log = logging.getLogger(__name__)

# After so long a gang that still forms loses its turn like any other job.
FORMING_MOST_S = 120.0


class RoundOvertaken(Exception):
    """Another round was applied since this round's snapshot was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Begun:
    """The input of one round."""

    cluster: Cluster
    live: LiveSnapshot
    config: SchedulerConfig
    trigger: str
    at: datetime
    begun_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ready:
    """Of the row of a round what is known before it is applied."""

    line: Sequence[Placed]
    keys: list[list[float | str]]
    snapshot_hash: str


def round_run(ports: Ports, trigger: str) -> Round | None:
    """Decide and apply one round.

    Args:
        trigger: Why now: beat, submit, end, server, settings, ...

    Returns:
        The round; None when scheduling is paused or another scheduler was faster.
    """
    # By the machine's own clock: how long a round computes is real also where the time of jobs is simulated.
    at, begun_s = ports.clock.now(), perf_counter()
    tell = wants_apply(at=at)
    dependencies_apply(at=at)
    cluster = cluster_row()
    round_: Round | None = None
    line: Sequence[Placed] = ()
    applied = AppliedPlan()
    live: LiveSnapshot | None = None
    if cluster.paused:
        waits_of_pause(cluster, at=at)
    else:
        config = config_of(cluster)  # later changes of the settings count from the next round on
        live = forming_kept(_promoted(snapshot_read(cluster, at=at), config), config)
        begun = _Begun(cluster=cluster, live=live, config=config, trigger=trigger, at=at, begun_s=begun_s)
        try:
            round_, line, applied = _decide(begun, ports)
            tell |= applied.tell
        except RoundOvertaken as error:
            log.info("round_overtaken", extra={"trigger": trigger, "round": str(error)})
    try:
        desired_send(tell, transport=ports.transport, at=at)
    except OperationalError as error:
        if is_away(error):
            raise
        log.info("orders_postponed", extra={"error": str(error)})  # a server that missed them reports so
    finally:
        # After the servers know, and not in the round's transaction: submits need not wait for thousands of reasons.
        if live and round_:
            waits = plan_waits(live, line, deferred=applied.deferred)
            job_waits_record(waits=waits, round_number=round_.number, at=at)
    if live is not None and round_ is not None and not round_.error:
        shadow_offer(live.tables, number=round_.number, at=at)
    return round_


def round_claim(live: LiveSnapshot, *, at: datetime) -> int:
    """Take the next round number on top of the snapshot. Raises RoundOvertaken. Call it in the transaction."""
    claimed = Cluster.objects.filter(pk=1, round_number=live.round_number, epoch=live.epoch).update(
        round_number=F("round_number") + 1, round_finished_at=at
    )
    if claimed != 1:
        raise RoundOvertaken(f"round {live.round_number + 1}")
    return live.round_number + 1


def _promoted(live: LiveSnapshot, config: SchedulerConfig) -> LiveSnapshot:
    """Promote jobs that waited long enough, if the policy has promotion."""
    tables = with_promotions(live.tables, config)
    if tables is live.tables:
        return live
    promoted = np.flatnonzero(tables.jobs.attained_gpu_s != live.tables.jobs.attained_gpu_s)
    pks = [live.job_pks[row] for row in promoted.tolist()]
    Job.objects.filter(pk__in=pks).update(promoted_gpu_s=F("attained_gpu_s"))
    return replace(live, tables=tables)


def forming_kept(live: LiveSnapshot, config: SchedulerConfig) -> LiveSnapshot:
    """Keep gangs that still form from preemption for FORMING_MOST_S: they cannot be parked and would restart.

    Gangs that take longer than a quantum to form would otherwise never train.
    """
    tables = live.tables
    young = tables.now_s - tables.jobs.held_at_s < FORMING_MOST_S
    rows = {pk: row for row, pk in live.attempt_pks.items() if young[row]} if takes_turns(config) else {}
    forming = gangs_forming(rows) if rows else set()
    if not forming:
        return live
    preemptible = tables.jobs.preemptible.copy()
    preemptible[[rows[pk] for pk in forming]] = False
    return replace(live, tables=replace(tables, jobs=replace(tables.jobs, preemptible=preemptible)))


def with_promotions(tables: Snapshot, config: SchedulerConfig) -> Snapshot:
    """Return the tables with the attained service of promoted jobs reset."""
    promoted = config.policy.promoted(tables.jobs) if isinstance(config.policy, Promotes) else np.zeros(0, np.bool_)
    if not promoted.any():
        return tables
    jobs = tables.jobs
    # Any: a column of the table may be of another type than these.
    reset: dict[str, Any] = {name: np.where(promoted, 0.0, getattr(jobs, name)) for name in RESET_BY_PROMOTION}
    return replace(tables, jobs=replace(jobs, **reset))


def _decide(begun: _Begun, ports: Ports) -> tuple[Round, Sequence[Placed], AppliedPlan]:
    """Return the round, the jobs that wait after it, and what it changed; both empty for a plan that was refused."""
    try:
        plan = plan_round(begun.live.tables, begun.config)
    except PlanInvariantError as error:
        return _refused(begun, error, ports), (), AppliedPlan()
    # Before the transaction, since submits wait for it and these take long with many jobs.
    ready = _Ready(line=line_of(plan), keys=keys_of(begun.live, plan), snapshot_hash=begun.live.digest())
    try:
        round_, applied = _write(begun, plan, ports, ready)
    except IntegrityError:  # another round gave the same GPUs, and was committed meanwhile
        if Cluster.objects.filter(pk=1, round_number=begun.live.round_number, epoch=begun.live.epoch).exists():
            raise
        raise RoundOvertaken(f"round {begun.live.round_number + 1}") from None
    log.info(
        "round_finished",
        extra={
            "round": round_.number,
            "trigger": begun.trigger,
            "duration_s": round(round_.duration_s, 4),
            "jobs": round_.num_jobs,
            "launched": round_.num_launched,
            "preempted": round_.num_preempted,
        },
    )
    return round_, ready.line, applied


@transaction.atomic
def _write(begun: _Begun, plan: Plan, ports: Ports, ready: _Ready) -> tuple[Round, AppliedPlan]:
    """Apply the plan and write the row of the round."""
    number = begun.live.round_number + 1
    # Not when the round began: an attempt that ended between then and the reading would seem to overlap its successor.
    at = ports.clock.now()
    applied = plan_apply(begun.live, plan, round_number=number, ids=ports.ids, at=at, parks=takes_turns(begun.config))
    loans_record(begun.live, plan)
    tried = trials_write(plan, begun.live.tables.jobs, round_number=number, at=at)
    # At the end: submits take the numbers of their jobs from the same row of the database.
    round_claim(begun.live, at=ports.clock.now())
    _remember_when(begun, plan)
    round_ = _round_row(begun, plan, applied, ready, number=number, duration_s=perf_counter() - begun.begun_s)
    if "same_as" not in round_.decisions:
        round_.decisions = {**round_.decisions, "keys": ready.keys}
    if tried:
        round_.decisions = {**round_.decisions, "trials": tried}
    round_.save(force_insert=True)
    return round_, applied


def _remember_when(begun: _Begun, plan: Plan) -> None:
    """Keep when the next round is due at the latest."""
    again_at = datetime.fromtimestamp(plan.again_at_s, tz=UTC) if math.isfinite(plan.again_at_s) else None
    if again_at != begun.cluster.again_at:
        Cluster.objects.filter(pk=1).update(again_at=again_at)


def _round_row(
    begun: _Begun, plan: Plan, applied: AppliedPlan, ready: _Ready, *, number: int, duration_s: float
) -> Round:
    return Round(
        number=number,
        num_running=len(plan.kept | plan.resized) + len(applied.launched) + len(applied.continued),
        num_launched=len(applied.launched),
        num_preempted=len(applied.preempted) + len(applied.parked),
        num_waiting=len(plan.waiting) + len(applied.deferred),
        num_gpus_granted=int(plan.grants.num_gpus.sum()),
        plan_hash=plan.plan_hash,
        decisions=shortened(decisions_of(begun.live, plan, applied, ready.line), round_number=number),
        **_row_start(begun, snapshot_hash=ready.snapshot_hash, duration_s=duration_s),
    )


def _row_start(begun: _Begun, *, snapshot_hash: str, duration_s: float) -> dict[str, object]:
    cluster = begun.cluster
    return {
        "epoch": begun.live.epoch,
        "trigger": begun.trigger[:40],
        "started_at": begun.at,
        "duration_s": max(0.0, duration_s),
        "policy": cluster.policy,
        "policy_options": cluster.policy_options,
        "locality": cluster.locality,
        "mechanism": cluster.mechanism,
        "num_jobs": len(begun.live.tables.jobs),
        "num_gpus": int(begun.live.tables.servers.num_gpus.sum()),
        "snapshot_hash": snapshot_hash,
    }


def _refused(begun: _Begun, error: PlanInvariantError, ports: Ports) -> Round:
    """Record a plan that broke an invariant as a round with an error; nothing of it is applied."""
    digest = begun.live.digest()
    log.error("plan_refused", extra={"error": str(error), "snapshot": digest})
    with transaction.atomic():
        number = round_claim(begun.live, at=ports.clock.now())
        round_ = Round(
            number=number,
            num_running=0,
            num_launched=0,
            num_preempted=0,
            num_waiting=0,
            num_gpus_granted=0,
            plan_hash="",
            error=str(error)[:300],
            **_row_start(begun, snapshot_hash=digest, duration_s=perf_counter() - begun.begun_s),
        )
        round_.save(force_insert=True)
        Event.objects.create(
            at=begun.at, kind="plan_refused", actor="scheduler", reason="invariant", data={"round": number}
        )
    return round_
