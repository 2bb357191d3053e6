"""Replays under every order: the same whether rounds are skipped or not, and nobody is forgotten.

A policy says itself when its order may change although nothing arrives or ends; what it does not say is found here.
"""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.choices import build_config
from scheduler.core.round.config import SharePolicy
from scheduler.policies import POLICIES
from scheduler.simulator.jobs import SimJob
from scheduler.simulator.replay.engine import simulate
from scheduler.simulator.replay.replay import Replay
from tests.support.simulator.replays import server
from tests.support.simulator.strategies import QueueRow, snapshot_of
from tests.support.suite.examples import tried

ORDERS: list[tuple[str, Mapping[str, Any]]] = [
    ("fifo", {}),
    ("fifo", {"backfill": False}),
    ("priority", {"preemptive": True}),
    ("priority", {"preemptive": True, "backfill": False}),
    ("srtf", {}),
    ("srsf", {}),
    ("las", {"queue_limits_gpu_s": [50, 300], "promote_after": 2.0}),
    ("gittins", {"queue_limits_gpu_s": [200]}),
    ("gittins", {"queue_limits_gpu_s": [50, 300], "quantum_gpu_s": 0, "promote_after": 1.0}),
    ("ftf", {"lease_s": 0}),
    ("ftf", {"lease_s": 20}),
    ("drf", {}),
    ("drf", {"by": "job"}),
    ("drf", {"credit_s": 100.0}),
    ("tetris", {}),
    ("tetris", {"score": "alignment", "fairness": 0.25}),
    ("fair", {}),
    ("fair", {"preemptive": True}),
]
_NAMED = {name for name, _ in ORDERS}
ORDERS += [(name, {}) for name, kind in POLICIES.items() if name not in _NAMED and not isinstance(kind(), SharePolicy)]

jobs = st.builds(
    SimJob,
    arrival_s=st.integers(0, 100).map(float),
    num_gpus=st.sampled_from([1, 1, 2, 4]),
    run_s=st.integers(5, 120).map(float),
    queue=st.integers(0, 2),
    owner=st.integers(0, 2),
    priority=st.integers(0, 2).map(float),
)
queue = st.builds(QueueRow, quota_gpus=st.integers(0, 2), weight=st.sampled_from([1.0, 2.0]))


@pytest.mark.parametrize(("policy", "options"), ORDERS, ids=[f"{name}-{options}" for name, options in ORDERS])
@tried(12)
@given(
    st.lists(jobs, min_size=1, max_size=12),
    st.lists(queue, min_size=3, max_size=3),
    st.lists(st.sampled_from([4, 8]), min_size=1, max_size=2),
)
def test_skipping_rounds_changes_nothing(
    policy: str, options: Mapping[str, Any], workload: list[SimJob], queues: list[QueueRow], servers: list[int]
) -> None:
    """With one queue and with three, in rounds of 7 s: the same changes, and all jobs end."""
    config = build_config(policy=policy, policy_options=options, mechanism="proportional")
    alone = [SimJob(arrival_s=job.arrival_s, num_gpus=job.num_gpus, run_s=job.run_s) for job in workload]
    for these, tree in ((alone, [QueueRow()]), (workload, queues)):
        tables = snapshot_of([], [server(gpus) for gpus in servers], tree)
        outcomes = [
            simulate(
                Replay(these, tables.servers, tables.queues, config, round_s=7.0, incremental=skip, until_s=20_000.0)
            )
            for skip in (True, False)
        ]

        assert outcomes[0].plan_hash == outcomes[1].plan_hash
        assert (outcomes[0].records.end_s < 20_000).all()
        assert (outcomes[0].records.end_s == outcomes[1].records.end_s).all()


@pytest.mark.parametrize("policy", ["srsf", "tetris"])
def test_a_running_job_passes_another_of_its_queue(policy: str) -> None:
    """Which of two running jobs a quota covers changes while nothing arrives or ends: the round is not skipped.

    At 98 s the wide job of the third queue has less work left than its neighbour, which the first queue then displaces.
    """
    shapes = ((0, 1, 5, 0), (0, 2, 99, 2), (22, 2, 71, 0), (29, 1, 65, 2))
    workload = [SimJob(arrival_s=at, num_gpus=gpus, run_s=run_s, queue=queue) for at, gpus, run_s, queue in shapes]
    tables = snapshot_of([], [server(4)], [QueueRow(quota_gpus=0)] * 3)
    config = build_config(policy=policy, mechanism="proportional")

    skipping, whole = (
        simulate(Replay(workload, tables.servers, tables.queues, config, round_s=7.0, incremental=skip))
        for skip in (True, False)
    )

    assert skipping.plan_hash == whole.plan_hash
    assert skipping.records.preemptions.sum() >= 2
