"""Shortest remaining time first."""

import math

from scheduler.core.model.profile import Profile
from scheduler.policies.srtf import Srtf
from tests.support.simulator.strategies import JobRow, ServerRow, snapshot_of
from tests.support.simulator.synergy import PROFILES


def test_jobs_count_by_the_time_at_their_share() -> None:
    """Unknown remaining times come last, whatever else is known."""
    jobs = [JobRow(remaining_s=60.0, profile=PROFILES["alexnet"]), JobRow(remaining_s=30.0), JobRow()]

    assert Srtf().priority(snapshot_of(jobs, [ServerRow()])).tolist() == [60, 30, math.inf]


def test_jobs_may_count_by_the_time_at_full_speed() -> None:
    """AlexNet is 2.94 times as fast with all the cores it can use; unknown jobs are not."""
    jobs = [
        JobRow(remaining_s=60.0, profile=PROFILES["alexnet"]),
        JobRow(remaining_s=30.0),
        JobRow(remaining_s=30.0, profile=Profile()),
        JobRow(remaining_s=30.0, profile=PROFILES["gnmt"]),
    ]

    assert Srtf(with_speed_up=True).priority(snapshot_of(jobs, [ServerRow()])).tolist() == [60 / 2.94, 30, 30, 30]
