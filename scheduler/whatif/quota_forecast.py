"""Forecast of another quota before it is saved: the live state simulated ahead with and without the change.

Nothing is stored. Figures are of whole queues; jobs that the next round would start or stop are named to those who may
see them.
"""

import math
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

import numpy as np
from django.core.cache import caches

from scheduler.core.model.errors import NotAllowed
from scheduler.core.model.plan import Plan
from scheduler.core.model.tables import QueueTable
from scheduler.core.round.plan_round import plan_round
from scheduler.core.spec.units import counted
from scheduler.live.rounds.run_round import with_promotions
from scheduler.live.rounds.snapshot import NO_LIMIT_GPUS, LiveSnapshot, snapshot_read
from scheduler.models import Cluster, Job, Queue
from scheduler.models.queue import Role
from scheduler.selectors.evidence import job_shown
from scheduler.selectors.jobs.estimates import estimate_error, past_error
from scheduler.selectors.times import iso
from scheduler.selectors.visibility import Access, Actor
from scheduler.services.cluster.settings import cluster_row, config_of
from scheduler.services.queues.change import queue_access
from scheduler.services.queues.quotas import Quota, SiblingQuota, quota_problems, sums_to_ask
from scheduler.simulator.forecasts.paired import Paired
from scheduler.simulator.forecasts.quota_forecast import Forecast, QueueOutlook, forecast
from scheduler.simulator.forecasts.run_times import ended_of
from scheduler.whatif.rows import ForecastJob, ForecastPreemptions, ForecastReport, ForecastRow, ForecastWait
from scheduler.whatif.scenarios.live_base import ended_rows, owners_of
from scheduler.whatif.start_times.estimates import submitted_lately

# How far to look, and how far where that takes too long.
HORIZON_S, SHORT_S = 86_400.0, 6 * 3_600.0
FARTHER_S = 3 * 86_400.0
FUTURES = 40
# CPU time after which futures are enough, and that an answer may take: as many jobs as that are worth waiting for.
CPU_S, MOST_CPU_S = 1.0, 1.3
LARGE_FROM, LARGE_CPU_S = 200, 2.6
WAIT_S = 20.0

# How many futures the time allows is chosen once for so long: one more or less of them is another present wait.
SAME_SIZE_S = 3_600
AGAIN_TIMES = 1.5

# One forecast at a time in each web process: each takes a core.
_turn = threading.Lock()


class _Size(NamedTuple):
    """How much a forecast simulates, see ``Forecast``."""

    round_s: float | None
    futures: int


def quota_forecast(
    *,
    actor: Actor,
    queue: Queue,
    after: Quota,
    moves: Sequence[SiblingQuota] = (),
    at: datetime,
    horizon_s: float = HORIZON_S,
) -> ForecastReport:
    """Return the waits and preemptions of every queue in the next hours, with the present quotas and after the change.

    Args:
        after: What the queue would hold.
        moves: Other quotas of queues beside it.
        horizon_s: How far to look; less where that takes too long.

    Raises:
        NotFound: ``actor`` may not see the queue.
        NotAllowed: ``actor`` is neither an admin nor a lead of the queue.
        SpecInvalid: A bad number, or more than an actor who may only ask for it may ask for.
    """
    access = queue_access(actor, queue)
    if not access.at_least(queue.pk, Role.LEAD):
        raise NotAllowed(f"Only admins and leads of {queue.name} may ask what another quota would do.")
    may_save = access.may_change_quota(queue)
    problems = quota_problems(queue, after, moves, may_save=may_save)
    sums = [error.detail for error in problems.errors if error.code == "sum"]
    problems.errors = [error for error in problems.errors if error.code != "sum"]
    problems.refuse()
    if not may_save:
        sums = sums_to_ask(queue, after.quota_gpus, moves)
    cluster = cluster_row()
    live = snapshot_read(cluster, at=at)
    changed = _changed(live.tables.queues, queue, after, moves)
    reason, found = "paused" if cluster.paused else "", None
    if not reason and _turn.acquire(timeout=WAIT_S):
        try:
            found, horizon_s = _look(live, cluster, changed, at, horizon_s)
        finally:
            _turn.release()
        reason = "no_history" if found.unknown_jobs else "" if found.futures else "too_large"
    elif not reason:
        reason = "busy"
    starts, stops = ([], []) if cluster.paused else _next_round(live, cluster, changed, access)
    return {
        "at": iso(at),
        "round": live.round_number,
        "known": not reason,
        "reason": reason,
        "sentence": _sentence(found, reason, num_jobs=len(live.tables.jobs), horizon_s=horizon_s),
        "horizon_s": horizon_s,
        "futures": found.futures if found else 0,
        "queues": _rows(live.tables.queues, changed, found if not reason else None),
        "starts_now": starts,
        "stops_now": stops,
        "sums": sums,
        "checked": _checked(at),
    }


def _look(
    live: LiveSnapshot, cluster: Cluster, changed: QueueTable, at: datetime, horizon_s: float
) -> tuple[Forecast, float]:
    """Return the forecast over the longest time that can be simulated, and that time."""
    tables = live.tables
    owner = np.array(owners_of(live), dtype=np.int64)
    ended, submitted = ended_of(ended_rows(tables.queues)), submitted_lately(live, at)
    most_cpu_s = LARGE_CPU_S if len(tables.jobs) >= LARGE_FROM else MOST_CPU_S
    until_s = time.thread_time() + most_cpu_s
    for ahead_s in (horizon_s, SHORT_S):
        last = caches["shared"].get(key := f"quota-forecast.{ahead_s:.0f}")
        size = _Size(*last) if last else None
        until_s += (AGAIN_TIMES - 1) * most_cpu_s if size else 0.0
        left_s = max(most_cpu_s / 2, until_s - time.thread_time())
        found = forecast(
            tables,
            config_of(cluster),
            changed=changed,
            owner=owner,
            ended=ended,
            submitted=submitted,
            futures=size.futures if size else FUTURES,
            horizon_s=ahead_s,
            cpu_s=left_s if size else min(CPU_S, left_s),
            most_cpu_s=left_s,
            least_round_s=size.round_s if size else None,
        )
        if found.futures and (used := _Size(found.round_s, found.futures)) != size:
            caches["shared"].set(key, used, SAME_SIZE_S)
        if found.futures or found.unknown_jobs:
            break
    return found, ahead_s


def _next_round(
    live: LiveSnapshot, cluster: Cluster, changed: QueueTable, access: Access
) -> tuple[list[ForecastJob], list[ForecastJob]]:
    """Return the jobs that the next round starts, and those that it stops, with the change and not without it."""
    config = config_of(cluster)
    tables = with_promotions(live.tables, config)
    now, then = (plan_round(each, config) for each in (tables, replace(tables, queues=changed)))
    running = tables.jobs.running
    (starts, stops), (starts_now, stops_now) = (_started_stopped(plan, running.tolist()) for plan in (then, now))
    rows = [sorted(starts - starts_now), sorted(stops - stops_now)]
    pks = [live.job_pks[row] for row in (*rows[0], *rows[1])]
    jobs = {job.pk: job for job in Job.objects.filter(pk__in=pks).select_related("queue").defer("spec")}
    unsaved_s = tables.jobs.unsaved_s
    first, second = (
        [
            ForecastJob(
                **job_shown(jobs.get(live.job_pks[row]), access),
                num_gpus=int(tables.jobs.num_gpus[row]),
                lost_s=float(unsaved_s[row]) if running[row] else None,
            )
            for row in side
        ]
        for side in rows
    )
    return first, second


def _started_stopped(plan: Plan, running: Sequence[bool]) -> tuple[set[int], set[int]]:
    """Return the waiting jobs that a plan gives GPUs, and the running ones that it leaves without."""
    granted = set(plan.grants.job.tolist())
    return (
        {row for row in granted if not running[row]},
        {row for row, runs in enumerate(running) if runs and row not in granted},
    )


def _changed(queues: QueueTable, queue: Queue, after: Quota, moves: Sequence[SiblingQuota]) -> QueueTable:
    """Return the queues as they would be."""
    row_of = {pk: row for row, pk in enumerate(queues.queue_id.tolist())}
    row = row_of[queue.pk]
    quota, most = queues.quota_gpus.copy(), queues.max_gpus.copy()
    weight, may_borrow = queues.weight.copy(), queues.may_borrow.copy()
    quota[row], weight[row], may_borrow[row] = after.quota_gpus, after.weight, after.may_borrow
    most[row] = NO_LIMIT_GPUS if after.max_gpus is None else after.max_gpus
    for move in moves:
        quota[row_of[move.queue.pk]] = move.quota_gpus
    return replace(queues, quota_gpus=quota, max_gpus=most, weight=weight, may_borrow=may_borrow)


_SENTENCES = {
    "paused": "Scheduling is paused, so nothing can be said of the next day.",
    "no_history": "Not known yet: too few jobs have ended to tell how long jobs run, and some do not say it.",
    "busy": "Others are asking the same just now. Ask again in a few seconds.",
    "too_large": "{jobs} are more than can be simulated while you wait, even for {hours} h. What-if has the time: "
    "ask there what these quotas would do on the live cluster.",
}


def _sentence(found: Forecast | None, reason: str, *, num_jobs: int, horizon_s: float) -> str:
    numbers = {"jobs": counted(num_jobs, "job"), "hours": f"{horizon_s / 3_600:.0f}"}
    return (_SENTENCES[reason] if reason else _told(found)).format(**numbers)


def _told(found: Forecast | None) -> str:
    """Return what the figures were made from, with room for ``jobs`` and ``hours``."""
    assert found is not None
    every = f" with a round every {found.round_s / 60:.0f} min" if found.round_s else ""
    return (
        f"From {{jobs}} of the live cluster, simulated {{hours}} h ahead in {found.futures} futures{every}, each "
        "once with the present quotas and once with yours. How long jobs still run is estimated from what they report "
        "and from jobs of the same owner and queue that ended; new jobs come as in the last days."
    )


def _checked(at: datetime) -> str:
    """Return how far the simulation was off lately: nothing keeps previews, but its estimates of starts are kept."""
    told = past_error(estimate_error(at))
    return f"Previews are not measured; estimates of starts by the same simulation are. {told}"


def _rows(queues: QueueTable, changed: QueueTable, found: Forecast | None) -> list[ForecastRow]:
    stored = {row.pk: row for row in Queue.objects.filter(pk__in=queues.queue_id.tolist())}
    inner = set(queues.parent.tolist())
    listed: list[ForecastRow] = []
    for row, pk in enumerate(queues.queue_id.tolist()):
        if row in inner:
            continue
        own = found.queues[row] if found else None
        listed.append(
            {
                "name": stored[pk].name,
                "color_slot": stored[pk].color_slot,
                "quota_gpus": {"now": int(queues.quota_gpus[row]), "changed": int(changed.quota_gpus[row])},
                "jobs": round(own.jobs, 1) if own else 0.0,
                "p50": _wait(own.p50 if own else None),
                "p90": _wait(own.p90 if own else None),
                "mean": _wait(own.mean if own else None),
                "preemptions": _preemptions(own),
            }
        )
    return sorted(listed, key=lambda row: row["name"])


def _preemptions(own: QueueOutlook | None) -> ForecastPreemptions | None:
    return None if own is None else {"now": round(own.preemptions[0], 1), "changed": round(own.preemptions[1], 1)}


def _wait(found: Paired | None) -> ForecastWait | None:
    if found is None:
        return None
    return {
        "now_s": _known(found.now),
        "changed_s": _known(found.then),
        "changed_low_s": _known(found.low),
        "changed_high_s": _known(found.high),
        "change_s": _known(found.change),
        "change_low_s": _known(found.change_low),
        "change_high_s": _known(found.change_high),
        "direction": ("", "longer", "shorter")[found.direction],
    }


def _known(value_s: float) -> float | None:
    return round(value_s, 1) if math.isfinite(value_s) else None
