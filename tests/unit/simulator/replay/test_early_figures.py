"""Figures of a replay that goes on are those that its end gives for the same moments."""

import math

import numpy as np
import pytest

from scheduler.choices import build_config
from scheduler.simulator.jobs import SimJob
from scheduler.simulator.replay.engine import simulate
from scheduler.simulator.replay.replay import Replay
from scheduler.simulator.state.early_figures import MOMENTS, EarlyFigure, EarlyFigures
from scheduler.simulator.state.outcome import Outcome
from scheduler.simulator.workloads.philly import philly_like
from tests.support.simulator.strategies import QueueRow, ServerRow, snapshot_of

SERVERS = [ServerRow(num_gpus=8, num_cpus=24.0, memory_bytes=500e9)] * 2


def followed(jobs: list[SimJob], policy: str, round_s: float | None) -> tuple[Outcome, list[EarlyFigure]]:
    """Replay a workload on 16 GPUs; return what happened, and the early figures."""
    told: list[EarlyFigure] = []
    tables = snapshot_of([], SERVERS, [QueueRow()])
    what = (jobs, tables.servers, tables.queues, build_config(policy=policy, mechanism="proportional"))
    early = EarlyFigures([job.arrival_s for job in jobs], told.append)
    return simulate(Replay(*what, round_s=round_s, keep_stays=True), early=early), told


@pytest.mark.parametrize("policy", ["fifo", "las", "srtf"])
@pytest.mark.parametrize("round_s", [None, 300.0])
def test_early_figures_are_those_of_the_whole_replay_cut_at_their_moments(policy: str, round_s: float | None) -> None:
    """Counted from the stays on servers, which the early figures do not read."""
    jobs = [job for job in philly_like(num_jobs=300, cluster_gpus=16, load=1.3, seed=3) if job.num_gpus <= 16]
    outcome, told = followed(jobs, policy, round_s)
    records, stays = outcome.records, outcome.stays
    assert stays is not None
    first_s = records.arrival_s.min()

    span_s = records.arrival_s.max() - first_s
    assert [one.passed_s for one in told] == pytest.approx([span_s * at / MOMENTS for at in range(1, MOMENTS + 1)])
    for one in told:
        at_s = first_s + one.passed_s
        come = records.arrival_s <= at_s
        present_s = np.minimum(records.end_s, at_s) - records.arrival_s
        sat = {
            (job, begin_s): min(end_s, at_s) - min(begin_s, at_s)
            for job, begin_s, end_s in zip(stays.job.tolist(), stays.begin_s, stays.end_s, strict=True)
        }
        sat_s = np.zeros(len(jobs))
        for (job, _), seconds in sat.items():
            sat_s[job] += seconds
        assert (one.come, one.ended) == (come.sum(), (records.end_s <= at_s).sum())
        assert one.wait_s == pytest.approx((present_s - sat_s)[come].mean(), abs=1e-6)
    assert told[-1].wait_s > 60.0


@pytest.mark.parametrize("arrival_s", [[], [5.0], [5.0, 5.0]])
def test_nothing_is_told_of_jobs_that_come_at_once(arrival_s: list[float]) -> None:
    """There is no time in which they come."""
    told: list[EarlyFigure] = []
    assert math.isinf(EarlyFigures(arrival_s, told.append).next_s)
