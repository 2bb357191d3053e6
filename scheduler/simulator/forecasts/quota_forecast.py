"""Foresee what a change of queues does: the same futures simulated twice, with the present queues and with the changed.

Both replays of a pair meet the same chance: jobs last as long and arrive at the same times. What differs between them
is the work of the change alone (common random numbers). The decision is the one that rules the live cluster.
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
from scheduler.simulator.forecasts.paired import Paired, paired
from scheduler.simulator.forecasts.run_times import Ended, RunTimes
from scheduler.simulator.jobs import SimJob
from scheduler.simulator.replay.engine import simulate
from scheduler.simulator.replay.replay import Replay
from scheduler.simulator.state.begun import Begun, jobs_of

# Replays plan a round whenever something changes. Where that takes too long they plan one every so many seconds.
ROUNDS_S: tuple[float | None, ...] = (None, 900.0, 1_800.0)
# From so many jobs of the snapshot on, the finer ones of them are not even tried.
COARSER_FROM = (200, 1_500)
# Fewer futures do not tell chance from effect; where finer rounds do not leave time for enough, coarser ones are taken.
LEAST_FUTURES, ENOUGH_FUTURES = 5, 8
# Of what is drawn. A seed that changes, with the round say, would show other present waits each time one asks.
SEED = 0
# At most so many jobs arrive in one replay.
MOST_COMING = 3_000


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOutlook:
    """What the jobs of one queue are to expect without and with the change.

    The jobs are those that wait now, those that come, and those that run now and are stopped on either side.

    Attributes:
        jobs: How many there are, a future.
        p50, p90: Time without GPUs from now on, of half of them and of 9 in 10, seconds; None without jobs. More quota
            may lengthen p50: large jobs of the queue then start before small ones that would have borrowed.
        mean: The mean of it within the simulated time; None without jobs.
        preemptions: Times that jobs of the queue are stopped or moved, a future, on both sides.
    """

    jobs: float
    p50: Paired | None
    p90: Paired | None
    mean: Paired | None
    preemptions: tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The outlook of each queue row.

    Attributes:
        queues: One entry for each queue row; empty without futures.
        futures: How many pairs of replays there are.
        round_s: Seconds between the rounds of the replays; None where one follows every change.
        unknown_jobs: Jobs that tell no run time and for which none can be guessed; there are no futures then.
    """

    queues: tuple[QueueOutlook, ...]
    futures: int
    round_s: float | None = None
    unknown_jobs: int = 0


@dataclass(frozen=True, slots=True)
class _Ask:
    """Settings of a replay: its configuration, how far, and with which rounds."""

    config: SchedulerConfig
    horizon_s: float
    round_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Allowed:
    """CPU times of this thread: after ``enough_s`` no pair begins if there are enough, after ``most_s`` none at all."""

    enough_s: float
    most_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """Findings of one replay, of each job: time without GPUs, whether it waits at the end, how often it was stopped."""

    without_s: FloatArray
    waits_on: BoolArray
    stopped: IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    """One future: the queue of each job, whether it counts, and both replays."""

    queue: IntArray
    counts: BoolArray
    sides: tuple[_Seen, _Seen]


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
    least_round_s: float | None = None,
) -> Forecast:
    """Return what the jobs of each queue are to expect with the present queues and with the changed ones.

    All forecasts draw the same chance for the same jobs, so that two of them differ by what has happened in between.

    Args:
        snapshot: The state.
        config: How rounds decide.
        changed: The queues as they would be, row by row those of the snapshot.
        owner: (n,) number of the owner of each job.
        ended: Jobs that ended before, to know how long jobs run.
        submitted: What was submitted lately; None for nothing to come.
        futures: How many pairs to simulate.
        horizon_s: How far.
        cpu_s: CPU time of this thread after which no further pair is begun where there are enough.
        most_cpu_s: CPU time that it may take for enough of them.
        least_round_s: Rounds of fewer seconds are not tried; None to try all.
    """
    like = template_rows(submitted, Draws(SEED, "like whom"), most=_most_coming(submitted, horizon_s))
    run_times = run_times_of(snapshot, owner, submitted, like, ended)
    unknown = int(np.count_nonzero(~run_times.is_known))
    if unknown:
        return Forecast(queues=(), futures=0, unknown_jobs=unknown)
    drawn = _Drawn(snapshot, submitted, like, run_times, horizon_s)
    begin_s = time.thread_time()
    allowed = _Allowed(enough_s=begin_s + cpu_s, most_s=begin_s + most_cpu_s)
    first = max(sum(len(snapshot.jobs) >= size for size in COARSER_FROM), ROUNDS_S.index(least_round_s))
    grids = ROUNDS_S[first:]
    for round_s in grids:
        least = min(futures, LEAST_FUTURES if round_s == grids[-1] else ENOUGH_FUTURES)
        pairs = _pairs(drawn, _Ask(config, horizon_s, round_s), changed, futures, least, allowed)
        if len(pairs) >= least:
            return Forecast(queues=_outlooks(pairs, len(changed)), futures=len(pairs), round_s=round_s)
    return Forecast(queues=(), futures=0, round_s=grids[-1])


class _Drawn:
    """Draws the chance of each future once for both sides."""

    def __init__(
        self,
        snapshot: Snapshot,
        submitted: Submitted | None,
        like: IntArray,
        run_times: RunTimes,
        horizon_s: float,
    ) -> None:
        self.snapshot = snapshot
        self._submitted, self._like, self._run_times = submitted, like, run_times
        self._horizon_s = horizon_s

    def future(self, number: int) -> tuple[FloatArray, list[SimJob]]:
        """Return how long the jobs of the snapshot still run, and the jobs that come."""
        size = len(self.snapshot.jobs)
        left_s = self._run_times.draw(Draws(SEED, f"time left {number}"))
        if self._submitted is None:
            return left_s[:size], []
        draws = Draws(SEED, f"arrivals {number}")
        now_s = self.snapshot.now_s
        return left_s[:size], coming_jobs(self._submitted, self._like, left_s[size:], now_s, self._horizon_s, draws)


def _pairs(drawn: _Drawn, ask: _Ask, changed: QueueTable, futures: int, least: int, allowed: _Allowed) -> list[_Pair]:
    """Return pairs until the time is up; it gives up early where one takes so long that there would be too few."""
    found: list[_Pair] = []
    snapshot = drawn.snapshot
    begun_s = time.thread_time()
    # The first pair tells how long one takes; it may use only the time of one of ``least``.
    until_s = begun_s + (allowed.most_s - begun_s) / least
    while len(found) < futures:
        own_s, coming = drawn.future(len(found))
        try:
            now = _replay(snapshot, ask, own_s, coming, until_s)
            then = _replay(replace(snapshot, queues=changed), ask, own_s, coming, until_s)
        except OutOfTimeError:
            break
        found.append(_pair(snapshot, coming, now, then))
        at_s, until_s = time.thread_time(), allowed.most_s
        if at_s + (least - len(found)) * (at_s - begun_s) / len(found) > until_s:
            break
        if len(found) >= least and at_s >= allowed.enough_s:
            break
    return found


def _most_coming(submitted: Submitted | None, horizon_s: float) -> int:
    """Return how many jobs come at most: hardly ever more than that come by chance."""
    if submitted is None or submitted.over_s <= 0:
        return 0
    expected = len(submitted) * horizon_s / submitted.over_s
    most = math.ceil(expected + 5.0 * math.sqrt(expected) + 5.0)
    # One submission more would else give all others another place in the order of arrivals.
    return min(MOST_COMING, 1 << (most - 1).bit_length())


def _replay(snapshot: Snapshot, ask: _Ask, left_s: FloatArray, coming: Sequence[SimJob], until_cpu_s: float) -> _Seen:
    end_s = snapshot.now_s + ask.horizon_s
    jobs = snapshot.jobs
    outcome = simulate(
        Replay(
            [*jobs_of(snapshot, left_s), *coming],
            snapshot.servers,
            snapshot.queues,
            ask.config,
            round_s=ask.round_s,
            beat_s=snapshot.round_s,
            until_s=end_s,
            begun=Begun(snapshot=snapshot, remaining_s=left_s),
        ),
        progress=stop_at(until_cpu_s),
    )
    records = outcome.records
    before_s = np.zeros(len(records))
    before_s[: len(jobs)] = np.maximum(0.0, snapshot.now_s - jobs.arrival_s - jobs.executed_s)
    waits_on = np.isinf(records.end_s) & (records.arrival_s < end_s)
    waits_on[list(outcome.holding)] = False
    # Records end with the last round; a job that waited then is taken to wait until the end of the forecast.
    more_s = end_s - np.maximum(records.arrival_s, outcome.until_s)
    return _Seen(
        without_s=records.queueing_s - before_s + np.where(waits_on, np.maximum(0.0, more_s), 0.0),
        waits_on=waits_on,
        stopped=records.preemptions.copy(),
    )


def _pair(snapshot: Snapshot, coming: Sequence[SimJob], now: _Seen, then: _Seen) -> _Pair:
    """Return one future; of the jobs that run now only those count that are stopped on either side."""
    queue = np.concatenate((snapshot.jobs.queue, np.array([job.queue for job in coming], dtype=np.int64)))
    counts = np.ones(len(queue), dtype=np.bool_)
    counts[: len(snapshot.jobs)] = ~snapshot.jobs.running
    counts |= (now.stopped > 0) | (then.stopped > 0)
    return _Pair(queue=queue, counts=counts, sides=(now, then))


def _outlooks(pairs: Sequence[_Pair], num_queues: int) -> tuple[QueueOutlook, ...]:
    """Return the outlook of each queue over all futures."""
    found = []
    for row in range(num_queues):
        figures: list[list[list[float]]] = []  # of each future with jobs: [now, then], each [p50, p90, mean]
        jobs, preemptions = 0, np.zeros(2)
        for pair in pairs:
            own = pair.queue == row
            mine = own & pair.counts
            jobs += int(np.count_nonzero(mine))
            preemptions += [side.stopped[own].sum() for side in pair.sides]
            if mine.any():
                sides = [(side.without_s[mine], side.waits_on[mine]) for side in pair.sides]
                figures.append([[*wait_quantiles(wait_s, ~on, (0.5, 0.9)), wait_s.mean()] for wait_s, on in sides])
        columns = np.array(figures).reshape(-1, 2, 3)
        p50, p90, mean = (paired(*columns[:, :, at].T) if len(columns) else None for at in range(3))
        each = (preemptions / len(pairs)).tolist()
        found.append(QueueOutlook(jobs=jobs / len(pairs), p50=p50, p90=p90, mean=mean, preemptions=(each[0], each[1])))
    return tuple(found)


def wait_quantiles(wait_s: FloatArray, ended: BoolArray, shares: Sequence[float]) -> list[float]:
    """Return quantiles of waits of which some had not ended when the replay did; +inf where they are out of reach.

    Args:
        wait_s: (n,) seconds without GPUs until the end of the replay.
        ended: (n,) whether the wait was over then.
        shares: Which quantiles.

    Source: Kaplan and Meier, "Nonparametric estimation from incomplete observations", 1958.
    """
    order = np.lexsort((~ended, wait_s))
    at_risk = np.arange(len(wait_s), 0, -1)
    waits_on = np.cumprod(1.0 - ended[order] / at_risk)
    found: list[float] = []
    for share in shares:
        over = np.flatnonzero(waits_on <= 1.0 - share + 1e-12)
        found.append(float(wait_s[order][over[0]]) if len(over) else math.inf)
    return found
