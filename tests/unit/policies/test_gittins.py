"""Discretized 2D-Gittins: levels, index inside a level, and when a key changes by itself."""

import math
from pathlib import Path

import numpy as np
import pytest

from scheduler.core.round.capabilities import ChangesBySelf, Promotes
from scheduler.policies.gittins import YARN_SERVICES_GPU_S, Gittins
from scheduler.policies.las import Las
from tests.support.simulator.replays import job, replay
from tests.support.simulator.strategies import JobRow, ServerRow, snapshot_of

TALK = [job(2, 2.0), job(1, 8.0), job(2, 6.0)]
HISTORY = [4, 8, 12]
RUNS = ((0, 1),)


@pytest.mark.parametrize(
    ("options", "ends"),
    [
        ({"queue_limits_gpu_s": [4, 8, 12]}, [2, 12, 16]),
        ({"queue_limits_gpu_s": [99], "quantum_gpu_s": 4, "denominator": "total"}, [2, 12, 16]),
        ({"queue_limits_gpu_s": [99], "quantum_gpu_s": 4}, [2, 10, 16]),
        ({"queue_limits_gpu_s": [99], "quantum_gpu_s": 0}, [2, 10, 16]),
    ],
    ids=["levels at each 4", "total", "remaining", "best quantum"],
)
def test_the_tiresias_example(options: dict[str, object], ends: list[float]) -> None:
    """Tiresias example A: 10.00 needs a drop at 4, by a level or by the cost; the textbook index gives SRSF's 9.33."""
    outcome = replay(TALK, "gittins", {"history_gpu_s": HISTORY, **options})

    assert outcome.records.end_s.tolist() == ends


def test_levels_come_before_indexes() -> None:
    """A job that is all but sure to end at once still waits for those of the level above."""
    policy = Gittins(queue_limits_gpu_s=(10.0, 100.0), history_gpu_s=(9.0, 11.0, 50.0))
    rows = [JobRow(attained_gpu_s=service) for service in (10.0, 9.5, 0.0, 49.0, 100.0, 5_000.0)]
    keys = policy.priority(snapshot_of(rows, [ServerRow()]))

    assert np.floor(keys).tolist() == [1, 0, 0, 1, 2, 2]
    assert keys[4] == keys[5]  # the last level is first come, first served


def test_the_index_holds_until_the_next_past_service() -> None:
    """The running job passes the service 100 next: 100 - 40 GPU-seconds on 8 GPUs are 8 whole seconds."""
    policy = Gittins(queue_limits_gpu_s=(3_250.0,), history_gpu_s=(30.0, 100.0, 9_000.0))
    rows = [JobRow(num_gpus=8, attained_gpu_s=40.0, seats=((0, 8),)), JobRow(attained_gpu_s=40.0)]
    rows += [JobRow(attained_gpu_s=4_000.0, seats=RUNS), JobRow(attained_gpu_s=3_000.0, seats=RUNS)]
    snapshot = snapshot_of(rows, [ServerRow()] * 2)

    assert policy.next_change_s(snapshot.jobs).tolist() == [8, math.inf, math.inf, 250]
    keys = [policy.priority(snapshot_of([JobRow(attained_gpu_s=at)], [ServerRow()]))[0] for at in (30, 99.9, 100)]
    assert keys[0] == keys[1] != keys[2]


def test_promotion_is_that_of_least_attained_service() -> None:
    """PROMOTEKNOB 2: 600 s of running and 1200 s of waiting bring a job back to the top."""
    policy = Gittins(queue_limits_gpu_s=(600.0,), promote_after=2.0)
    rows = [JobRow(attained_gpu_s=600, executed_s=600, waited_s=waited) for waited in (0.0, 1_200.0)]
    jobs = snapshot_of(rows, [ServerRow()]).jobs

    assert policy.promoted(jobs).tolist() == [False, True]
    assert policy.next_change_s(jobs).tolist() == [1_200, 0]
    assert isinstance(policy, Promotes | ChangesBySelf)


def test_one_past_service_leaves_only_the_levels() -> None:
    """Without evidence to tell jobs apart it is least attained service."""
    rows = [JobRow(attained_gpu_s=service) for service in (0.0, 3_249.0, 3_250.0, 1e6)]
    snapshot = snapshot_of(rows, [ServerRow()])

    assert np.array_equal(Gittins(history_gpu_s=(1e9,)).priority(snapshot), Las().priority(snapshot))


def test_the_built_in_history_is_that_of_the_published_jobs() -> None:
    """Values at 2.5 %, 7.5 % ... 97.5 % of the 9,999 published services."""
    text = Path("fixtures/traces/tiresias_gpu_time_10000.csv").read_text(encoding="utf-8").split()
    services = sorted(float(value) for value in text[1:])
    wanted = [services[int((step + 0.5) / 20 * len(services))] for step in range(20)]

    assert wanted == list(YARN_SERVICES_GPU_S)
