"""Estimate when waiting jobs start: simulate the cluster forward from a snapshot many times, with different draws.

What is not known is drawn: how long jobs still run, and which jobs will be submitted. Each future is one replay with
the decision that rules the live cluster; the starts of a job over all futures are its estimate.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.core.model.tables import FloatArray, IntArray, Snapshot
from scheduler.core.round.config import SchedulerConfig
from scheduler.simulator.draws import Draws
from scheduler.simulator.forecasts.run_times import Ended, RunTimes
from scheduler.simulator.jobs import SimJob
from scheduler.simulator.replay.engine import simulate
from scheduler.simulator.replay.replay import Replay
from scheduler.simulator.state.begun import Begun, jobs_of

# Fewer submissions tell nothing of how many will follow.
LEAST_SUBMITTED = 5
# Later ones hardly matter to the jobs that wait now, and cost time.
MOST_ARRIVALS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """Recent submissions, one row each; future ones are drawn from them.

    Attributes:
        over_s: Length of the time in which it was, seconds.
        queue, owner, num_gpus: (n,) queue row, number of the owner, GPUs.
        max_servers, min_gpus, max_gpus: (n,) as in ``JobTable``.
    """

    over_s: float
    queue: IntArray
    owner: IntArray
    num_gpus: IntArray
    max_servers: IntArray
    min_gpus: IntArray
    max_gpus: IntArray

    def __len__(self) -> int:
        return len(self.queue)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """Starts of the waiting jobs.

    Attributes:
        rows: (w,) rows of the waiting jobs in the snapshot, or of those that were asked about.
        starts_s: (w, f) seconds from the snapshot to the start in each future; +inf where it does not start.
        unknown: Whether some run time could not even be guessed; there are no futures then.
        cut: Whether there was too little time for all futures that were wanted.
    """

    rows: IntArray
    starts_s: FloatArray
    unknown: bool
    cut: bool

    @property
    def futures(self) -> int:
        """Return how many futures there are."""
        return int(self.starts_s.shape[1])


class OutOfTimeError(Exception):
    """The futures have used the CPU time they may use."""


def stop_at(until_cpu_s: float) -> Callable[[int, int], None]:
    """Return a ``progress`` of ``simulate`` that raises OutOfTimeError once this thread has used so much CPU time."""

    def stop_in_time(_done: int, _total: int) -> None:
        if time.thread_time() >= until_cpu_s:
            raise OutOfTimeError

    return stop_in_time


def outlook(
    snapshot: Snapshot,
    config: SchedulerConfig,
    *,
    owner: IntArray,
    ended: Ended,
    submitted: Submitted | None,
    futures: int,
    horizon_s: float,
    enough: int = 0,
    cpu_s: float = math.inf,
    most_cpu_s: float = math.inf,
    seed: int = 0,
    of: IntArray | None = None,
) -> Outlook:
    """Return when the waiting jobs of a snapshot start.

    Args:
        snapshot: The state.
        config: How rounds decide.
        owner: (n,) number of the owner of each job.
        ended: Jobs that ended before, to know how long jobs run.
        submitted: What was submitted lately; None for nothing to come.
        futures: How many to simulate.
        horizon_s: How far.
        enough: How many will do where time is short.
        cpu_s: CPU time of this thread after which it stops, within a future, once there are enough.
        most_cpu_s: CPU time after which it stops in any case, within a future.
        seed: Of what is drawn.
        of: Rows of the waiting jobs that are asked about; None for all. A future ends when they have started.
    """
    jobs = snapshot.jobs
    waiting = np.flatnonzero(~jobs.running) if of is None else of
    like = template_rows(submitted, Draws(seed, "like whom"))
    run_times = run_times_of(snapshot, owner, submitted, like, ended)
    if not len(waiting) or not run_times.is_known.all():
        none = np.zeros((len(waiting), 0))
        return Outlook(rows=waiting, starts_s=none, unknown=not run_times.is_known.all(), cut=False)
    begin_s = time.thread_time()
    found: list[FloatArray] = []
    for future in range(futures):
        until_s = begin_s + (cpu_s if len(found) >= enough else most_cpu_s)
        if found and time.thread_time() >= until_s:
            break
        left_s = run_times.draw(Draws(seed, f"time left {future}"))
        draws = Draws(seed, f"arrivals {future}")
        own_s, coming_s = left_s[: len(jobs)], left_s[len(jobs) :]
        coming = coming_jobs(submitted, like, coming_s, snapshot.now_s, horizon_s, draws) if submitted else []
        try:
            starts_s = _starts(snapshot, config, own_s, coming, waiting, horizon_s, until_s)[waiting]
        except OutOfTimeError:
            break
        found.append(starts_s)
    starts_s = np.stack(found, axis=1) if found else np.zeros((len(waiting), 0))
    return Outlook(rows=waiting, starts_s=starts_s, unknown=False, cut=len(found) < futures)


def run_times_of(
    snapshot: Snapshot, owner: IntArray, submitted: Submitted | None, like: IntArray, ended: Ended
) -> RunTimes:
    """Return how long the jobs of the snapshot still run, and after them those that may come."""
    jobs, no_rows = snapshot.jobs, np.zeros(0, dtype=np.int64)
    return RunTimes(
        number=np.concatenate((jobs.job_id, -1 - np.arange(len(like)))),
        queue=np.concatenate((jobs.queue, submitted.queue[like] if submitted else no_rows)),
        owner=np.concatenate((owner, submitted.owner[like] if submitted else no_rows)),
        run_s=np.concatenate((jobs.executed_s, np.zeros(len(like)))),
        left_s=np.concatenate((jobs.remaining_s, np.full(len(like), np.inf))),
        ended=ended,
    )


def template_rows(submitted: Submitted | None, draws: Draws, *, most: int = MOST_ARRIVALS) -> IntArray:
    """Return a row of ``submitted`` for each job that may come, which is made like that one."""
    if submitted is None or len(submitted) < LEAST_SUBMITTED or submitted.over_s <= 0:
        return np.zeros(0, dtype=np.int64)
    # In an order of what they ask for: one submission more makes few of the jobs another, and those a similar one.
    order = np.lexsort((submitted.owner, submitted.max_servers, submitted.num_gpus, submitted.queue))
    return order[(draws.uniform(most) * len(submitted)).astype(np.int64)]


def coming_jobs(
    submitted: Submitted, like: IntArray, run_s: FloatArray, now_s: float, horizon_s: float, draws: Draws
) -> list[SimJob]:
    """Return jobs that arrive as often as lately, in an order of their own.

    Args:
        submitted: What was submitted lately.
        like: Rows of it, see ``template_rows``.
        run_s: (c,) run time of each, seconds.
        now_s: When the future begins.
        horizon_s: How far it goes.
        draws: What is drawn.
    """
    order = draws.order(len(like))
    arrival_s = now_s + np.cumsum(draws.exponential(len(like))) * submitted.over_s / max(1, len(submitted))
    return [
        SimJob(
            arrival_s=at_s,
            num_gpus=int(submitted.num_gpus[like[row]]),
            run_s=float(run_s[row]),
            queue=int(submitted.queue[like[row]]),
            max_servers=int(submitted.max_servers[like[row]]),
            min_gpus=int(submitted.min_gpus[like[row]]),
            max_gpus=int(submitted.max_gpus[like[row]]),
        )
        for at_s, row in zip(arrival_s.tolist(), order.tolist(), strict=True)
        if at_s < now_s + horizon_s
    ]


def _starts(
    snapshot: Snapshot,
    config: SchedulerConfig,
    left_s: FloatArray,
    coming: Sequence[SimJob],
    of: IntArray,
    horizon_s: float,
    until_s: float,
) -> FloatArray:
    """Return (n,) seconds to the next start of each job of the snapshot in one future; +inf for none before the rows
    ``of`` have all started, or so soon.
    """
    outcome = simulate(
        Replay(
            [*jobs_of(snapshot, left_s), *coming],
            snapshot.servers,
            snapshot.queues,
            config,
            beat_s=snapshot.round_s,
            until_s=snapshot.now_s + horizon_s,
            until_started=of.tolist(),
            keep_stays=True,
            begun=Begun(snapshot=snapshot, remaining_s=left_s),
        ),
        progress=stop_at(until_s),
    )
    assert outcome.stays is not None
    begin_s = np.full(len(snapshot.jobs) + len(coming), np.inf)
    np.minimum.at(begin_s, outcome.stays.job, outcome.stays.begin_s)
    return begin_s[: len(snapshot.jobs)] - snapshot.now_s


def quantile(starts_s: FloatArray, share: float) -> float:
    """Return the time by which a job starts with this chance, seconds; +inf when it does not.

    Of f futures the k-th smallest covers what will really happen with chance k / (f + 1).
    """
    ranked = np.sort(starts_s)
    rank = math.ceil(share * (len(ranked) + 1))
    return float(ranked[rank - 1]) if 1 <= rank <= len(ranked) else math.inf
