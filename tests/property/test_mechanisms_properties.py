"""What Synergy's mechanisms hold for every set of jobs whose GPUs fit."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.model.profile import Profile, demand, sensitivity
from scheduler.core.round.config import Mechanism, SchedulerConfig
from scheduler.core.round.plan_round import plan_round
from scheduler.mechanisms import MECHANISMS
from scheduler.mechanisms.opt import Opt, speed_bound
from scheduler.mechanisms.tune import Tune
from scheduler.placement.consolidate import Consolidate
from scheduler.policies.fifo import Fifo
from tests.support.simulator.strategies import JobRow, ServerRow, snapshot_of
from tests.support.simulator.synergy import PROFILES, speeds
from tests.support.suite.examples import tried

quick = tried(30)
FAIR = {
    "proportional": MECHANISMS["proportional"](),
    "tune": Tune(),
    "tune-in-order": Tune(sort_by_demand=False),
    "tune-top-up": Tune(top_up=True),
    "tune-repack": Tune(repack=True),
    "tune-repack-top-up": Tune(repack=True, top_up=True),
    "opt": Opt(time_limit_s=30.0),
    "opt-rounded": Opt(integral=False, time_limit_s=30.0),
    "opt-repack": Opt(repack=True, time_limit_s=30.0),
}
every_fair_one = pytest.mark.parametrize("mechanism", FAIR.values(), ids=FAIR)

# The server of the paper, and what its grid and its shares are.
SERVER = ServerRow()
CORES = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 9.0, 12.0, 24.0)
MEMORY = (20.83e9, 62.5e9, 125e9, 187.5e9, 250e9)


@st.composite
def profiles(draw: st.DrawFn) -> Profile:
    """A published profile, or one bound by whichever of cores and memory is scarcer."""
    if draw(st.booleans()):
        return PROFILES[draw(st.sampled_from(sorted(PROFILES)))]
    by_cores = np.cumsum(draw(st.lists(st.sampled_from([0.0, 0.2, 0.5, 1.0]), min_size=9, max_size=9))) + 0.1
    by_memory = np.cumsum(draw(st.lists(st.sampled_from([0.0, 0.3, 1.0]), min_size=5, max_size=5))) + 0.1
    speed = np.minimum(by_cores[:, None], by_memory[None, :])
    speed /= speed[CORES.index(3.0), MEMORY.index(62.5e9)]
    return Profile(
        cpus_per_gpu=CORES,
        memory_bytes_per_gpu=MEMORY,
        relative_speed=tuple(tuple(float(value) for value in row) for row in speed.round(6)),
    )


@st.composite
def run_sets(draw: st.DrawFn) -> tuple[list[JobRow], int]:
    """Jobs whose GPUs fit on one to three servers, over which they may be spread; some run already."""
    num_servers = draw(st.integers(1, 3))
    free, jobs = [8] * num_servers, list[JobRow]()
    while sum(free) and len(jobs) < 14:
        gpus = min(draw(st.sampled_from([1, 1, 1, 2, 3, 4, 8, 12])), sum(free))
        seats, left = [], gpus
        for server in sorted(range(num_servers), key=lambda server: -free[server]):
            count = min(left, free[server])
            if count:
                seats.append((server, count))
                free[server] -= count
                left -= count
        profile = draw(profiles())
        wants = demand(profile, num_gpus=gpus)
        runs = draw(st.booleans())
        jobs.append(
            JobRow(
                num_gpus=gpus,
                max_servers=0,
                demand_cpus=wants.cpus,
                demand_memory_bytes=wants.memory_bytes,
                profile=profile,
                seats=tuple(sorted(seats)) if runs else (),
            )
        )
    return jobs, num_servers


def _config(mechanism: Mechanism) -> SchedulerConfig:
    return SchedulerConfig(policy=Fifo(), locality=Consolidate(), mechanism=mechanism)


def _share_speed(job: JobRow) -> float:
    assert job.profile is not None
    return sensitivity(job.profile, cpus_per_gpu=3.0, memory_bytes_per_gpu=62.5e9)


@every_fair_one
@quick
@given(case=run_sets())
def test_everybody_whose_gpus_fit_runs_at_least_as_fast_as_with_the_share(
    mechanism: Mechanism, case: tuple[list[JobRow], int]
) -> None:
    """Synergy's fairness: the mechanism never fails, nobody waits, and nobody is slower than proportional."""
    jobs, num_servers = case
    got = speeds(plan_round(snapshot_of(jobs, [SERVER] * num_servers), _config(mechanism)), jobs)

    assert got.keys() == set(range(len(jobs)))
    assert all(speed >= _share_speed(jobs[row]) - 1e-9 for row, speed in got.items())


@every_fair_one
@quick
@given(case=run_sets())
def test_a_split_gang_splits_cores_and_memory_like_its_gpus(
    mechanism: Mechanism, case: tuple[list[JobRow], int]
) -> None:
    """Each GPU of a gang has the same on all its servers."""
    jobs, num_servers = case
    grants = plan_round(snapshot_of(jobs, [SERVER] * num_servers), _config(mechanism)).grants

    for row in range(len(jobs)):
        mine = grants.job == row
        for amounts in (grants.cpus, grants.memory_bytes):
            assert np.ptp(amounts[mine] / grants.num_gpus[mine]) <= 1e-6 * amounts[mine].max()


@quick
@given(case=run_sets())
def test_no_mechanism_beats_the_bound_of_opt(case: tuple[list[JobRow], int]) -> None:
    """The mixture is at least as good as whole jobs, and they as any plan; topping up never costs anybody speed."""
    jobs, num_servers = case
    snapshot = snapshot_of(jobs, [SERVER] * num_servers)
    plans = {name: plan_round(snapshot, _config(mechanism)) for name, mechanism in FAIR.items()}
    totals = {name: sum(speeds(plan, jobs).values()) for name, plan in plans.items()}
    mixed, whole = (
        speed_bound(snapshot.jobs, snapshot.servers, range(len(jobs)), integral=integral) for integral in (False, True)
    )

    assert mixed is not None
    assert whole is not None
    assert max(totals.values()) <= whole * (1 + 1e-6) <= mixed * (1 + 2e-6)
    plain, topped = speeds(plans["tune"], jobs), speeds(plans["tune-top-up"], jobs)
    assert all(topped[row] >= plain[row] for row in plain)


@quick
@given(case=run_sets())
def test_repacking_an_unchanged_cluster_moves_nobody(case: tuple[list[JobRow], int]) -> None:
    """Where a job goes depends on who runs, not on where they sit: a second round repeats the first."""
    jobs, num_servers = case
    config = _config(Tune(repack=True))
    grants = plan_round(snapshot_of(jobs, [SERVER] * num_servers), config).grants
    seats: dict[int, tuple[tuple[int, int], ...]] = {}
    for row, server, gpus in zip(grants.job.tolist(), grants.server.tolist(), grants.num_gpus.tolist(), strict=True):
        seats[row] = (*seats.get(row, ()), (server, gpus))
    settled = [replace(job, seats=seats[row]) for row, job in enumerate(jobs)]

    assert not plan_round(snapshot_of(settled, [SERVER] * num_servers), config).preemptions
