"""A change of quotas is foreseen in pairs of replays that meet the same chance."""

import math
from dataclasses import replace

import numpy as np
import pytest

from scheduler.choices import build_config
from scheduler.core.model.tables import QueueTable, Snapshot
from scheduler.simulator.draws import Draws
from scheduler.simulator.forecasts.futures import Submitted
from scheduler.simulator.forecasts.paired import paired
from scheduler.simulator.forecasts.quota_forecast import Forecast, forecast, wait_quantiles
from scheduler.simulator.forecasts.run_times import Ended
from tests.support.simulator.strategies import JobRow, QueueRow, ServerRow, snapshot_of

HOUR_S = 3600.0
CONFIG = build_config(policy="fifo", locality="consolidate", mechanism="proportional")
NOBODY = Ended(
    queue=np.zeros(0, dtype=np.int64), owner=np.zeros(0, dtype=np.int64), run_s=np.zeros(0, dtype=np.float64)
)


def two_teams(*, known: bool = True) -> Snapshot:
    """Return four GPUs, all held by the second team (one hour left), and two jobs of the first that wait."""
    left_s = HOUR_S if known else math.inf
    holding = [JobRow(queue=1, seats=((0, 1),), remaining_s=left_s, first_start_s=0.0) for _ in range(4)]
    waiting = [JobRow(queue=0, remaining_s=HOUR_S) for _ in range(2)]
    return snapshot_of([*holding, *waiting], [ServerRow(num_gpus=4)], [QueueRow(), QueueRow(quota_gpus=4)])


def changed(snapshot: Snapshot, *quotas: int) -> QueueTable:
    """Return the queues with other quotas."""
    return replace(snapshot.queues, quota_gpus=np.array(quotas, dtype=np.int64))


SOME = Ended(queue=np.array([0, 1] * 10), owner=np.zeros(20, dtype=np.int64), run_s=np.full(20, 900.0))


def ask(
    snapshot: Snapshot,
    queues: QueueTable,
    submitted: Submitted | None = None,
    *,
    ended: Ended = NOBODY,
    futures: int = 6,
) -> Forecast:
    """Return the forecast of a day."""
    owner = np.zeros(len(snapshot.jobs), dtype=np.int64)
    return forecast(
        snapshot,
        CONFIG,
        changed=queues,
        owner=owner,
        ended=ended,
        submitted=submitted,
        futures=futures,
        horizon_s=24 * HOUR_S,
    )


def test_quota_for_those_who_wait_starts_them_at_once_and_stops_who_borrowed() -> None:
    """The first team's wait goes to nothing, the second is preempted for it: both sides of the change are told."""
    snapshot = two_teams()

    found = ask(snapshot, changed(snapshot, 2, 2))

    own, other = found.queues
    assert found.futures == 6
    assert own.p50 is not None
    assert own.p50.now == pytest.approx(HOUR_S, rel=0.4)
    assert (own.p50.then, own.p50.direction) == (0.0, -1)
    assert other.preemptions[0] == 0.0
    assert other.preemptions[1] == pytest.approx(2.0)
    # Those of the second team that are stopped wait for it; nothing else of that team does.
    assert other.jobs == pytest.approx(2.0)
    assert other.p90 is not None
    assert (other.p90.now, other.p90.direction) == (0.0, 1)


def test_no_change_gives_the_same_figures_twice() -> None:
    """Both sides meet the same chance, so what differs is the work of the change alone."""
    snapshot = two_teams()
    ones = np.ones(6, dtype=np.int64)
    lately = Submitted(
        over_s=86_400.0,
        queue=np.array([0, 1, 0, 1, 0, 1]),
        owner=np.zeros(6, dtype=np.int64),
        num_gpus=ones,
        max_servers=ones,
        min_gpus=ones,
        max_gpus=ones,
    )

    found = ask(snapshot, snapshot.queues, lately, ended=SOME)

    for queue in found.queues:
        for wait in (queue.p50, queue.p90):
            assert wait is not None
            assert wait.now == wait.then
            assert (wait.change, wait.change_low, wait.change_high, wait.direction) == (0.0, 0.0, 0.0, 0)
    assert found.queues[0].jobs > 2  # the two that wait, and some that come


def test_nothing_is_said_where_run_times_cannot_be_guessed() -> None:
    """An invented length of a job would be an invented answer."""
    snapshot = two_teams(known=False)

    found = ask(snapshot, snapshot.queues)

    assert (found.futures, found.unknown_jobs, found.queues) == (0, 4, ())


def test_a_wait_that_the_horizon_cuts_is_unknown_not_short() -> None:
    """The GPUs are taken for two days: how long the others wait cannot be said from one."""
    holding = [JobRow(queue=1, seats=((0, 1),), remaining_s=48 * HOUR_S, first_start_s=0.0) for _ in range(4)]
    snapshot = snapshot_of(
        [*holding, JobRow(queue=0, remaining_s=HOUR_S)], [ServerRow(num_gpus=4)], [QueueRow(), QueueRow(quota_gpus=4)]
    )

    wait = ask(snapshot, snapshot.queues).queues[0].p50

    assert wait is not None
    assert math.isinf(wait.now)
    assert math.isinf(wait.then)
    assert math.isnan(wait.change)
    assert wait.direction == 0


def test_waits_that_have_not_ended_count_as_longer_not_as_ended() -> None:
    """Half of the jobs still wait at the end: the median is known where it was reached, the rest is not."""
    wait_s = np.array([10.0, 20.0, 30.0, 40.0])

    assert wait_quantiles(wait_s, np.array([True, True, True, True]), (0.5, 0.9)) == [20.0, 40.0]
    assert wait_quantiles(wait_s, np.array([True, True, False, False]), (0.5, 0.9)) == [20.0, math.inf]
    assert wait_quantiles(np.zeros(0), np.zeros(0, dtype=np.bool_), (0.5,)) == [math.inf]


def test_differences_are_taken_future_by_future() -> None:
    """Futures differ by hours, the change by a minute in each of them: unpaired it would drown."""
    now = np.array([60.0, 3_600.0, 36_000.0, 600.0, 7_200.0])

    steady, mixed = paired(now, now + 60.0), paired(now, now + np.array([60.0, -60.0, 60.0, -60.0, 60.0]))
    cut, never = paired(now, np.full(5, np.inf)), paired(np.full(5, np.inf), np.full(5, np.inf))

    assert (steady.change_low, steady.change, steady.change_high, steady.direction) == (60.0, 60.0, 60.0, 1)
    assert (mixed.change_low, mixed.change_high, mixed.direction) == (-60.0, 60.0, 0)
    assert (cut.now, cut.then, cut.change, cut.direction) == (3_600.0, math.inf, math.inf, 1)
    assert (math.isnan(never.change), never.direction) == (True, 0)


@pytest.mark.parametrize("batch", [0, *(pytest.param(batch, marks=pytest.mark.long) for batch in range(1, 5))])
def test_more_quota_never_lengthens_the_own_wait(batch: int) -> None:
    """On random clusters the jobs of a queue that is given quota wait no longer beyond the interval.

    Quantiles are held on average alone: large jobs may start before small ones that would have borrowed.
    """
    changes = []
    for seed in range(10 * batch, 10 * batch + 10):
        snapshot = random_cluster(seed)
        quotas = snapshot.queues.quota_gpus
        after = changed(snapshot, int(quotas[0]) + 3, int(quotas[1]) - 3)
        own = ask(snapshot, after, ended=SOME, futures=8).queues[0]
        assert own.mean is not None
        assert own.mean.direction <= 0, f"seed {seed}: {own.mean}"
        changes += [[wait.change for wait in (own.p50, own.p90) if wait is not None]]

    assert (np.mean(changes, axis=0) <= 0.0).all()


def random_cluster(seed: int) -> Snapshot:
    """Return 12 GPUs of two queues with equal quotas, up to 24 jobs of random sizes, the first ones running."""
    draws = Draws(seed, "cluster")
    sizes, queues = draws.uniform(24), draws.uniform(24)
    left_s = (draws.exponential(24) * 2 * HOUR_S).tolist()
    free, rows = [4, 4, 4], []
    for size, queue, remaining_s in zip(sizes.tolist(), queues.tolist(), left_s, strict=True):
        gpus = 1 if size < 0.6 else 2 if size < 0.9 else 4
        server = next((at for at, room in enumerate(free) if room >= gpus), None)
        seats = () if server is None else ((server, gpus),)
        if server is not None:
            free[server] -= gpus
        start_s = 0.0 if seats else math.inf
        rows.append(
            JobRow(queue=int(queue < 0.5), num_gpus=gpus, seats=seats, remaining_s=remaining_s, first_start_s=start_s)
        )
    return snapshot_of(rows, [ServerRow(num_gpus=4)] * 3, [QueueRow(quota_gpus=6), QueueRow(quota_gpus=6)])


def later(snapshot: Snapshot, by_s: float) -> Snapshot:
    """Return the same jobs some seconds on: those that run have run for longer, nothing else has happened."""
    jobs, ran_s = snapshot.jobs, by_s * snapshot.jobs.running
    jobs = replace(jobs, executed_s=jobs.executed_s + ran_s, remaining_s=jobs.remaining_s - ran_s)
    return replace(snapshot, now_s=snapshot.now_s + by_s, jobs=jobs)


def test_present_waits_hang_on_what_happens_not_on_when_one_asks() -> None:
    """For any quota the present waits are the same; those of ten seconds later are those but for the ten seconds."""
    snapshot, few = two_teams(), np.arange(6) % 2
    ones = np.ones(6, dtype=np.int64)
    lately = Submitted(
        over_s=86_400.0, queue=few, owner=few, num_gpus=ones, max_servers=ones, min_gpus=ones, max_gpus=ones
    )
    ended = replace(SOME, run_s=600.0 + 3_000.0 * Draws(1, "run times").uniform(20))

    first = ask(snapshot, changed(snapshot, 2, 2), lately, ended=ended)
    moved = ask(snapshot, changed(snapshot, 4, 0), lately, ended=ended)
    after = ask(later(snapshot, 10.0), changed(snapshot, 2, 2), lately, ended=ended)

    for one, same, next_ in zip(first.queues, moved.queues, after.queues, strict=True):
        assert one.preemptions[0] == same.preemptions[0]
        for wait, wait_moved, wait_next in ((one.p50, same.p50, next_.p50), (one.p90, same.p90, next_.p90)):
            assert wait is not None
            assert wait_moved is not None
            assert wait_next is not None
            assert wait.now == wait_moved.now
            assert wait_next.now == pytest.approx(wait.now, abs=10.1)
