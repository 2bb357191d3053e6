"""Replays under policies that choose shares: planned from what changed, the outcome is that of whole rounds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.model.profile import Profile
from scheduler.core.model.tables import NO_ROW, QueueTable, ServerTable
from scheduler.core.round.config import SchedulerConfig
from scheduler.mechanisms import MECHANISMS
from scheduler.placement import LOCALITIES
from scheduler.policies import POLICIES
from scheduler.simulator.jobs import SimJob
from scheduler.simulator.replay.engine import simulate
from scheduler.simulator.replay.replay import Replay
from scheduler.simulator.state.costs import Manager, ReconfigurationCosts
from scheduler.simulator.state.outcome import Outcome
from tests.support.simulator.elastic import afs_profile
from tests.support.suite.examples import tried

CURVES = (afs_profile("vgg16-256"), afs_profile("bert-64"), afs_profile("resnet50-64"), Profile())
QUEUES = QueueTable(
    queue_id=np.array([1]),
    parent=np.array([NO_ROW]),
    quota_gpus=np.array([0]),
    weight=np.ones(1),
    may_borrow=np.array([True]),
    max_gpus=np.array([1_000]),
)


@st.composite
def elastic_jobs(draw: st.DrawFn) -> SimJob:
    """An elastic or rigid job of a small workload."""
    gpus = draw(st.sampled_from([1, 1, 2, 4]))
    is_elastic = draw(st.sampled_from([True, True, False]))
    return SimJob(
        arrival_s=float(draw(st.integers(0, 20))) * 600,
        num_gpus=gpus,
        run_s=float(draw(st.integers(1, 30))) * 500,
        max_servers=draw(st.sampled_from([0, 0, 1, 2])),
        profile=draw(st.sampled_from(CURVES)),
        min_gpus=1 if is_elastic else gpus,
        max_gpus=min(8, 2 * gpus) if is_elastic else gpus,
    )


@pytest.mark.parametrize("policy", ["maxmin", "optimus", "afs-l", "afs-p", "themis"])
@pytest.mark.parametrize("manager", list(Manager))
@tried(15)
@given(jobs=st.lists(elastic_jobs(), min_size=1, max_size=14), servers=st.integers(1, 3))
def test_planning_from_what_changed_gives_the_same_history(
    policy: str, manager: Manager, jobs: list[SimJob], servers: int
) -> None:
    """A round at every event: plans, times and counts are equal, and everybody ends."""
    short, whole = (
        _replay(jobs, servers, policy, costs=ReconfigurationCosts(manager=manager), skip=skip) for skip in (True, False)
    )

    assert short.plan_hash == whole.plan_hash
    assert short.records.end_s.tolist() == whole.records.end_s.tolist()
    assert short.records.reconfigurations.tolist() == whole.records.reconfigurations.tolist()
    assert np.isfinite(short.records.end_s).all()


@pytest.mark.parametrize(("policy", "round_s"), [("afs-l", 300.0), ("afs-p", 300.0), ("afs-p", 60.0)])
@tried(10)
@given(jobs=st.lists(elastic_jobs(), min_size=1, max_size=14), servers=st.integers(1, 3))
def test_rounds_in_which_nothing_happened_may_be_left_out(
    policy: str, round_s: float, jobs: list[SimJob], servers: int
) -> None:
    """Asked in every round of one or five minutes or after events alone: nobody is resized in between."""
    asked, skipped = (_replay(jobs, servers, policy, round_s=round_s, skip=skip) for skip in (False, True))

    assert asked.plan_hash == skipped.plan_hash
    assert asked.records.end_s.tolist() == skipped.records.end_s.tolist()


def _replay(
    jobs: list[SimJob],
    servers: int,
    policy: str,
    *,
    skip: bool,
    costs: ReconfigurationCosts | None = None,
    round_s: float | None = None,
) -> Outcome:
    table = ServerTable(
        server_id=np.arange(servers),
        num_gpus=np.full(servers, 8),
        num_cpus=np.full(servers, 24.0),
        memory_bytes=np.full(servers, 5e11),
        rack=np.zeros(servers, dtype=np.int64),
    )
    config = SchedulerConfig(
        policy=POLICIES[policy](), locality=LOCALITIES["consolidate"](), mechanism=MECHANISMS["proportional"]()
    )
    return simulate(Replay(jobs, table, QUEUES, config, costs=costs, incremental=skip, round_s=round_s))
