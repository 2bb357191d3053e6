"""Grow-shrink: idle GPUs go to jobs that can use them, and back as soon as a job waits."""

from dataclasses import replace

import numpy as np
import pytest

from scheduler.core.model.plan import Plan
from scheduler.core.model.tables import Snapshot
from scheduler.core.model.trial import TrialKind
from scheduler.introspection.growth import Growth
from tests.support.live.turns import Clock, Speed, introspective
from tests.support.simulator.strategies import JobRow, QueueRow, ServerRow, snapshot_of

ELASTIC = JobRow(num_gpus=2, min_gpus=2, max_gpus=8, rate=1.0, first_start_s=0.0, seats=((0, 2),))


def _gpus(plan: Plan, row: int) -> int:
    return int(plan.grants.num_gpus[plan.grants.job == row].sum())


def _by_size(rates: dict[int, float]) -> Speed:
    return lambda plan, row: rates.get(_gpus(plan, row), 1.0)


def _alone(queues: list[QueueRow] | None = None) -> Snapshot:
    return snapshot_of([ELASTIC], [ServerRow(num_gpus=8)], queues, now_s=0.0)


def test_a_job_doubles_into_gpus_that_were_idle_for_five_minutes() -> None:
    """2, then 4 after five minutes, then 8: each step measured for two minutes before the next."""
    clock = Clock(_alone(), introspective(Growth()), speed=_by_size({2: 1.0, 4: 1.8, 8: 3.2}))
    sizes = [_gpus(clock.tick(), 0) for _ in range(12)]

    assert sizes == [2] * 5 + [4] * 2 + [8] * 5
    assert not clock.plan.preemptions


@pytest.mark.parametrize(("gain", "size"), [(1.2, 4), (1.19, 2)])
def test_growth_is_kept_from_a_fifth_more_speed(gain: float, size: int) -> None:
    """A gain of 20 % is kept, 19 % is given back and not tried again for half an hour."""
    clock = Clock(_alone(), introspective(Growth()), speed=_by_size({2: 1.0, 4: gain, 8: gain}))
    sizes = [_gpus(clock.tick(), 0) for _ in range(30)]

    assert sizes[5:7] == [4, 4]
    assert sizes[-1] == size
    assert sizes.count(8) == (2 if size == 4 else 0)  # tried from 4, and given back


def test_a_job_gives_its_gpus_back_as_soon_as_somebody_waits() -> None:
    """A gang of four arrives when the job has grown to eight: it is halved, and the gang starts in the same round."""
    clock = Clock(_alone(), introspective(Growth()), speed=_by_size({2: 1.0, 4: 2.0, 8: 4.0}))
    for _ in range(12):
        clock.tick()
    assert _gpus(clock.plan, 0) == 8
    before = clock.snapshot
    both = snapshot_of([ELASTIC, JobRow(num_gpus=4, arrival_s=720.0)], [ServerRow(num_gpus=8)], now_s=before.now_s)
    jobs = replace(both.jobs, held_at_s=np.append(before.jobs.held_at_s, np.inf), rate=np.append(before.jobs.rate, 1.0))
    clock.snapshot = replace(both, jobs=jobs, held=before.held, trials=before.trials)
    plan = clock.tick()

    assert (_gpus(plan, 0), _gpus(plan, 1)) == (4, 4)
    assert plan.resized == {0}
    assert not plan.waiting
    assert not plan.preemptions


def test_the_newest_growth_shrinks_first() -> None:
    """Two grown jobs on two servers: the one that grew last makes room."""
    rows = [replace(ELASTIC, max_gpus=4, seats=((0, 2),)), replace(ELASTIC, max_gpus=4, seats=((1, 2),))]
    snapshot = snapshot_of(rows, [ServerRow(num_gpus=4)] * 2, now_s=0.0)
    late = replace(snapshot, servers=replace(snapshot.servers, num_gpus=np.array([4, 2])))
    clock = Clock(late, introspective(Growth()), speed=_by_size({2: 1.0, 4: 2.0}))
    for _ in range(8):
        clock.tick()
    assert [_gpus(clock.plan, row) for row in (0, 1)] == [4, 2]
    clock.snapshot = replace(clock.snapshot, servers=snapshot.servers)
    for _ in range(9):
        clock.tick()
    assert [_gpus(clock.plan, row) for row in (0, 1)] == [4, 4]
    before = clock.snapshot
    more = snapshot_of([*rows, JobRow(num_gpus=2, arrival_s=900.0)], [ServerRow(num_gpus=4)] * 2, now_s=before.now_s)
    jobs = replace(
        more.jobs, held_at_s=np.append(before.jobs.held_at_s, np.inf), rate=np.append(before.jobs.rate, np.nan)
    )
    clock.snapshot = replace(more, jobs=jobs, held=before.held, trials=before.trials)
    plan = clock.tick()

    assert [_gpus(plan, row) for row in (0, 1, 2)] == [4, 2, 2]


def test_nobody_grows_while_a_job_waits_or_beyond_what_its_queue_may_hold() -> None:
    """A waiting gang of four keeps two idle GPUs free; a queue of at most three GPUs has no room for four."""
    jobs = [ELASTIC, JobRow(num_gpus=8)]
    crowded = Clock(snapshot_of(jobs, [ServerRow(num_gpus=8)], now_s=0.0), introspective(Growth()))
    bounded = Clock(_alone([QueueRow(quota_gpus=3, max_gpus=3)]), introspective(Growth()))

    for clock in (crowded, bounded):
        assert all(_gpus(clock.tick(), 0) == 2 for _ in range(10))
        assert not [trial for trial in clock.plan.trials if trial.kind is TrialKind.GROW]


def test_a_rigid_job_never_grows() -> None:
    """Only jobs that declare it are given more than they ask for."""
    rigid = snapshot_of([replace(ELASTIC, min_gpus=2, max_gpus=2)], [ServerRow(num_gpus=8)], now_s=0.0)
    clock = Clock(rigid, introspective(Growth()))

    assert all(_gpus(clock.tick(), 0) == 2 for _ in range(10))
