"""Estimates of when waiting jobs start, made after rounds and stored, with their errors once jobs start.

One thread makes them within a bound of CPU time, then rests four times as long as that took: never more than a fifth of
a core.
"""

import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
from django.db import transaction
from django.db.models import Exists, F, Max, OuterRef, Q

from scheduler.core.model.lifecycle import JobState
from scheduler.core.model.tables import IntArray
from scheduler.core.operations.start_calibration import bound_s
from scheduler.core.operations.time_left import moment_after
from scheduler.live.rounds.snapshot import LiveSnapshot, snapshot_read
from scheduler.models import Attempt, Cluster, Job, StartEstimate
from scheduler.ports import Ports
from scheduler.services.cluster.settings import config_of
from scheduler.simulator.draws import Draws
from scheduler.simulator.forecasts.futures import Outlook, Submitted, outlook, quantile
from scheduler.simulator.forecasts.run_times import ended_of
from scheduler.whatif.scenarios.live_base import ended_rows, owners_of
from scheduler.whatif.start_times.late_bounds import outcomes_count, stretch_now
from scheduler.whatif.start_times.smoothing import SIMULATED, outlives, pooled

log = logging.getLogger(__name__)

FUTURES = 24
CPU_S = 2.0
# CPU time that a slow machine may take for LEAST_FUTURES.
MOST_CPU_S = 6.0
HORIZON_S = 7 * 86_400.0
LATELY = timedelta(days=7)
MOST_LATELY = 2_000
# A younger cluster is not assumed to get as many jobs per hour as in its first hours.
LEAST_OVER_S = 86_400.0
MOST_JOBS = 1_000
# A simulated job leaves and its successor starts at once. A real one saves its state first, and a round must notice its
# end: any delay up to this, drawn for each future.
HAND_OVER_S = 20.0
REST_TIMES = 4
LEAST_FUTURES = 8
BATCH = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The estimate of one job. ``reason`` says why nothing is known; empty when something is."""

    reason: str = ""
    starts_s: tuple[float, ...] = ()
    futures: int = 0


class Estimator:
    """Makes estimates after rounds. One thread calls ``tick``."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._seen: tuple[int, bool] | None = None
        self._next_s = -math.inf

    def tick(self) -> bool:
        """Make estimates if a round has ended since the last ones, and enough time has passed; return whether."""
        now_s = self._ports.clock.mono_s()
        cluster = Cluster.objects.filter(pk=1).first()
        if cluster is None or now_s < self._next_s or self._seen == (cluster.round_number, cluster.paused):
            return False
        self._seen = (cluster.round_number, cluster.paused)
        cpu_s = time.thread_time()
        estimates_make(cluster, at=self._ports.clock.now())
        self._next_s = self._ports.clock.mono_s() + REST_TIMES * (time.thread_time() - cpu_s)
        return True


def estimates_make(cluster: Cluster, *, at: datetime) -> None:
    """Estimate when the waiting jobs start, and close the estimates of jobs that wait no longer."""
    estimates_close(at)
    # Jobs that are held back have no place in the order: after all others, which SQLite does not say by itself.
    place = F("wait_position").asc(nulls_last=True)
    waiting = list(Job.objects.filter(state=JobState.QUEUED).order_by(place, "number").values_list("pk", flat=True))
    if not waiting:
        return
    found: dict[str, Estimate] = dict.fromkeys(waiting, Estimate(reason="not_offered"))
    if cluster.paused:
        found = dict.fromkeys(waiting, Estimate(reason="paused"))
    else:
        live = snapshot_read(cluster, at=at)
        found |= _of(live, _look(live, cluster, at))
    found |= dict.fromkeys(waiting[MOST_JOBS:], Estimate(reason="far_back"))
    _keep({pk: found[pk] for pk in waiting}, round_number=cluster.round_number, at=at)


def _look(live: LiveSnapshot, cluster: Cluster, at: datetime) -> Outlook:
    tables = live.tables
    return outlook(
        tables,
        config_of(cluster),
        owner=np.array(owners_of(live), dtype=np.int64),
        ended=ended_of(ended_rows(tables.queues)),
        submitted=submitted_lately(live, at),
        futures=FUTURES,
        horizon_s=HORIZON_S,
        enough=LEAST_FUTURES,
        cpu_s=CPU_S,
        most_cpu_s=MOST_CPU_S,
        seed=live.round_number,
    )


def _of(live: LiveSnapshot, seen: Outlook) -> dict[str, Estimate]:
    """Return the estimate of each waiting job in an outlook."""
    pks = [live.job_pks[row] for row in seen.rows.tolist()]
    if seen.unknown:
        return dict.fromkeys(pks, Estimate(reason="no_history"))
    if seen.futures < LEAST_FUTURES:
        return dict.fromkeys(pks, Estimate(reason="too_large"))
    found = {}
    late_s = HAND_OVER_S * Draws(live.round_number, "hand-over").uniform(seen.futures)
    for pk, starts_s in zip(pks, seen.starts_s + late_s, strict=True):
        reason = "" if math.isfinite(quantile(starts_s, 0.5)) else "not_in_futures"
        ranked = tuple(sorted(float(each) for each in starts_s if math.isfinite(each)))
        found[pk] = Estimate(reason=reason, starts_s=ranked, futures=seen.futures)
    return found


def submitted_lately(live: LiveSnapshot, at: datetime) -> Submitted | None:
    """Return what was submitted in the last days."""
    row_of = {pk: row for row, pk in enumerate(live.tables.queues.queue_id.tolist())}
    lately = Job.objects.filter(submitted_at__gte=at - LATELY, submitted_at__lt=at, queue_id__in=row_of)
    columns = ("queue_id", "owner_id", "num_gpus", "submitted_at", "spec__resources")
    rows = list(lately.order_by("-number").values_list(*columns)[:MOST_LATELY])
    if not rows:
        return None
    over_s = (at - rows[-1][3]).total_seconds()

    def asked(name: str, otherwise: Callable[[int], int]) -> IntArray:
        found = [(resources or {}).get(name) or otherwise(num_gpus) for _, _, num_gpus, _, resources in rows]
        return np.array(found, dtype=np.int64)

    return Submitted(
        over_s=over_s if len(rows) == MOST_LATELY else max(over_s, LEAST_OVER_S),
        queue=np.array([row_of[row[0]] for row in rows], dtype=np.int64),
        owner=np.array([row[1] for row in rows], dtype=np.int64),
        num_gpus=np.array([row[2] for row in rows], dtype=np.int64),
        max_servers=asked("max_servers", lambda _: 1),  # specs of early versions have none
        min_gpus=asked("min_gpus", lambda num_gpus: num_gpus),
        max_gpus=asked("max_gpus", lambda num_gpus: num_gpus),
    )


def _keep(found: Mapping[str, Estimate], *, round_number: int, at: datetime) -> None:
    """Replace the open estimates; the first estimate of each wait is kept beside the newest."""
    pks = _newly_told(found)
    factor = stretch_now()
    for start in range(0, len(pks), BATCH):
        batch = pks[start : start + BATCH]
        with transaction.atomic():
            open_rows = {row.job_id: row for row in StartEstimate.objects.filter(job_id__in=batch, closed_at=None)}
            last = {pk: row for pk, row in open_rows.items() if outlives(row, found[pk].reason, at)}
            StartEstimate.objects.filter(pk__in=[row.pk for pk, row in open_rows.items() if pk not in last]).delete()
            # A job may have been given its place, or been cancelled, while the futures were simulated.
            queued = set(Job.objects.filter(pk__in=batch, state=JobState.QUEUED).values_list("pk", flat=True))
            kept = [pk for pk in batch if (pk in queued or pk in open_rows) and pk not in last]
            StartEstimate.objects.bulk_create(
                _row(pk, found[pk], open_rows.get(pk), factor, round_number=round_number, at=at) for pk in kept
            )


def _newly_told(found: Mapping[str, Estimate]) -> list[str]:
    """Return the jobs whose open estimate does not say already that nothing is known, for the same reason.

    Those of thousands of jobs far back in the line would else be written anew after each round.
    """
    told = dict(StartEstimate.objects.filter(closed_at=None, futures=0).values_list("job_id", "reason"))
    return [pk for pk, one in found.items() if one.futures or told.get(pk) != one.reason]


def _row(
    job_pk: str, estimate: Estimate, before: StartEstimate | None, factor: float, *, round_number: int, at: datetime
) -> StartEstimate:
    starts_s = np.zeros(0)
    if estimate.futures:
        missing = [math.inf] * (estimate.futures - len(estimate.starts_s))
        starts_s = np.array(pooled([*estimate.starts_s, *missing], before, at))
    p50_s, simulated_s = ((quantile(starts_s, share) if len(starts_s) else math.inf) for share in (0.5, 0.9))
    reason = estimate.reason
    if reason in SIMULATED and len(starts_s):
        reason = "" if math.isfinite(p50_s) else "not_in_futures"
    by_s = bound_s(simulated_s, factor, horizon_s=HORIZON_S)
    p50_at, simulated_at, p90_at = (moment_after(at, after_s) for after_s in (p50_s, simulated_s, by_s))
    row = StartEstimate(
        job_id=job_pk,
        round_number=round_number,
        made_at=at,
        p50_at=p50_at,
        simulated_p90_at=simulated_at,
        p90_at=p90_at,
        reason=reason,
        futures=len(starts_s),
        starts_s=[round(each, 1) for each in starts_s.tolist() if math.isfinite(each)],
    )
    if before is None or before.first_p50_at is None:
        row.first_made_at, row.first_p50_at = at, p50_at
        row.first_simulated_p90_at, row.first_p90_at = simulated_at, p90_at
    else:
        row.first_made_at, row.first_p50_at = before.first_made_at, before.first_p50_at
        row.first_simulated_p90_at, row.first_p90_at = before.first_simulated_p90_at, before.first_p90_at
        row.in_time = before.in_time
    return row


def estimates_close(at: datetime) -> None:
    """Close the estimates of jobs that started, with their errors, and of jobs that left the queue."""
    attempted = Attempt.objects.filter(job_id=OuterRef("job_id"), created_at__gte=OuterRef("first_made_at"))
    late = Q(in_time=None, first_p90_at__lt=at)
    moved = Q(Exists(attempted)) | ~Q(job__state=JobState.QUEUED) | late
    rows = list(StartEstimate.objects.filter(moved, closed_at=None).select_related("job").defer("job__spec"))
    given = _given(row.job_id for row in rows)
    changed = []
    for row in rows:
        started_at = given.get(row.job_id)
        if started_at is not None and row.first_made_at is not None and started_at >= row.first_made_at:
            row.closed_at, row.started_at = at, started_at
            if row.first_p50_at is not None:
                row.error_s = (started_at - row.first_p50_at).total_seconds()
            changed.append(row)
        elif row.job.state != JobState.QUEUED:
            row.closed_at = at
            changed.append(row)
    StartEstimate.objects.bulk_update(changed, ["closed_at", "started_at", "error_s"], batch_size=100)
    outcomes_count(rows, at)


def _given(job_pks: Iterable[str]) -> dict[str, datetime]:
    """Return when each job last got an attempt."""
    attempts = Attempt.objects.filter(job_id__in=list(job_pks)[:20_000]).order_by()
    return dict(attempts.values_list("job_id").annotate(at=Max("created_at")))
