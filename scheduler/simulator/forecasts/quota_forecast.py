"""Forecast what a change of quotas does to every queue: replay the live state forward with present and changed quotas.

Both replays of a future use the same draws (how long jobs still run, which jobs are submitted), so that they differ by
the effect of the change alone. The decision is the one that rules the live cluster.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from scheduler.core.model.tables import BoolArray, FloatArray, IntArray, QueueTable, Snapshot
from scheduler.core.round.config import SchedulerConfig
from scheduler.simulator.draws import Draws
from scheduler.simulator.forecasts.futures import (
    OutOfTimeError,
    Submitted,
    coming_jobs,
    run_times_of,
    stop_at,
    template_rows,
)
from scheduler.simulator.forecasts.run_times import Ended
from scheduler.simulator.jobs import SimJob
from scheduler.simulator.replay.engine import simulate
from scheduler.simulator.replay.replay import Replay
from scheduler.simulator.state.begun import Begun, jobs_of

# Replays plan a round whenever something changes. Where that takes too long they plan one every so many seconds: from
# so many jobs of the snapshot on.
ROUNDS_S = ((600, 900.0), (60, 300.0))
# No more jobs come than this, in a replay.
MOST_COMING = 3_000


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFigures:
    """Expected waits and preemptions of the jobs of one queue.

    Attributes:
        jobs: Jobs that wait now or come, a future.
        wait_p50_s, wait_p90_s: Seconds from now, or from their submission, to their start; None when so many wait
            longer than the futures go that it cannot be said.
        longest_s: The longest wait that was seen, ended or not; what is None above is longer.
        preemptions: Times that its jobs are stopped or moved, a future.
    """

    jobs: float
    wait_p50_s: float | None
    wait_p90_s: float | None
    longest_s: float
    preemptions: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Two outlooks, one entry for each queue row.

    Attributes:
        now, changed: With the present and with the changed queues; empty without futures.
        futures: How many pairs of replays there are.
        round_s: Seconds between the rounds of the replays; None where one follows every change.
        unknown_jobs: Jobs that tell no run time and for which none can be guessed; there are no futures then.
    """

    now: tuple[QueueFigures, ...]
    changed: tuple[QueueFigures, ...]
    futures: int
    round_s: float | None = None
    unknown_jobs: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ask:
    """Settings of a replay: its configuration, how far, with which rounds, and for how much CPU time of this thread."""

    config: SchedulerConfig
    horizon_s: float
    round_s: float | None
    until_cpu_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """Findings of one replay: of each job that waited its queue, its wait in seconds, whether it started; by queue
    how often jobs were stopped.
    """

    queue: IntArray
    wait_s: FloatArray
    started: BoolArray
    preemptions: FloatArray


def forecast(
    snapshot: Snapshot,
    config: SchedulerConfig,
    *,
    changed: QueueTable,
    owner: IntArray,
    ended: Ended,
    submitted: Submitted | None,
    futures: int,
    horizon_s: float,
    cpu_s: float = math.inf,
    most_cpu_s: float = math.inf,
    seed: int = 0,
) -> Forecast:
    """Return what the jobs of each queue are to expect with the present queues and with the changed ones.

    Args:
        snapshot: The state.
        config: How rounds decide.
        changed: The queues as they would be, row by row those of the snapshot.
        owner: (n,) number of the owner of each job.
        ended: Jobs that ended before, to know how long jobs run.
        submitted: What was submitted lately; None for nothing to come.
        futures: How many pairs to simulate.
        horizon_s: How far.
        cpu_s: CPU time of this thread after which no further pair is begun.
        most_cpu_s: CPU time after which a pair is given up.
        seed: Of what is drawn.
    """
    jobs = snapshot.jobs
    like = template_rows(submitted, Draws(seed, "like whom"), most=_most_coming(submitted, horizon_s))
    run_times = run_times_of(snapshot, owner, submitted, like, ended)
    unknown = int(np.count_nonzero(~run_times.is_known))
    if unknown:
        return Forecast(now=(), changed=(), futures=0, unknown_jobs=unknown)
    begin_s = time.thread_time()
    ask = _Ask(
        config=config,
        horizon_s=horizon_s,
        round_s=next((round_s for least, round_s in ROUNDS_S if len(jobs) >= least), None),
        until_cpu_s=begin_s + most_cpu_s,
    )
    pairs: list[tuple[_Seen, _Seen]] = []
    for future in range(futures):
        left_s = run_times.draw(Draws(seed, f"time left {future}"))
        draws = Draws(seed, f"arrivals {future}")
        own_s, coming_s = left_s[: len(jobs)], left_s[len(jobs) :]
        coming = coming_jobs(submitted, like, coming_s, snapshot.now_s, horizon_s, draws) if submitted else []
        try:
            now = _replay(snapshot, ask, own_s, coming)
            pairs.append((now, _replay(replace(snapshot, queues=changed), ask, own_s, coming)))
        except OutOfTimeError:
            break
        if time.thread_time() - begin_s >= cpu_s:
            break
    sides = [_figures([pair[side] for pair in pairs]) for side in range(2)]
    return Forecast(now=sides[0], changed=sides[1], futures=len(pairs), round_s=ask.round_s)


def _most_coming(submitted: Submitted | None, horizon_s: float) -> int:
    """Return how many jobs come at most: hardly ever more than that come by chance."""
    if submitted is None or submitted.over_s <= 0:
        return 0
    expected = len(submitted) * horizon_s / submitted.over_s
    return min(MOST_COMING, math.ceil(expected + 5.0 * math.sqrt(expected) + 5.0))


def _replay(snapshot: Snapshot, ask: _Ask, left_s: FloatArray, coming: Sequence[SimJob]) -> _Seen:
    end_s = snapshot.now_s + ask.horizon_s
    outcome = simulate(
        Replay(
            [*jobs_of(snapshot, left_s), *coming],
            snapshot.servers,
            snapshot.queues,
            ask.config,
            round_s=ask.round_s,
            beat_s=snapshot.round_s,
            until_s=end_s,
            keep_stays=True,
            begun=Begun(snapshot=snapshot, remaining_s=left_s),
        ),
        progress=stop_at(ask.until_cpu_s),
    )
    assert outcome.stays is not None
    records = outcome.records
    begin_s = np.full(len(records), np.inf)
    np.minimum.at(begin_s, outcome.stays.job, outcome.stays.begin_s)
    waits = np.concatenate((np.flatnonzero(~snapshot.jobs.running), np.arange(len(snapshot.jobs), len(records))))
    since_s = np.maximum(records.arrival_s[waits], snapshot.now_s)
    stopped = np.bincount(records.queue, weights=records.preemptions, minlength=len(snapshot.queues))
    return _Seen(
        queue=records.queue[waits],
        wait_s=np.minimum(begin_s[waits], end_s) - since_s,
        started=np.isfinite(begin_s[waits]),
        preemptions=stopped.astype(np.float64),
    )


def _figures(seen: Sequence[_Seen]) -> tuple[QueueFigures, ...]:
    """Return the figures of each queue over all futures of one side."""
    if not seen:
        return ()
    queue, wait_s = np.concatenate([one.queue for one in seen]), np.concatenate([one.wait_s for one in seen])
    started = np.concatenate([one.started for one in seen])
    found = []
    for row, preemptions in enumerate(np.sum([one.preemptions for one in seen], axis=0).tolist()):
        mine = queue == row
        p50_s, p90_s = wait_quantiles(wait_s[mine], started[mine], (0.5, 0.9))
        found.append(
            QueueFigures(
                jobs=float(np.count_nonzero(mine)) / len(seen),
                wait_p50_s=p50_s,
                wait_p90_s=p90_s,
                longest_s=float(wait_s[mine].max(initial=0.0)),
                preemptions=preemptions / len(seen),
            )
        )
    return tuple(found)


def wait_quantiles(wait_s: FloatArray, started: BoolArray, shares: Sequence[float]) -> list[float | None]:
    """Return quantiles of waits of which some had not ended when the replay did; None where they are out of reach.

    Args:
        wait_s: (n,) seconds until the start, or until the end of the replay.
        started: (n,) whether it is the first.
        shares: Which quantiles.

    Source: Kaplan and Meier, "Nonparametric estimation from incomplete observations", 1958.
    """
    order = np.lexsort((~started, wait_s))
    at_risk = np.arange(len(wait_s), 0, -1)
    waits_on = np.cumprod(1.0 - started[order] / at_risk)
    found: list[float | None] = []
    for share in shares:
        over = np.flatnonzero(waits_on <= 1.0 - share + 1e-12)
        found.append(float(wait_s[order][over[0]]) if len(over) else None)
    return found
