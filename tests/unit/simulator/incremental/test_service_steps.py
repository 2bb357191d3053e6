"""Policies that look at attained service alone: their steps say the same as their keys, and are reached in time."""

import math

import numpy as np
import pytest

from scheduler.core.model.tables import Snapshot
from scheduler.core.round.capabilities import StepsByService
from scheduler.core.round.config import Policy
from scheduler.policies.gittins import Gittins
from scheduler.policies.las import Las
from scheduler.simulator.incremental.orders.service_steps import ServiceSteps
from scheduler.simulator.jobs import SimJob
from scheduler.simulator.state.columns import Columns
from tests.support.simulator.strategies import QueueRow, ServerRow, snapshot_of

POLICIES = [
    Las(queue_limits_gpu_s=(200.0, 1500.0)),
    Gittins(),
    Gittins(queue_limits_gpu_s=(300.0, 4_000.0), history_gpu_s=(60.0, 300.0, 300.0, 400.0, 9_000.0)),
]


@pytest.mark.parametrize("policy", POLICIES)
def test_steps_say_what_keys_say(policy: Policy) -> None:
    """At, just before and between all steps the key of the policy is that of the step."""
    assert isinstance(policy, StepsByService)
    services, keys = policy.service_steps()
    attained = np.concatenate(([0.0], services, services - 1e-6, services + 7.0, [1e9]))
    columns = Columns([SimJob(arrival_s=0.0, num_gpus=1, run_s=1.0)] * len(attained))
    columns.attained_gpu_s[:] = attained
    tables = snapshot_of([], [ServerRow()], [QueueRow()])
    jobs = columns.look(np.arange(len(attained)), 0.0)
    snapshot = Snapshot(now_s=0.0, jobs=jobs, servers=tables.servers, queues=tables.queues)

    assert policy.priority(snapshot).tolist() == keys[np.searchsorted(services, attained, side="right")].tolist()


@pytest.mark.parametrize("policy", POLICIES)
def test_the_next_step_is_when_the_policy_says(policy: StepsByService) -> None:
    """Jobs on different GPUs that began at different times: the first step is the least of all, to the second."""
    columns = Columns([SimJob(arrival_s=0.0, num_gpus=gpus, run_s=1e6) for gpus in (1, 3, 4, 7)])
    steps = ServiceSteps(columns, *policy.service_steps())
    for row, begin_s in enumerate((0.0, 10.3, 11.0, 61.7)):
        columns.settle(row, begin_s)
        columns.set_rate(row, gpus=float(columns.num_gpus[row]), rate=1.0)
        steps.sit(row, begin_s)
    for now_s in (61.7, 100.0, 333.3, 500.0, 1_000.0, 5_000.0):
        steps.passed(now_s)
        ahead_s = policy.next_change_s(columns.look(np.arange(4), now_s)).min()  # type: ignore[attr-defined]  # both say it

        assert min(steps.next_tier_s(now_s), steps.next_inside_s(now_s, -math.inf)) == now_s + ahead_s


def test_who_left_reaches_nothing() -> None:
    """A job that left its seats is not told of, and does not count for the next step."""
    columns = Columns([SimJob(arrival_s=0.0, num_gpus=1, run_s=1e6)])
    steps = ServiceSteps(columns, *Las().service_steps())
    steps.sit(0, 0.0)
    steps.leave(0)

    assert steps.next_tier_s(0.0) == steps.next_inside_s(0.0, -math.inf) == math.inf
    assert steps.passed(1e9) == []
