"""Introspection in the simulator: turns, packing and what they do to speeds, waits and ends."""

import math

import numpy as np
import pytest

from scheduler.core.model.profile import Profile
from scheduler.core.model.tables import QueueTable, ServerTable
from scheduler.core.round.config import SchedulerConfig
from scheduler.introspection.packing import Packing
from scheduler.introspection.slicing import Slicing
from scheduler.simulator.jobs import SimJob
from scheduler.simulator.replay.engine import simulate
from scheduler.simulator.replay.replay import Replay
from scheduler.simulator.state.outcome import Outcome
from tests.support.live.turns import introspective
from tests.support.simulator.strategies import ServerRow, snapshot_of

MINUTE_S = 60.0
HOUR_S = 3_600.0


def _cluster(*gpus: int) -> tuple[ServerTable, QueueTable]:
    snapshot = snapshot_of([], [ServerRow(num_gpus=count) for count in gpus])
    return snapshot.servers, snapshot.queues


def _run(
    jobs: list[SimJob],
    config: SchedulerConfig,
    *gpus: int,
    round_s: float | None = None,
    resume_s: float | None = None,
    until_s: float = math.inf,
    skip: bool = True,
) -> Outcome:
    return simulate(
        Replay(
            jobs,
            *_cluster(*gpus),
            config,
            round_s=round_s,
            restart_s=30.0,
            resume_s=resume_s,
            until_s=until_s,
            keep_series=True,
            incremental=skip,
        )
    )


def test_first_feedback_comes_in_minutes_instead_of_hours() -> None:
    """20 jobs of 10 h on 4 GPUs: first in, first out starts them after 20 h on average, turns of a minute after 2."""
    jobs = [SimJob(arrival_s=0.0, num_gpus=1, run_s=10 * HOUR_S)] * 20
    in_order = _run(jobs, introspective(), 4).records
    in_turns = _run(jobs, introspective(Slicing()), 4, resume_s=0.0, until_s=5 * MINUTE_S).records

    assert in_order.first_start_s.mean() / HOUR_S == pytest.approx(20.0)
    assert in_turns.first_start_s.mean() / MINUTE_S == pytest.approx(2.0)


def test_turns_give_feedback_and_not_completions() -> None:
    """Equal jobs that take turns all end late: their mean completion time is worse than first in, first out."""
    jobs = [SimJob(arrival_s=0.0, num_gpus=1, run_s=HOUR_S)] * 4
    in_order = _run(jobs, introspective(), 2).records
    in_turns = _run(jobs, introspective(Slicing()), 2, resume_s=0.0).records

    assert in_order.jct_s.mean() / HOUR_S == pytest.approx(1.5)
    assert in_turns.jct_s.mean() / HOUR_S == pytest.approx(2.0, abs=0.05)


def test_turns_cost_what_resuming_costs() -> None:
    """Six jobs of an hour on four GPUs, all at home on one server: 60 turns and 1 s for each resume of a job."""
    jobs = [SimJob(arrival_s=0.0, num_gpus=1, run_s=HOUR_S)] * 6
    free = _run(jobs, introspective(Slicing()), 4, resume_s=0.0)
    paid = _run(jobs, introspective(Slicing()), 4, resume_s=1.0)

    assert free.records.end_s.max() == pytest.approx(1.5 * HOUR_S, abs=2 * MINUTE_S)
    resumes = paid.records.preemptions.sum()
    assert resumes > 60
    assert 0 < paid.records.service_gpu_s.sum() - free.records.service_gpu_s.sum() == pytest.approx(resumes, rel=0.05)


def test_two_small_jobs_end_up_packed_and_finish_earlier() -> None:
    """Two super-resolution jobs on one GPU: .9 of their speed beside each other instead of half of it in turns."""
    small = Profile(kind="super-resolution", packed=(("super-resolution", 0.9),), gpu_util_frac=0.3)
    jobs = [SimJob(arrival_s=0.0, num_gpus=1, run_s=HOUR_S, profile=small)] * 2
    turns = _run(jobs, introspective(Slicing()), 1, resume_s=0.0)
    packs = _run(jobs, introspective(Slicing(), Packing()), 1, resume_s=0.0)
    assert packs.series is not None

    assert turns.records.end_s.max() == pytest.approx(2 * HOUR_S)
    assert packs.records.end_s.max() < HOUR_S / 0.9 + 10 * MINUTE_S
    assert packs.series.useful_gpus.max() == pytest.approx(1.8)
    assert packs.series.allocated_gpus.max() == 1.0
    assert packs.series.allocated_gpus[-1] == 0.0


def test_jobs_that_disturb_each_other_are_taken_apart() -> None:
    """At .4 of their speed beside each other they are tried once an hour and lose those two minutes only."""
    greedy = Profile(kind="resnet50", packed=(("resnet50", 0.4),))
    jobs = [SimJob(arrival_s=0.0, num_gpus=1, run_s=HOUR_S, profile=greedy)] * 2
    packs = _run(jobs, introspective(Slicing(), Packing()), 1, resume_s=0.0)

    trials, lost_s = 2, 2 * MINUTE_S * (1 - 0.8)
    assert packs.records.end_s.max() == pytest.approx(2 * HOUR_S + trials * lost_s, abs=1.0)


def test_what_is_left_of_a_pair_goes_on_alone_at_full_speed() -> None:
    """One of a pair has less to do: the other has the GPU for itself from then on."""
    small = Profile(kind="lm", packed=(("lm", 0.65),))
    jobs = [SimJob(arrival_s=0.0, num_gpus=1, run_s=run_s, profile=small) for run_s in (30 * MINUTE_S, 90 * MINUTE_S)]
    packs = _run(jobs, introspective(Slicing(), Packing()), 1, resume_s=0.0)
    assert packs.series is not None
    first, last = sorted(packs.records.end_s)
    alone = packs.series.useful_gpus[packs.series.at_s >= first]

    assert np.allclose(alone[:-1], 1.0)
    work_s = 120 * MINUTE_S
    assert last < work_s - (first - 5 * MINUTE_S) * 0.3 + 1.0


@pytest.mark.parametrize("round_s", [30.0, 60.0])
def test_skipping_rounds_changes_nothing(round_s: float) -> None:
    """Turns and pairs come out the same whether idle rounds are planned or left out."""
    kinds = [Profile(kind=kind, packed=(("a", 0.8), ("b", 0.4)), gpu_util_frac=0.4) for kind in "ab"]
    jobs = [
        SimJob(arrival_s=90.0 * at, num_gpus=1 + at % 2, run_s=900.0 + 60.0 * at, profile=kinds[at % 2])
        for at in range(8)
    ]
    config = introspective(Slicing(), Packing(check_s=120.0))
    fast, slow = (_run(jobs, config, 2, 2, round_s=round_s, resume_s=1.0, skip=skip) for skip in (True, False))

    assert np.array_equal(fast.records.end_s, slow.records.end_s)
    assert fast.plan_hash == slow.plan_hash
    assert np.isfinite(fast.records.end_s).all()
