"""The division that Opt aims at, against trying every one, and what its plans make of it."""

import os
from dataclasses import replace
from itertools import product
from random import Random

import numpy as np
import pytest

from scheduler.core.model.plan import Plan
from scheduler.core.model.profile import Profile, sensitivity
from scheduler.core.round.plan_round import plan_round
from scheduler.mechanisms.opt import speed_bound
from tests.oracle.test_rounds import config_of
from tests.support.oracle.cases import GIB, Case, random_case
from tests.support.simulator.strategies import JobRow

CASES = int(os.environ.get("ORACLE_CASES", "40"))
SHARE = (3.0, 64.0 * GIB)
Amounts = tuple[float, float]


def _case(rng: Random, most_jobs: int) -> Case:
    """Return up to ``most_jobs`` waiting jobs on servers of the same GPU-proportional share."""
    case = random_case(rng, running=False, most_servers=3)
    return replace(case, jobs=case.jobs[:most_jobs])


def _speed(job: JobRow, at: Amounts) -> float:
    return sensitivity(job.profile or Profile(), cpus_per_gpu=at[0], memory_bytes_per_gpu=at[1])


def _choices(job: JobRow) -> list[Amounts]:
    """Return what a job may get per GPU: points of its grid where it is as fast as with its share, and the share."""
    profile = job.profile or Profile()
    grid = [*product(profile.cpus_per_gpu, profile.memory_bytes_per_gpu), SHARE]
    return [at for at in grid if _speed(job, at) >= _speed(job, SHARE)]


def _most(case: Case, rows: list[int]) -> float:
    """Return the largest sum of speeds of the jobs on one machine with all cores and memory, by trying everything."""
    cpus = sum(server.num_cpus for server in case.servers) * (1 + 1e-9)
    memory = sum(server.memory_bytes for server in case.servers) * (1 + 1e-9)
    # Amounts that others beat do not have to be tried.
    reached: dict[Amounts, float] = {(0.0, 0.0): 0.0}
    for row in rows:
        job = case.jobs[row]
        after: dict[Amounts, float] = {}
        for (used_cpus, used_memory), speed in reached.items():
            for at in _choices(job):
                used = (used_cpus + job.num_gpus * at[0], used_memory + job.num_gpus * at[1])
                if used[0] <= cpus and used[1] <= memory:
                    after[used] = max(after.get(used, 0.0), speed + _speed(job, at))
        reached = after
    return max(reached.values(), default=-1.0)


def _speeds(case: Case, plan: Plan) -> dict[int, float]:
    """Return the speed of every job of the plan by its cores and memory; a gang runs as its slowest part."""
    speeds: dict[int, float] = {}
    grants = plan.grants
    per_gpu = zip(
        grants.job.tolist(), (grants.cpus / grants.num_gpus).tolist(), (grants.memory_bytes / grants.num_gpus).tolist(),
        strict=True,
    )  # fmt: skip
    for job, cpus, memory in per_gpu:
        speeds[job] = min(speeds.get(job, np.inf), _speed(case.jobs[job], (cpus, memory)))
    return speeds


def test_the_bound_for_whole_jobs() -> None:
    """The integral program finds what trying everything finds; the relaxed one is never below it."""
    rng = Random("bound")
    for _ in range(CASES):
        case = _case(rng, 4)
        rows, gpus = [], 0
        for row, job in enumerate(case.jobs):
            if gpus + job.num_gpus <= case.num_gpus:
                rows.append(row)
                gpus += job.num_gpus
        if not rows:
            continue
        snapshot = case.snapshot()
        whole = speed_bound(snapshot.jobs, snapshot.servers, rows, integral=True)
        relaxed = speed_bound(snapshot.jobs, snapshot.servers, rows)

        assert whole == pytest.approx(_most(case, rows), abs=1e-4), case.told()
        assert relaxed is not None
        assert relaxed >= _most(case, rows) - 1e-4


def test_plans_lie_between_the_share_and_the_bound() -> None:
    """Nobody is slower under opt than with its share, and all together are no faster than the bound."""
    rng = Random("opt")
    for number in range(CASES):
        case = _case(rng, 12)
        if number % 2:
            case = random_case(rng, wide=True)
        snapshot = case.snapshot()
        plan = plan_round(snapshot, config_of("fifo", "consolidate", "opt"))

        speeds = _speeds(case, plan)
        bound = speed_bound(snapshot.jobs, snapshot.servers, speeds)
        assert all(speed >= _speed(case.jobs[job], SHARE) - 1e-6 for job, speed in speeds.items()), case.told()
        assert bound is None or sum(speeds.values()) <= bound + 1e-4
