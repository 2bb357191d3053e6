"""Running jobs in order: by their present keys, then as jobs of equal keys are told apart; a quota covers the first."""

import random

import numpy as np
import pytest

from scheduler.core.model.tables import FloatArray, IntArray
from scheduler.simulator.incremental.orders.running_order import QuotaCover, RunningOrder
from scheduler.simulator.incremental.walks.preemption_candidates import Key
from scheduler.simulator.jobs import SimJob
from scheduler.simulator.state.columns import Columns


@pytest.mark.parametrize("seed", range(20))
def test_the_order_is_that_of_whole_keys(seed: int) -> None:
    """Jobs start, leave, come back, and change keys; two rounds may come at the same moment."""
    chance = random.Random(seed)
    columns = Columns([SimJob(arrival_s=float(row % 5), num_gpus=1, run_s=1.0) for row in range(60)])
    level = np.zeros(len(columns))

    def present(rows: IntArray, now_s: float) -> FloatArray:
        return level[rows]

    order, now_s = RunningOrder(columns, present), 10.0
    for _ in range(20):
        starts = chance.sample(range(len(columns)), 8)
        for row in starts:
            columns.first_start_s[row] = min(columns.first_start_s[row], now_s)
            columns.held_gpus[row] = 1.0
        order.start(starts)
        columns.held_gpus[chance.sample(range(len(columns)), 8)] = 0.0
        level[chance.sample(range(len(columns)), 5)] += 1.0
        if chance.random() < 0.7:  # not each round asks
            rows = order.at(now_s).tolist()
            keys = [(level[row], columns.first_start_s[row], columns.arrival_s[row], row) for row in rows]

            assert keys == sorted(keys)
            assert set(rows) == set(np.flatnonzero(columns.held_gpus).tolist())
            assert [order.key(row) for row in rows] == keys
        now_s += chance.choice([0.0, 60.0])


@pytest.mark.parametrize("seed", range(50))
def test_a_quota_covers_what_fits_in_turn(seed: int) -> None:
    """A job that is wider than what is left of the quota is stepped over, and narrower ones behind it are covered."""
    chance = random.Random(seed)
    size, quota = chance.randint(0, 12), chance.randint(0, 30)
    gpus = [chance.choice([1, 2, 4, 8]) for _ in range(size)]
    claims = {at: chance.choice([1, 2]) for at in chance.sample(range(size + 1), min(2, size + 1))}  # before the job

    def key(row: int) -> Key:
        return float(row), 0.0, 0.0, row

    cover = QuotaCover(np.arange(size), np.array(gpus, dtype=np.int64), key, quota)
    left, without = quota, []
    for at in range(size + 1):
        if at in claims:
            cover.pass_until((at - 0.5, 0.0, 0.0, 0))
            assert cover.left == left
            taken = min(claims[at], left)
            cover.left -= taken
            left -= taken
        if at < size and gpus[at] <= left:
            left -= gpus[at]
        elif at < size:
            without.append(at)
    cover.pass_until(None)

    assert (cover.left, cover.without) == (left, without)
