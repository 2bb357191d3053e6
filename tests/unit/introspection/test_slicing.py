"""Time slicing: turns by virtual time."""

from collections import Counter
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from scheduler.choices import build_config
from scheduler.core.model.tables import JobTable, Snapshot
from scheduler.core.model.trial import Trial, TrialKind
from scheduler.core.round.capabilities import takes_turns
from scheduler.core.round.plan_round import plan_round
from scheduler.introspection import INTROSPECTIONS
from scheduler.introspection.slicing import Slicing
from scheduler.simulator.draws import Draws
from tests.support.live.turns import Clock, introspective
from tests.support.simulator.strategies import JobRow, QueueRow, ServerRow, snapshot_of


def _cluster(jobs: list[JobRow], *gpus: int) -> Snapshot:
    return snapshot_of(jobs, [ServerRow(num_gpus=count) for count in gpus], now_s=0.0)


@pytest.mark.parametrize("name", INTROSPECTIONS)
def test_slicing_alone_declares_that_jobs_take_turns(name: str) -> None:
    """Live rounds park jobs, and keep gangs that form, where an introspection declares it, whatever its name."""
    assert takes_turns(build_config(policy="fifo", introspection=(name,))) == (name == "slicing")


def test_six_jobs_on_four_gpus_run_two_thirds_of_the_time_each() -> None:
    """Equal weights: in any six quanta each job runs four."""
    clock = Clock(_cluster([JobRow()] * 6, 4), introspective(Slicing()))
    ran = [frozenset(clock.tick().grants.job.tolist()) for _ in range(30)]

    assert all(len(rows) == 4 for rows in ran)
    for first in range(24):
        turns = Counter(row for rows in ran[first : first + 6] for row in rows)
        assert turns == dict.fromkeys(range(6), 4)


def test_turns_that_end_a_moment_late_change_nothing() -> None:
    """Quanta of 60 to 63 s: still in any six each job runs four, as no job waits twice for another's second."""
    clock = Clock(_cluster([JobRow()] * 6, 4), introspective(Slicing()))
    late_s = Draws(3, "late").uniform(60) * 3.0
    ran = [frozenset(clock.tick(60.0 + more_s).grants.job.tolist()) for more_s in late_s.tolist()]

    for first in range(54):
        turns = Counter(row for rows in ran[first : first + 6] for row in rows)
        assert turns == dict.fromkeys(range(6), 4)


def test_weights_share_the_quanta() -> None:
    """Weights 2, 1, 1, 1, 1 on two GPUs over 60 quanta: 40 for the first, 20 for each other."""
    jobs = [JobRow(weight=2.0), *[JobRow()] * 4]
    clock = Clock(_cluster(jobs, 2), introspective(Slicing()))
    for _ in range(60):
        clock.tick()

    assert {row: ran_s / 60.0 for row, ran_s in clock.ran_s.items()} == {0: 40, 1: 20, 2: 20, 3: 20, 4: 20}


def test_nobody_is_stopped_inside_a_quantum() -> None:
    """Rounds every 20 s: turns change only at every third."""
    clock = Clock(_cluster([JobRow()] * 3, 2), introspective(Slicing()))
    ran = [frozenset(clock.tick(20.0).grants.job.tolist()) for _ in range(18)]

    assert all(ran[at] == ran[at - 1] for at in range(18) if at % 3)
    assert all(ran[at] != ran[at - 1] for at in range(3, 18, 3))


def test_a_round_is_wanted_at_the_end_of_the_quantum_only_while_somebody_waits() -> None:
    """With room for all there are no turns to take."""
    crowded = Clock(_cluster([JobRow()] * 3, 2), introspective(Slicing(quantum_s=90.0)))
    roomy = Clock(_cluster([JobRow()] * 2, 2), introspective(Slicing()))

    assert crowded.tick(30.0).again_at_s == 90.0
    assert crowded.tick(30.0).again_at_s == 90.0
    assert roomy.tick().again_at_s == np.inf


def test_a_gang_on_two_servers_takes_its_turn_on_both_at_once() -> None:
    """Two gangs of four on two servers of two GPUs beside two small jobs: whole gangs, equal time."""
    jobs = [JobRow(num_gpus=4, max_servers=0), JobRow(num_gpus=4, max_servers=0)]
    clock = Clock(_cluster(jobs, 2, 2), introspective(Slicing()))
    for _ in range(10):
        plan = clock.tick()
        assert len(set(plan.grants.job.tolist())) == 1
        assert plan.grants.num_gpus.sum() == 4

    assert clock.ran_s == {0: 300.0, 1: 300.0}


def test_who_comes_later_is_owed_nothing() -> None:
    """A job that joins after ten quanta shares from then on; it does not catch up."""
    clock = Clock(_cluster([JobRow(), JobRow()], 1), introspective(Slicing()))
    for _ in range(10):
        clock.tick()
    late = _cluster([JobRow(), JobRow(), JobRow(arrival_s=600.0)], 1)
    jobs, now = late.jobs, clock.snapshot
    both: dict[str, Any] = {  # Any: the type checker cannot follow arrays into arguments by name
        name: np.append(getattr(now.jobs, name), getattr(jobs, name)[2])
        for name in ("running", "held_at_s", "first_start_s", "waited_s", "executed_s", "attained_gpu_s", "rate")
    }
    clock.snapshot = replace(now, jobs=replace(jobs, **both))
    clock.ran_s.clear()
    for _ in range(12):
        clock.tick()

    assert clock.ran_s == {0: 240.0, 1: 240.0, 2: 240.0}


def test_who_is_on_its_way_off_still_owes_for_its_turn() -> None:
    """While a job is being stopped it is in no round; the next turn goes to the one that has had none."""
    clock = Clock(_cluster([JobRow()] * 3, 1), introspective(Slicing()))
    clock.tick()
    clock.tick(20.0)
    whole = clock.snapshot
    clock.snapshot = without_first(whole)
    clock.tick(20.0)
    clock.snapshot = replace(whole, now_s=clock.snapshot.now_s + 20.0, trials=clock.snapshot.trials)
    third = clock.tick()

    assert whole.jobs.running.tolist() == [False, True, False]
    assert third.grants.job.tolist() == [2]


def test_quantum_goes_on_while_its_last_is_on_its_way_off() -> None:
    """No job waits while the stopped one is in no round; when it is back it waits for the end all the same."""
    jobs = [JobRow(arrival_s=-5.0), JobRow(arrival_s=-9.0), JobRow(arrival_s=-1.0)]
    clock = Clock(_cluster(jobs, 2), introspective(Slicing()))
    clock.tick()
    turn = clock.tick(1.0)
    whole = clock.snapshot
    clock.snapshot = without_first(whole)
    alone = clock.tick(1.0)
    clock.snapshot = replace(whole, now_s=clock.snapshot.now_s, trials=clock.snapshot.trials)
    back = clock.tick()

    assert turn.grants.job.tolist() == [1, 2]
    assert (len(alone.waiting), alone.again_at_s) == (0, turn.again_at_s)
    assert not back.preemptions
    assert back.grants.job.tolist() == [1, 2]


def without_first(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot without its first job, which holds nothing."""
    jobs, held = snapshot.jobs, snapshot.held
    columns: dict[str, Any] = {name: getattr(jobs, name)[1:] for name in vars_of(jobs)}  # Any: as above
    return replace(snapshot, jobs=replace(jobs, **columns), held=replace(held, job=held.job - 1))


def vars_of(jobs: JobTable) -> list[str]:
    """Return the names of the columns of a table."""
    return [field.name for field in fields(jobs) if field.name != "profiles"]


def test_who_has_just_stopped_does_not_go_on_before_who_waits() -> None:
    """Both have had as many turns; the GPU of the next one is free a moment after that of the job just stopped."""
    had = JobRow(executed_s=120.0, first_start_s=0.0)
    jobs = [replace(had, waited_s=0.2), replace(had, waited_s=60.0, arrival_s=1.0)]
    snapshot = replace(_cluster(jobs, 1), now_s=240.2)
    turn = Trial(kind=TrialKind.SLICE, jobs=(1, 2), servers=(1, 1), values=(0.0, 0.0), began_s=240.0, until_s=300.0)
    plan = plan_round(replace(snapshot, trials=(turn,)), introspective(Slicing()))

    assert plan.grants.job.tolist() == [1]


def test_newcomer_does_not_stop_who_has_just_begun() -> None:
    """It comes a moment after the others, when no turn is running: it waits for the end of the first one."""
    early, late = _cluster([JobRow(), JobRow()], 2), _cluster([JobRow(), JobRow(), JobRow(arrival_s=5.0)], 2)
    clock = Clock(early, introspective(Slicing()))
    clock.tick(5.0)
    both: dict[str, Any] = {  # Any: as above
        name: np.append(getattr(clock.snapshot.jobs, name), getattr(late.jobs, name)[2])
        for name in ("running", "held_at_s", "first_start_s", "waited_s", "executed_s", "attained_gpu_s", "rate")
    }
    clock.snapshot = replace(clock.snapshot, jobs=replace(late.jobs, **both))

    assert not clock.tick().preemptions
    assert 2 in clock.tick().grants.job.tolist()


def test_a_suspended_job_comes_back_to_its_server() -> None:
    """Three servers of one GPU, four jobs: a job moves only when its own server is taken."""
    jobs = [JobRow(max_servers=1)] * 4
    clock = Clock(_cluster(jobs, 1, 1), introspective(Slicing()))
    clock.tick()
    homes = {row: clock.servers_of(row) for row in range(4) if clock.servers_of(row)}
    clock.tick()
    homes |= {row: clock.servers_of(row) for row in range(4) if clock.servers_of(row)}
    for _ in range(8):
        clock.tick()
        for row in range(4):
            assert clock.servers_of(row) in ([], homes[row])


@pytest.mark.parametrize("preemptible", [True, False])
def test_a_job_that_may_not_be_stopped_keeps_its_turn(preemptible: bool) -> None:
    """Slicing takes nothing from a job that is not preemptible."""
    jobs = [JobRow(preemptible=preemptible), JobRow(), JobRow()]
    clock = Clock(_cluster(jobs, 1), introspective(Slicing()))
    for _ in range(9):
        clock.tick()

    assert clock.ran_s[0] == (180.0 if preemptible else 540.0)


def test_jobs_of_a_full_queue_take_turns_among_themselves() -> None:
    """A queue of at most one GPU with two jobs: each runs half of the time, and the other queue's job all the time."""
    queues = [QueueRow(quota_gpus=1, max_gpus=1), QueueRow(quota_gpus=1)]
    jobs = [JobRow(), JobRow(), JobRow(queue=1)]
    snapshot = snapshot_of(jobs, [ServerRow(num_gpus=2)], queues, now_s=0.0)
    clock = Clock(snapshot, introspective(Slicing()))
    for _ in range(10):
        assert clock.tick().again_at_s == clock.snapshot.now_s

    assert clock.ran_s == {0: 300.0, 1: 300.0, 2: 600.0}


@pytest.mark.parametrize(("num_jobs", "gpus"), [(6, (2, 2)), (12, (4, 4)), (9, (2, 2, 2))])
def test_turns_that_fit_the_servers_move_nobody(num_jobs: int, gpus: tuple[int, ...]) -> None:
    """Where as many jobs come off each server as come back to it, all stay on their servers, late turns or not."""
    clock = Clock(_cluster([JobRow(max_servers=1)] * num_jobs, *gpus), introspective(Slicing()))
    late_s = Draws(5, "late").uniform(40) * 5.0
    homes: dict[int, list[int]] = {}
    for more_s in late_s.tolist():
        clock.tick(60.0 + more_s)
        for row in range(num_jobs):
            if at := clock.servers_of(row):
                assert homes.setdefault(row, at) == at

    assert len(homes) == num_jobs


@pytest.mark.parametrize(("num_jobs", "gpus"), [(6, (2, 2)), (9, (2, 2, 2)), (7, (2, 2)), (20, (4, 4, 4))])
def test_turns_that_drift_seldom_move_a_job(num_jobs: int, gpus: tuple[int, ...]) -> None:
    """Jobs get up to 6 s of 60 more or less than others: none is more than 2.6 turns behind.

    Of the turns that jobs begin, at most one in 15 is on another server than the one before, also where the jobs cannot
    be spread evenly.
    """
    clock = Clock(_cluster([JobRow(max_servers=1)] * num_jobs, *gpus), introspective(Slicing()))
    drift_s = (Draws(7, "drift").uniform(200 * num_jobs).reshape(200, num_jobs) - 0.5) * 12.0
    homes: dict[int, list[int]] = {}
    moves = begun = 0
    for more_s in drift_s:
        before = clock.snapshot.jobs.running
        clock.tick()
        jobs = clock.snapshot.jobs
        executed_s = jobs.executed_s + np.where(jobs.running, more_s, 0.0)
        clock.snapshot = replace(clock.snapshot, jobs=replace(jobs, executed_s=executed_s))
        assert np.ptp(executed_s) < 2.6 * 60.0
        begun += int(np.count_nonzero(jobs.running & ~before))
        for row in np.flatnonzero(jobs.running).tolist():
            moves += homes.get(row, clock.servers_of(row)) != clock.servers_of(row)
            homes[row] = clock.servers_of(row)

    assert begun > 200
    assert moves <= begun / 15


def test_who_lost_its_server_does_not_wait_longer_for_it() -> None:
    """Of two with as many turns the first in order was suspended on a server that is gone: it moves in any case."""
    had = JobRow(executed_s=60.0, first_start_s=0.0, waited_s=60.0)
    turn = Trial(kind=TrialKind.SLICE, jobs=(1, 2), servers=(7, 1), values=(0.0, 0.0), began_s=0.0, until_s=60.0)
    snapshot = replace(_cluster([had, replace(had, arrival_s=1.0, executed_s=110.0)], 1), now_s=120.0, trials=(turn,))

    assert plan_round(snapshot, introspective(Slicing())).grants.job.tolist() == [0]
