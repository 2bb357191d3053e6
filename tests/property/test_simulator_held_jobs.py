"""Replays with arrays and jobs that wait for others: limits and orders hold at every moment, under every planner."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.choices import build_config
from scheduler.core.model.holds import After, ArrayLimit
from scheduler.core.model.tables import Snapshot
from scheduler.core.round.held_back import held_rows
from scheduler.core.round.plan_round import plan_round
from scheduler.simulator.jobs import Failure, SimJob
from scheduler.simulator.replay.engine import simulate
from scheduler.simulator.replay.replay import Replay
from scheduler.simulator.replay.saving import States
from scheduler.simulator.state.begun import Begun, jobs_of
from scheduler.simulator.state.outcome import Outcome
from tests.property.test_simulator_begun import known
from tests.support.simulator.strategies import JobRow, ServerRow, snapshot_of, snapshots
from tests.support.suite.examples import tried

# One for each planner of replays, and those with turns, shares and whole rounds.
CONFIGS = [
    ("fifo", "consolidate", "proportional"),
    ("srtf", "any", "proportional"),
    ("las", "consolidate", "proportional"),
    ("fifo", "consolidate", "tune"),
    ("maxmin", "consolidate", "proportional"),
    ("gittins", "consolidate", "proportional"),
]
CLUSTER = snapshot_of([], [ServerRow(num_gpus=4), ServerRow(num_gpus=4)])


@st.composite
def workloads(draw: st.DrawFn) -> list[SimJob]:
    """Return jobs of which some are of two arrays, some wait for earlier ones, and some fail."""
    jobs: list[SimJob] = []
    for number in range(1, draw(st.integers(2, 14)) + 1):
        array = draw(st.sampled_from([0, 0, 21, 22]))
        after = draw(st.lists(st.integers(1, number - 1), unique=True, max_size=2)) if number > 1 else []
        fails = draw(st.booleans()) and draw(st.booleans())
        jobs.append(
            SimJob(
                arrival_s=float(draw(st.integers(0, 200))),
                num_gpus=draw(st.sampled_from([1, 1, 2, 4])),
                run_s=float(draw(st.integers(1, 300))),
                number=number,
                after=tuple(after) if draw(st.booleans()) else (),
                array=array,
                array_most={0: 0, 21: 1, 22: 2}[array],
                failures=(Failure(after_s=5.0, cause="unclassified"),) if fails else (),
            )
        )
    return jobs


def replayed(jobs: list[SimJob], chosen: tuple[str, str, str], **options: object) -> Outcome:
    """Return what happens to the jobs."""
    policy, locality, mechanism = chosen
    config = build_config(policy=policy, locality=locality, mechanism=mechanism)
    options = {"round_s": 30.0, **options}
    return simulate(Replay(jobs, CLUSTER.servers, CLUSTER.queues, config, **options))  # type: ignore[arg-type]  # by name


def check_history(jobs: list[SimJob], outcome: Outcome) -> None:
    """Check that every job ran, none before what it waits for, and of no array more than may be at work at once."""
    start_s, end_s = outcome.records.first_start_s, outcome.records.end_s
    assert np.isfinite(end_s).all()
    row_of = {job.number: row for row, job in enumerate(jobs)}
    for row, job in enumerate(jobs):
        for other in job.after:
            assert start_s[row] >= end_s[row_of[other]]
    for array, most in ((21, 1), (22, 2)):
        own = [row for row, job in enumerate(jobs) if job.array == array]
        for moment in start_s[own]:
            assert sum(start_s[row] <= moment < end_s[row] for row in own) <= most


@pytest.mark.parametrize("chosen", CONFIGS, ids=lambda chosen: "-".join(chosen))
@tried(40)
@given(jobs=workloads())
def test_limits_and_orders_hold_under_every_planner(chosen: tuple[str, str, str], jobs: list[SimJob]) -> None:
    """Planned from what changed, each round compared with ``plan_round``, and from scratch: one history."""
    quick = replayed(jobs, chosen, check_every=1)
    whole = replayed(jobs, chosen, incremental=False)

    check_history(jobs, quick)
    assert quick.plan_hash == whole.plan_hash
    assert quick.records.end_s.tolist() == whole.records.end_s.tolist()


@tried(25)
@given(jobs=workloads())
def test_waits_add_up_and_name_what_held_the_job(jobs: list[SimJob]) -> None:
    """The time outside the line is time without GPUs, under its own reasons."""
    records = replayed(jobs, CONFIGS[0], keep_reasons=True).records

    total = sum(records.waited_s.values(), np.zeros(len(jobs)))
    assert np.allclose(total, records.queueing_s)
    for reason in ("dependency", "array_limit"):
        held = records.waited_s.get(reason, np.zeros(len(jobs))) > 0
        assert all(job.after or job.array for job, is_held in zip(jobs, held, strict=True) if is_held)


@tried(20)
@given(jobs=workloads(), until_s=st.integers(0, 400))
def test_an_interrupted_replay_goes_on_as_if_it_had_not_been(
    jobs: list[SimJob], until_s: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Jobs outside the line are found again from the state."""
    path = tmp_path_factory.mktemp("held") / "state.npz"
    policy, locality, mechanism = CONFIGS[0]
    config = build_config(policy=policy, locality=locality, mechanism=mechanism)
    whole = Replay(jobs, CLUSTER.servers, CLUSTER.queues, config, round_s=30.0)

    simulate(replace(whole, until_s=float(until_s)), states=States(save_to=path))
    later = simulate(whole, states=States(continue_from=path))

    assert later.plan_hash == simulate(whole).plan_hash
    assert later.records.end_s.tolist() == simulate(whole).records.end_s.tolist()


@pytest.mark.parametrize("chosen", CONFIGS[:4], ids=lambda chosen: "-".join(chosen))
@tried(25)
@given(snapshot=snapshots(), data=st.data())
def test_a_replay_of_a_snapshot_begins_with_the_live_round(
    chosen: tuple[str, str, str], snapshot: Snapshot, data: st.DataObject
) -> None:
    """The same jobs are held back, and each starts once what held it is gone."""
    ids: list[int] = snapshot.jobs.job_id.tolist()
    waiting = [number for number, runs in zip(ids, snapshot.jobs.running, strict=True) if not runs]
    late = data.draw(st.lists(st.sampled_from(waiting), unique=True, max_size=3)) if waiting else []
    others = [number for number in ids if number not in late]
    members = data.draw(st.lists(st.sampled_from(ids), unique=True)) if ids else []
    after = (After(jobs=(*late,), on=(others[0],)),) if late and others else ()
    limit, outside = data.draw(st.integers(1, 3)), data.draw(st.integers(0, 3))
    array = ArrayLimit(number=50, most=limit, outside=outside, jobs=tuple(sorted(members)))
    snapshot = replace(known(snapshot), arrays=(array,), after=after)
    policy, locality, mechanism = chosen
    config = build_config(policy=policy, locality=locality, mechanism=mechanism)
    plan = plan_round(snapshot, config)

    outcome = simulate(
        Replay(
            jobs_of(snapshot, snapshot.jobs.remaining_s),
            snapshot.servers,
            snapshot.queues,
            config,
            keep_stays=True,
            begun=Begun(snapshot=snapshot, remaining_s=snapshot.jobs.remaining_s),
            check_every=1,
        )
    )

    assert outcome.stays is not None
    first = {job for job, at in zip(outcome.stays.job, outcome.stays.begin_s, strict=True) if at <= snapshot.now_s}
    assert set(plan.grants.job.tolist()) <= first
    begin_s = np.full(len(ids), math.inf)
    np.minimum.at(begin_s, outcome.stays.job, outcome.stays.begin_s)
    row_of = {number: row for row, number in enumerate(ids)}
    for number in late if after else []:
        assert begin_s[row_of[number]] >= outcome.records.end_s[row_of[others[0]]]
    for row in held_rows(snapshot):
        assert begin_s[row] > snapshot.now_s


def test_array_that_is_full_of_jobs_outside_the_snapshot_lets_none_in_at_once() -> None:
    """Its one place is held by a job that pauses: the next one starts when a job like them has had time to end."""
    jobs = [JobRow(remaining_s=600.0, arrival_s=0.0), JobRow(remaining_s=600.0, arrival_s=1.0)]
    array = ArrayLimit(number=50, most=1, outside=1, jobs=(1, 2))
    snapshot = replace(snapshot_of(jobs, [ServerRow()]), arrays=(array,))
    remaining_s = snapshot.jobs.remaining_s
    outcome = simulate(
        Replay(
            jobs_of(snapshot, remaining_s),
            snapshot.servers,
            snapshot.queues,
            build_config(policy="fifo", mechanism="proportional"),
            keep_stays=True,
            begun=Begun(snapshot=snapshot, remaining_s=remaining_s),
            check_every=1,
        )
    )

    assert outcome.stays is not None
    begin_s = dict(zip(outcome.stays.job.tolist(), outcome.stays.begin_s.tolist(), strict=True))
    assert begin_s == {0: snapshot.now_s + 600.0, 1: snapshot.now_s + 1_200.0}
