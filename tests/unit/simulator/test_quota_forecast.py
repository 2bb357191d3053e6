"""A change of quotas is foreseen in pairs of replays that meet the same chance."""

import math
from dataclasses import replace

import numpy as np
import pytest

from scheduler.choices import build_config
from scheduler.core.model.tables import QueueTable, Snapshot
from scheduler.simulator.forecasts.futures import Submitted
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


def ask(snapshot: Snapshot, queues: QueueTable, submitted: Submitted | None = None) -> Forecast:
    """Return the forecast of a day."""
    owner = np.zeros(len(snapshot.jobs), dtype=np.int64)
    return forecast(
        snapshot,
        CONFIG,
        changed=queues,
        owner=owner,
        ended=NOBODY,
        submitted=submitted,
        futures=3,
        horizon_s=24 * HOUR_S,
    )


def test_quota_for_those_who_wait_starts_them_at_once_and_stops_who_borrowed() -> None:
    """The first team's wait goes to nothing, the second is preempted for it: both sides of the change are told."""
    snapshot = two_teams()

    found = ask(snapshot, changed(snapshot, 2, 2))

    assert found.futures == 3
    assert found.now[0].wait_p50_s == pytest.approx(HOUR_S, rel=0.4)
    assert found.changed[0].wait_p50_s == 0.0
    assert found.now[1].preemptions == 0
    assert found.changed[1].preemptions == pytest.approx(2.0)


def test_no_change_gives_the_same_figures_twice() -> None:
    """Both sides meet the same chance, so what differs is the work of the change alone."""
    snapshot = two_teams()
    lately = Submitted(
        over_s=86_400.0,
        queue=np.array([0, 1, 0, 1, 0, 1]),
        owner=np.zeros(6, dtype=np.int64),
        num_gpus=np.ones(6, dtype=np.int64),
    )
    ended = Ended(queue=np.array([0, 1] * 10), owner=np.zeros(20, dtype=np.int64), run_s=np.full(20, 900.0))

    found = forecast(
        snapshot,
        CONFIG,
        changed=snapshot.queues,
        owner=np.zeros(6, dtype=np.int64),
        ended=ended,
        submitted=lately,
        futures=2,
        horizon_s=24 * HOUR_S,
    )

    assert found.now == found.changed
    assert found.now[0].jobs > 2  # the two that wait, and some that come


def test_nothing_is_said_where_run_times_cannot_be_guessed() -> None:
    """An invented length of a job would be an invented answer."""
    snapshot = two_teams(known=False)

    found = ask(snapshot, snapshot.queues)

    assert (found.futures, found.unknown_jobs, found.now) == (0, 4, ())


def test_waits_that_have_not_ended_count_as_longer_not_as_ended() -> None:
    """Half of the jobs still wait at the end: the median is known where it was reached, the rest is not."""
    wait_s = np.array([10.0, 20.0, 30.0, 40.0])

    assert wait_quantiles(wait_s, np.array([True, True, True, True]), (0.5, 0.9)) == [20.0, 40.0]
    assert wait_quantiles(wait_s, np.array([True, True, False, False]), (0.5, 0.9)) == [20.0, None]
    assert wait_quantiles(np.zeros(0), np.zeros(0, dtype=np.bool_), (0.5,)) == [None]
