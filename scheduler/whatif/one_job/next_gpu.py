"""Which elastic job would get the next free GPU: plans a round with one GPU more on the server of a job.

Source: Hwang et al., "Elastic Resource Sharing for Distributed Deep Learning" (AFS), NSDI 2021: a GPU goes to the job
that gains most by it, or to the shorter one where the gains are close.
"""

import math
from dataclasses import replace
from datetime import datetime

import numpy as np

from scheduler.core.model.tables import NO_ROW, IntArray, Snapshot
from scheduler.core.performance.curves import Curves, curves_of
from scheduler.core.round.config import SharePolicy
from scheduler.core.round.plan_round import plan_round
from scheduler.models import Job
from scheduler.selectors.jobs.reason_rows import ElasticJobRow, NextGpu
from scheduler.selectors.visibility import Actor, access_of
from scheduler.whatif.one_job.present import Present, present_read
from scheduler.whatif.one_job.preview import job_named

MOST_ROWS = 8


def next_gpu(user: Actor, job: Job, at: datetime) -> NextGpu | None:
    """Return the answer beside a running elastic job; None for another job, or where no policy shares GPUs out."""
    present = present_read(at)
    tables, policy = present.tables, present.config.policy
    if not isinstance(policy, SharePolicy) or job.pk not in present.live.job_pks:
        return None
    own = present.live.job_pks.index(job.pk)
    elastic = np.flatnonzero(tables.jobs.running & (tables.jobs.min_gpus < tables.jobs.max_gpus))
    if own not in elastic:
        return None
    held = _given(tables, tables.held.job, tables.held.num_gpus)
    more = plan_round(_with_one_more(tables, own), present.config).grants
    change = _given(tables, more.job, more.num_gpus) - held
    curves = curves_of(tables.jobs)
    shown = [own, *(row for row in elastic.tolist() if row != own)][:MOST_ROWS]
    rows = [_row(present, user, row, curves, held, int(change[row]), is_own=row == own) for row in shown]
    winners = [row for row in rows if row["change"] > 0]
    winner = max(winners, key=lambda row: int(row["change"]), default=None)
    return {"policy": present.cluster.policy, "winner": winner, "why": _why(winner, rows), "rows": rows}


def _given(tables: Snapshot, job: IntArray, num_gpus: IntArray) -> IntArray:
    """Return (n,) GPUs of each job."""
    return np.bincount(job, weights=num_gpus, minlength=len(tables.jobs)).astype(np.int64)


def _with_one_more(tables: Snapshot, row: int) -> Snapshot:
    """Return the cluster with one GPU more on the first server of a job, and that GPU's share of cores and memory."""
    servers = tables.servers
    at = int(tables.held.server[tables.held.job == row].min())
    grown = (servers.num_gpus + (np.arange(len(servers)) == at)) / np.maximum(servers.num_gpus, 1)
    return replace(
        tables,
        servers=replace(
            servers,
            num_gpus=servers.num_gpus + (np.arange(len(servers)) == at).astype(np.int64),
            num_cpus=servers.num_cpus * grown,
            memory_bytes=servers.memory_bytes * grown,
        ),
    )


def _row(
    present: Present, user: Actor, row: int, curves: Curves, held: IntArray, change: int, *, is_own: bool
) -> ElasticJobRow:
    speed = curves.table.speed[curves.row[row]]
    gpus = int(held[row])
    remaining_s = float(present.tables.jobs.remaining_s[row])
    return {
        **job_named(present.live.job_pks[row], access_of(user)),
        "num_gpus": gpus,
        "change": change,
        "gain_frac": float(speed[gpus + 1] / speed[gpus] - 1.0) if gpus < present.tables.jobs.max_gpus[row] else None,
        "loss_frac": float(1.0 - speed[gpus - 1] / speed[gpus]) if gpus > present.tables.jobs.min_gpus[row] else None,
        "is_measured": bool(present.tables.jobs.profile[row] != NO_ROW),
        "remaining_s": remaining_s if math.isfinite(remaining_s) else None,
        "is_own": is_own,
    }


def _why(winner: ElasticJobRow | None, rows: list[ElasticJobRow]) -> str:
    """Return what won: the job is the one that gains most, or the one that ends first."""
    if winner is None or len(rows) < 2:
        return ""
    gains = [row["gain_frac"] or 0.0 for row in rows]
    lengths = [row["remaining_s"] if row["remaining_s"] is not None else math.inf for row in rows]
    if (winner["gain_frac"] or 0.0) >= max(gains) and gains.count(max(gains)) == 1:
        return "efficiency"
    own_s = winner["remaining_s"] if winner["remaining_s"] is not None else math.inf
    return "shortness" if own_s <= min(lengths) and math.isfinite(own_s) else ""
