"""Shortest remaining service first."""

import numpy as np
import pytest

from scheduler.policies.srsf import Srsf
from tests.support.oracle.order import each
from tests.support.simulator.replays import job, replay
from tests.support.simulator.strategies import JobRow, ServerRow, snapshot_of

# The plain key of one job, which an independent oracle compares with ``plan_round`` on random clusters.
ORDER = each(lambda job, case: (job.num_gpus * job.remaining_s,), preemptive=True)


def test_the_tiresias_example() -> None:
    """Tiresias example A: services 4, 8 and 12 on two GPUs: completion at 2, 10 and 16, 9.33 on average."""
    outcome = replay([job(2, 2.0), job(1, 8.0), job(2, 6.0)], "srsf")

    assert outcome.records.end_s.tolist() == [2, 10, 16]
    assert outcome.records.jct_s.mean() == pytest.approx(28 / 3)


def test_a_wide_short_job_may_come_after_a_narrow_long_one() -> None:
    """8 GPUs for 10 s are more service than 1 GPU for 70 s; unknown lengths come last."""
    rows = [JobRow(num_gpus=8, remaining_s=10), JobRow(num_gpus=1, remaining_s=70), JobRow(num_gpus=1)]

    assert np.argsort(Srsf().priority(snapshot_of(rows, [ServerRow()]))).tolist() == [1, 0, 2]
