"""Changes that are said to start a waiting job start it, in the next plan and in the simulator, on random clusters."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from scheduler.choices import build_config
from scheduler.core.model.tables import JobTable, Placements, Snapshot, only_jobs
from scheduler.core.round.hypothetical import could_run, first_that_starts, most_gpus, seats_of, with_job, with_job_as
from scheduler.core.round.plan_round import plan_round
from scheduler.simulator.replay.engine import simulate
from scheduler.simulator.replay.replay import Replay
from scheduler.simulator.state.begun import Begun, jobs_of
from tests.support.simulator.strategies import snapshots
from tests.support.suite.examples import tried

CONFIGS = [
    ("fifo", "consolidate", "proportional"),
    ("las", "consolidate", "tune"),
    ("srtf", "any", "greedy"),
    ("priority", "relax", "tune"),
]


def known(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with a run time left for every job, and nobody on the way out."""
    jobs = snapshot.jobs
    left = np.where(np.isfinite(jobs.remaining_s), np.maximum(jobs.remaining_s, 10.0), 5_000.0 + jobs.job_id)
    started = np.where(jobs.running, np.minimum(jobs.first_start_s, snapshot.now_s), jobs.first_start_s)
    return replace(
        snapshot,
        jobs=replace(jobs, remaining_s=left, total_s=jobs.executed_s + left, first_start_s=started),
        releasing=Placements.none(),
    )


def sized(snapshot: Snapshot, row: int, gpus: int) -> JobTable:
    """Return a job with another number of GPUs, and its share of what it asked for."""
    one = only_jobs(snapshot, np.array([row])).jobs
    frac, count = gpus / one.num_gpus, np.array([gpus])
    return replace(
        one,
        num_gpus=count,
        min_gpus=count,
        max_gpus=count,
        demand_cpus=one.demand_cpus * frac,
        demand_memory_bytes=one.demand_memory_bytes * frac,
        min_cpus=one.min_cpus * frac,
    )


def options(snapshot: Snapshot, row: int) -> list[JobTable]:
    """Return ways to ask otherwise: other queues, any number of servers, no cores by number, fewer GPUs."""
    one = only_jobs(snapshot, np.array([row])).jobs
    queues = [replace(one, queue=np.array([queue])) for queue in range(len(snapshot.queues))]
    fewer = [sized(snapshot, row, gpus) for gpus in range(int(one.num_gpus[0]) - 1, 0, -1)]
    return [*queues, replace(one, max_servers=np.array([0])), replace(one, min_cpus=np.zeros(1)), *fewer]


@pytest.mark.parametrize("chosen", CONFIGS, ids=lambda chosen: "-".join(chosen))
@tried(40)
@given(snapshot=snapshots(), number=st.integers(0, 11))
def test_change_that_is_said_to_start_a_job_starts_it(
    chosen: tuple[str, str, str], snapshot: Snapshot, number: int
) -> None:
    """The next plan seats it where it was said, and so does the simulator begun from the changed state."""
    policy, locality, mechanism = chosen
    config = build_config(policy=policy, locality=locality, mechanism=mechanism)
    snapshot = known(snapshot)
    waiting = [entry.job for entry in plan_round(snapshot, config).waiting if not snapshot.jobs.running[entry.job]]
    if not waiting:
        return
    row = waiting[number % len(waiting)]
    ways = options(snapshot, row)
    found = first_that_starts(snapshot, config, row, ways)
    event("found" if found else "nothing helps")
    if found is None:
        return
    changed = with_job_as(snapshot, row, ways[found[0]])
    jobs = changed.jobs

    outcome = simulate(
        Replay(
            jobs_of(changed, jobs.remaining_s),
            changed.servers,
            changed.queues,
            config,
            until_s=changed.now_s,
            keep_stays=True,
            begun=Begun(snapshot=changed, remaining_s=jobs.remaining_s),
        )
    )

    assert seats_of(plan_round(changed, config).grants, row) == found[1].seats
    assert outcome.stays is not None
    own = outcome.stays.job == row
    seats = sorted(zip(outcome.stays.server[own].tolist(), outcome.stays.num_gpus[own].tolist(), strict=True))
    assert seats == sorted((seat.server, seat.num_gpus) for seat in found[1].seats)
    assert sum(gpus for _, gpus in seats) == int(jobs.num_gpus[row])


@tried(60)
@given(snapshot=snapshots())
def test_the_most_gpus_that_can_run_are_the_most(snapshot: Snapshot) -> None:
    """A job that can never run is told a size that can, and one more cannot."""
    config = build_config(policy="fifo", locality="consolidate", mechanism="proportional")
    if not len(snapshot.jobs):
        return
    one = replace(sized(snapshot, 0, 64), running=np.array([False]), held_at_s=np.array([np.inf]))
    asked, row = with_job(snapshot, one), len(snapshot.jobs)

    def resized(gpus: int) -> JobTable:
        return sized(asked, row, gpus)

    most = most_gpus(asked, config, row, below=64, sized=resized)

    assert not could_run(asked, config, row)
    assert not could_run(with_job_as(asked, row, resized(most + 1)), config, row)
    if most:
        assert could_run(with_job_as(asked, row, resized(most)), config, row)
