"""Finish-time fairness of a replay."""

import numpy as np
import pytest

from scheduler.core.model.profile import Profile
from scheduler.core.model.tables import NO_ROW, FloatArray, QueueTable, ServerTable
from scheduler.core.round.config import SchedulerConfig
from scheduler.mechanisms.proportional import Proportional
from scheduler.placement.consolidate import Consolidate
from scheduler.policies.maxmin import Maxmin
from scheduler.simulator.jobs import SimJob
from scheduler.simulator.replay.engine import simulate
from scheduler.simulator.replay.replay import Replay

CURVE = Profile(scaling=((1.0, 1.0), (2.0, 1.8), (4.0, 3.0), (8.0, 4.0)))


def _rho(jobs: list[SimJob]) -> FloatArray:
    """Return rho of each job on one server of 8 GPUs with equal shares."""
    server = ServerTable(
        server_id=np.array([1]),
        num_gpus=np.array([8]),
        num_cpus=np.array([24.0]),
        memory_bytes=np.array([5e11]),
        rack=np.array([0]),
    )
    queue = QueueTable(
        queue_id=np.array([1]),
        parent=np.array([NO_ROW]),
        quota_gpus=np.array([0]),
        weight=np.ones(1),
        may_borrow=np.array([True]),
        max_gpus=np.array([8]),
    )
    config = SchedulerConfig(policy=Maxmin(), locality=Consolidate(), mechanism=Proportional())
    return simulate(Replay(jobs, server, queue, config)).records.rho


@pytest.mark.parametrize("profile", [CURVE, Profile()])
@pytest.mark.parametrize("count", [1, 2, 8])
def test_equal_jobs_with_equal_shares_are_treated_fairly(profile: Profile, count: int) -> None:
    """Elastic jobs that all get their share from beginning to end have rho 1, whatever their curve."""
    jobs = [SimJob(arrival_s=0.0, num_gpus=2, run_s=600.0, profile=profile, min_gpus=1, max_gpus=8)] * count

    assert _rho(jobs) == pytest.approx(np.ones(count), rel=1e-6)


def test_rigid_jobs_are_compared_with_a_narrower_share_in_proportion() -> None:
    """The second of two gangs takes 1,200 s, beside 1.5 jobs on average; alone on its share it would take 900 s."""
    rho = _rho([SimJob(arrival_s=0.0, num_gpus=8, run_s=600.0)] * 2)

    assert rho[1] == pytest.approx(1_200 / 900)
