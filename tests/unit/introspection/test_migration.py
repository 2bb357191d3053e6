"""Migration: moves that let a gang in or bring one together, and moves taken back."""

from dataclasses import replace

import numpy as np

from scheduler.core.model.plan import Plan, PreemptRule
from scheduler.core.model.tables import Snapshot
from scheduler.core.model.trial import TrialKind, Verdict
from scheduler.introspection.migration import Migration
from tests.support.live.turns import Clock, introspective
from tests.support.simulator.strategies import JobRow, ServerRow, snapshot_of

RUNS = JobRow(rate=1.0, first_start_s=0.0)


def _scattered() -> Snapshot:
    """Two servers of four GPUs with three in use each, by a job of two and one of one; a gang of two waits."""
    jobs = [
        replace(RUNS, num_gpus=2, seats=((0, 2),)),
        replace(RUNS, seats=((0, 1),)),
        replace(RUNS, num_gpus=2, seats=((1, 2),)),
        replace(RUNS, seats=((1, 1),)),
        JobRow(num_gpus=2),
    ]
    return snapshot_of(jobs, [ServerRow(num_gpus=4)] * 2, now_s=0.0)


def test_a_job_moves_aside_for_a_gang() -> None:
    """One GPU is free on each of two servers: one small job moves, and the gang of two starts in the same round."""
    plan = Clock(_scattered(), introspective(Migration())).tick()

    assert not plan.waiting
    assert [(entry.rule, entry.job) for entry in plan.preemptions] == [(PreemptRule.MOVED, 1)]
    assert len(plan.kept) == 3
    moved = plan.grants.server[plan.grants.job == 1].tolist()
    assert moved == [1]


def test_nothing_moves_when_moves_cost_more_than_the_gang_is_worth() -> None:
    """Two GPUs over a minute are less than a job of one GPU that stands for five."""
    plan = Clock(_scattered(), introspective(Migration(move_s=300.0, horizon_s=60.0))).tick()

    assert not plan.preemptions
    assert [entry.job for entry in plan.waiting] == [4]


def test_nothing_moves_when_no_place_is_found() -> None:
    """Jobs that may not be stopped stay, and so does a gang of four that no moves would let in."""
    snapshot = _scattered()
    fixed = replace(snapshot, jobs=replace(snapshot.jobs, preemptible=np.zeros(5, dtype=np.bool_)))
    wide = replace(snapshot, jobs=replace(snapshot.jobs, num_gpus=np.array([2, 1, 2, 1, 4])))

    for crowded in (fixed, wide):
        plan = Clock(crowded, introspective(Migration())).tick()
        assert not plan.preemptions


def test_a_move_for_a_gang_stays_even_if_it_is_slower() -> None:
    """The gang that came in is worth more than the speed of the one that moved."""

    def speed(plan: Plan, row: int) -> float:
        return 0.5 if row == 1 else 1.0

    clock = Clock(_scattered(), introspective(Migration()), speed=speed)
    clock.tick()
    home = clock.servers_of(1)
    for _ in range(6):
        assert not clock.tick().preemptions

    assert clock.servers_of(1) == home == [1]


def _apart() -> Snapshot:
    """A gang of four on two servers, beside one that has room for it; no job waits."""
    jobs = [replace(RUNS, num_gpus=4, max_servers=0, seats=((0, 2), (1, 2)))]
    return snapshot_of(jobs, [ServerRow(num_gpus=2), ServerRow(num_gpus=2), ServerRow(num_gpus=4)], now_s=0.0)


def test_a_scattered_gang_comes_together_and_stays_where_it_is_faster() -> None:
    """One move, measured better, is the end of it."""
    clock = Clock(_apart(), introspective(Migration()))
    moved = clock.tick()
    rules = [entry.rule for _ in range(8) for entry in clock.tick().preemptions]

    assert [entry.rule for entry in moved.preemptions] == [PreemptRule.MOVED]
    assert clock.servers_of(0) == [2]
    assert rules == []
    assert clock.plan.trials == ()


def test_a_move_that_made_a_job_slower_is_taken_back_and_not_tried_again_for_half_an_hour() -> None:
    """96 % of the speed is less than the 97 % that count as no harm."""

    def speed(plan: Plan, row: int) -> float:
        return 0.96 if plan.grants.server.tolist() == [2] else 1.0

    clock = Clock(_apart(), introspective(Migration()), speed=speed)
    places = []
    for _ in range(31):
        clock.tick()
        places.append(clock.servers_of(0))

    assert places[:2] == [[2], [2]]
    assert all(place == [0, 1] for place in places[2:])
    verdicts = [trial.verdict for trial in clock.plan.trials if trial.kind is TrialKind.MOVE]
    assert verdicts == [Verdict.UNDONE]
    for _ in range(3):
        clock.tick()
    assert clock.servers_of(0) == [2]  # tried once more


def test_a_job_about_to_end_is_not_moved() -> None:
    """A move has to pay within what is left of the job."""
    snapshot = _apart()
    ends = replace(snapshot, jobs=replace(snapshot.jobs, remaining_s=np.array([500.0])))

    assert not Clock(ends, introspective(Migration())).tick().preemptions
