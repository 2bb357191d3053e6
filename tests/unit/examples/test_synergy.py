"""The traces of Synergy's deployment beside an independent re-simulation from the same published profiles.

Four servers of 8 GPUs, 24 cores and 500 GB, rounds of 300 s, 100 jobs of one GPU each, free restarts. The published
simulator places all jobs anew in every round and in the order of the policy, and under Tune its SRTF counts the time
that remains at full speed; without these three settings ours differs by what they do, see the last test.
"""

from pathlib import Path

import numpy as np
import pytest

from scheduler.choices import build_config
from scheduler.simulator.replay.engine import simulate
from scheduler.simulator.replay.replay import Replay
from scheduler.simulator.state.outcome import Records
from scheduler.simulator.traces import read_trace
from tests.support.simulator.strategies import ServerRow, snapshot_of

CLUSTER = snapshot_of([], [ServerRow()] * 4)
AS_RELEASED = {"repack": True, "sort_by_demand": False}


def replay(trace: str, policy: str, mechanism: str, *, by_speed_up: bool = False, **options: bool) -> Records:
    """Return what becomes of the jobs; every round is planned."""
    config = build_config(
        policy=policy,
        policy_options={"with_speed_up": True} if by_speed_up else {},
        mechanism=mechanism,
        mechanism_options=options,
    )
    jobs = read_trace(Path(f"fixtures/traces/synergy_{trace}.csv")).jobs
    return simulate(Replay(jobs, CLUSTER.servers, CLUSTER.queues, config, round_s=300.0, incremental=False)).records


def makespan_h(records: Records) -> float:
    """Return the last completion minus the first submission, hours."""
    return float(records.end_s.max() - records.arrival_s.min()) / 3600


def mean_jct_h(records: Records) -> float:
    """Return the mean completion time, hours."""
    return float(records.jct_s.mean()) / 3600


def test_fifo_makespan() -> None:
    """15.25 h with the proportional share, 10.97 h with Tune."""
    assert makespan_h(replay("static", "fifo", "proportional")) == pytest.approx(15.25, rel=0.001)
    assert makespan_h(replay("static", "fifo", "tune", **AS_RELEASED)) == pytest.approx(10.97, rel=0.03)


def test_srtf_mean_completion_time() -> None:
    """3.86 h with the proportional share, 3.20 h with Tune."""
    assert mean_jct_h(replay("dynamic", "srtf", "proportional")) == pytest.approx(3.86, rel=0.002)
    tuned = replay("dynamic", "srtf", "tune", by_speed_up=True, **AS_RELEASED)
    assert mean_jct_h(tuned) == pytest.approx(3.20, rel=0.03)


def test_opt_is_the_fastest() -> None:
    """Opt makes the FIFO trace shorter than Tune, topped up or not; the published bound of 11.01 h is above ours."""
    tuned, topped, best = (
        makespan_h(replay("static", "fifo", mechanism, **options))
        for mechanism, options in (
            ("tune", {"repack": True}),
            ("tune", {"repack": True, "top_up": True}),
            ("opt", {"repack": True}),
        )
    )

    assert best < topped < tuned < makespan_h(replay("static", "fifo", "proportional"))
    assert best < 11.01


def test_what_the_settings_of_the_published_simulator_do() -> None:
    """Running jobs that stay where they are cost 6 % of the makespan; sorting by demand, as described, 3 %."""
    stays = makespan_h(replay("static", "fifo", "tune"))
    moved = makespan_h(replay("static", "fifo", "tune", repack=True))
    in_order = makespan_h(replay("static", "fifo", "tune", **AS_RELEASED))

    assert in_order < moved < stays
    assert np.array([stays, moved]) / in_order == pytest.approx([1.06, 1.03], abs=0.01)
