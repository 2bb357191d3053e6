"""Failing attempts in the simulator: retried by the rules, and stopped by them."""

import numpy as np
import pytest

from benchmarks.models.retries import PHILLY
from scheduler.core.operations.failures import RetryRules
from scheduler.simulator.jobs import Failure, SimJob
from scheduler.simulator.replay.engine import simulate
from scheduler.simulator.replay.replay import Replay
from scheduler.simulator.state.outcome import Outcome
from scheduler.simulator.state.retries import ByRules
from tests.support.live.turns import introspective
from tests.support.simulator.strategies import ServerRow, snapshot_of

MINUTE_S = 60.0
BROKEN = SimJob(arrival_s=0.0, num_gpus=8, run_s=3_600.0, failures=(Failure(after_s=600.0, cause="syntax"),) * 20)
UNLUCKY = SimJob(arrival_s=0.0, num_gpus=1, run_s=3_600.0, failures=(Failure(after_s=600.0, cause="network"),) * 3)


def _run(jobs: list[SimJob], rules: RetryRules) -> Outcome:
    tables = snapshot_of([], [ServerRow(num_gpus=8)])
    return simulate(
        Replay(jobs, tables.servers, tables.queues, introspective(), checkpoint_s=1e9, retries=ByRules(rules=rules))
    )


@pytest.mark.parametrize(("rules", "gpu_hours"), [(PHILLY, 6.67), (RetryRules(), 2.67)])
def test_an_always_failing_job_burns_what_the_rules_allow(rules: RetryRules, gpu_hours: float) -> None:
    """Five attempts of 10 minutes on 8 GPUs, or two."""
    records = _run([BROKEN], rules).records

    assert records.service_gpu_s[0] / 3_600 == pytest.approx(gpu_hours, abs=0.005)
    assert np.isinf(records.end_s[0])


def test_pauses_after_failures_of_machines_double() -> None:
    """Three failures of ten minutes, pauses of 1, 2 and 4 minutes, then the whole run."""
    records = _run([UNLUCKY], RetryRules()).records

    assert records.end_s[0] == pytest.approx(3 * 600.0 + 7 * MINUTE_S + 3_600.0)
    assert records.attempts[0] == 4


def test_an_unknown_failure_is_refused() -> None:
    """A class that is not on the list is an error and not a guess."""
    odd = SimJob(arrival_s=0.0, num_gpus=1, run_s=9.0, failures=(Failure(after_s=1.0, cause="gremlins"),))

    with pytest.raises(ValueError, match="gremlins"):
        _run([odd], RetryRules())
