"""Forecast of another quota before it is saved: the live state simulated ahead with and without the change.

Nothing is stored. Figures are of whole queues; no job is named.
"""

import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import numpy as np

from scheduler.core.model.errors import NotAllowed
from scheduler.core.model.tables import QueueTable
from scheduler.live.rounds.snapshot import NO_LIMIT_GPUS, LiveSnapshot, snapshot_read
from scheduler.models import Cluster, Queue
from scheduler.models.queue import Role
from scheduler.selectors.times import iso
from scheduler.selectors.visibility import Actor
from scheduler.services.cluster.settings import cluster_row, config_of
from scheduler.services.queues.change import queue_access
from scheduler.services.queues.quotas import Move, Quota, quota_problems
from scheduler.simulator.forecasts.quota_forecast import Forecast, QueueFigures, forecast
from scheduler.simulator.forecasts.run_times import ended_of
from scheduler.whatif.rows import ForecastFigures, ForecastReport, ForecastRow
from scheduler.whatif.scenarios.live_base import ended_rows, owners_of
from scheduler.whatif.start_times.estimates import submitted_lately

# How far to look, and the CPU time after which a shorter time is tried.
HORIZONS = ((86_400.0, 8.0), (6 * 3_600.0, 4.0))
FUTURES = 20
CPU_S = 1.2
WAIT_S = 20.0

# One forecast at a time in each web process: each takes a core.
_turn = threading.Lock()


def quota_forecast(
    *, actor: Actor, queue: Queue, after: Quota, moves: Sequence[Move] = (), at: datetime
) -> ForecastReport:
    """Return the waits and preemptions of every queue in the next hours, with the present quotas and after the change.

    Raises:
        NotFound: ``actor`` may not see the queue.
        NotAllowed: ``actor`` is neither an admin nor a lead of the queue.
        SpecInvalid: A bad number.
    """
    if not queue_access(actor, queue).at_least(queue.pk, Role.LEAD):
        raise NotAllowed(f"Only admins and leads of {queue.name} may ask what another quota would do.")
    problems = quota_problems(queue, after, moves)
    sums = [error.detail for error in problems.errors if error.code == "sum"]
    problems.errors = [error for error in problems.errors if error.code != "sum"]
    problems.refuse()
    cluster = cluster_row()
    live = snapshot_read(cluster, at=at)
    changed = _changed(live.tables.queues, queue, after, moves)
    reason, found, horizon_s = "paused" if cluster.paused else "", None, HORIZONS[0][0]
    if not reason and _turn.acquire(timeout=WAIT_S):
        try:
            found, horizon_s = _look(live, cluster, changed, at)
        finally:
            _turn.release()
        reason = "no_history" if found.unknown_jobs else "" if found.futures else "too_large"
    elif not reason:
        reason = "busy"
    return _answer(live, changed, found, at, reason=reason, horizon_s=horizon_s, sums=sums)


def _look(live: LiveSnapshot, cluster: Cluster, changed: QueueTable, at: datetime) -> tuple[Forecast, float]:
    """Return the forecast over the longest time that can be simulated, and that time."""
    for horizon_s, most_cpu_s in HORIZONS:
        found = forecast(
            live.tables,
            config_of(cluster),
            changed=changed,
            owner=np.array(owners_of(live), dtype=np.int64),
            ended=ended_of(ended_rows(live.tables.queues)),
            submitted=submitted_lately(live, at),
            futures=FUTURES,
            horizon_s=horizon_s,
            cpu_s=CPU_S,
            most_cpu_s=most_cpu_s,
            seed=live.round_number,
        )
        if found.futures or found.unknown_jobs:
            break
    return found, horizon_s


def _changed(queues: QueueTable, queue: Queue, after: Quota, moves: Sequence[Move]) -> QueueTable:
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
    "too_large": "{jobs} jobs are more than can be simulated while you wait, even for {hours} h. What-if has the time: "
    "ask there what these quotas would do on the live cluster.",
}


def _answer(
    live: LiveSnapshot,
    changed: QueueTable,
    found: Forecast | None,
    at: datetime,
    *,
    reason: str,
    horizon_s: float,
    sums: list[str],
) -> ForecastReport:
    queues = live.tables.queues
    rows = {row.pk: row for row in Queue.objects.filter(pk__in=queues.queue_id.tolist())}
    inner = set(queues.parent.tolist())
    now, then = (found.now, found.changed) if found and not reason else ((), ())
    numbers = {"jobs": f"{len(live.tables.jobs):,}", "hours": f"{horizon_s / 3_600:.0f}"}
    listed: list[ForecastRow] = [
        {
            "name": rows[pk].name,
            "color_slot": rows[pk].color_slot,
            "quota_gpus": {"now": int(queues.quota_gpus[row]), "changed": int(changed.quota_gpus[row])},
            "now": _figures(now[row]) if now else None,
            "changed": _figures(then[row]) if then else None,
        }
        for row, pk in enumerate(queues.queue_id.tolist())
        if row not in inner
    ]
    return {
        "at": iso(at),
        "round": live.round_number,
        "known": not reason,
        "reason": reason,
        "sentence": (_SENTENCES[reason] if reason else _told(found)).format(**numbers),
        "horizon_s": horizon_s,
        "futures": found.futures if found else 0,
        "queues": sorted(listed, key=lambda row: row["name"]),
        "sums": sums,
    }


def _figures(figures: QueueFigures) -> ForecastFigures:
    return {
        "jobs": round(figures.jobs, 1),
        "wait_p50_s": None if figures.wait_p50_s is None else round(figures.wait_p50_s, 1),
        "wait_p90_s": None if figures.wait_p90_s is None else round(figures.wait_p90_s, 1),
        "longest_s": round(figures.longest_s, 1),
        "preemptions": round(figures.preemptions, 1),
    }


def _told(found: Forecast | None) -> str:
    """Return what the figures were made from, with room for ``jobs`` and ``hours``."""
    assert found is not None
    futures = "one future" if found.futures == 1 else f"{found.futures} futures"
    every = f" with a round every {found.round_s / 60:.0f} min" if found.round_s else ""
    return (
        f"From {{jobs}} jobs of the live cluster, simulated {{hours}} h ahead in {futures}{every}, each once with the "
        "present quotas and once with yours. How long jobs still run is estimated from what they report and from jobs "
        "of the same owner and queue that ended; new jobs come as in the last days."
    )
