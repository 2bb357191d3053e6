"""What turns cost in Gandiva's worked figures."""

import pytest

from scheduler.introspection.slicing import Slicing
from scheduler.simulator.jobs import SimJob
from scheduler.simulator.replay.engine import simulate
from scheduler.simulator.replay.replay import Replay
from tests.support.live.turns import introspective
from tests.support.simulator.strategies import ServerRow, snapshot_of

HOUR_S = 3_600.0


@pytest.mark.parametrize(("switch_s", "lost_percent"), [(0.1, 0.17), (0.5, 0.83), (1.0, 1.67)])
def test_a_switch_costs_its_part_of_a_quantum(switch_s: float, lost_percent: float) -> None:
    """Two jobs in turns of 60 s on one GPU: .1, .5 or 1 s for each switch are .17, .83 or 1.67 % of its time."""
    cluster = snapshot_of([], [ServerRow(num_gpus=1, num_cpus=3.0)])
    jobs = [SimJob(arrival_s=0.0, num_gpus=1, run_s=4 * HOUR_S)] * 2

    outcome = simulate(
        Replay(jobs, cluster.servers, cluster.queues, introspective(Slicing()), restart_s=30.0, resume_s=switch_s)
    )

    lost_s = outcome.records.end_s.max() - 8 * HOUR_S
    assert 100 * lost_s / outcome.records.end_s.max() == pytest.approx(lost_percent, abs=0.02)
