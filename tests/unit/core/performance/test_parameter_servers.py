"""Parameter servers and workers: additions by gain, even placement, assignment of blocks."""

import numpy as np
import pytest

from scheduler.core.parameter_servers import PsJob, allocate, assign_blocks, place
from scheduler.core.performance.speed_fit import SpeedModel

MODEL = SpeedModel(terms=(0.02, 0.5, 0.30, 0.01, 0.005), batch=64.0, measured={})


def _job(steps: float) -> PsJob:
    return PsJob(steps=steps, model=MODEL, worker={"cpus": 4.0, "gpus": 1.0}, server={"cpus": 2.0})


def test_additions_go_by_marginal_gain() -> None:
    """Optimus example 3: worker to A, server to A, worker to B, then the best does not fit."""
    tasks, added = allocate([_job(1_000.0), _job(300.0)], {"cpus": 24.0, "gpus": 5.0})

    assert [(step.job, step.kind, round(step.gain, 1)) for step in added] == [
        (0, "worker", 330.0),
        (0, "server", 147.5),
        (1, "worker", 99.0),
    ]
    assert tasks == [(2, 2), (1, 2)]
    assert [round(_job(steps).remaining_s(at), 1) for steps, at in zip((1_000.0, 300.0), tasks, strict=True)] == [
        1470.0,
        529.5,
    ]


def test_everybody_gets_one_of_each_first() -> None:
    """With room for one server and one worker a job nobody is left out; without, the first come are served."""
    jobs = [_job(10.0**number) for number in range(4)]

    assert all(min(tasks) >= 1 for tasks in allocate(jobs, {"cpus": 24.0, "gpus": 4.0})[0])
    assert allocate(jobs, {"cpus": 12.0, "gpus": 4.0})[0] == [(1, 1), (1, 1), (0, 0), (0, 0)]


def test_a_larger_cluster_never_lengthens_the_estimates() -> None:
    """One more server of 12 cores and 2 GPUs: the sum of estimated remaining times does not grow."""
    draws = np.random.default_rng(4)
    for _ in range(20):
        jobs = [_job(float(draws.uniform(100, 5_000))) for _ in range(4)]
        sums = []
        for servers in range(3, 9):
            tasks, _ = allocate(jobs, {"cpus": 12.0 * servers, "gpus": 2.0 * servers})
            sums.append(sum(job.remaining_s(at) for job, at in zip(jobs, tasks, strict=True)))
        assert sums == sorted(sums, reverse=True)


def test_a_job_that_fits_one_server_stays_on_it() -> None:
    """Optimus example 4: two of each on two empty servers of 12 cores all go to the first."""
    assert place([_job(1.0)], [(2, 2)], [{"cpus": 12.0, "gpus": 2.0}] * 2) == [{0: (2, 2)}]


@pytest.mark.parametrize("tasks", [(2, 4), (3, 3), (4, 6), (1, 5), (5, 2)])
def test_tasks_are_dealt_evenly_over_the_fewest_servers(tasks: tuple[int, int]) -> None:
    """No used server has two tasks of a kind more than another, and one server less would not have done."""
    free = [{"cpus": 12.0, "gpus": 2.0} for _ in range(6)]
    (placed,) = place([_job(1.0)], [tasks], free)

    for kind in (0, 1):
        counts = [at[kind] for at in placed.values()]
        assert sum(counts) == tasks[kind]
        assert max(counts) - min(counts) <= 1
    fewer = place([_job(1.0)], [tasks], free[: len(placed) - 1])[0]
    assert sum(sum(at) for at in fewer.values()) < sum(tasks)


def test_a_job_that_fits_nowhere_evenly_makes_do() -> None:
    """Where tasks only fit in part the job runs with those; without room for one of each it waits."""
    assert place([_job(1.0)], [(3, 3)], [{"cpus": 7.0, "gpus": 1.0}]) == [{0: (1, 1)}]
    assert place([_job(1.0)], [(1, 1)], [{"cpus": 3.0, "gpus": 1.0}]) == [{}]


def test_blocks_are_spread_evenly_in_few_pieces() -> None:
    """Optimus example 5: 50, 30, 10, 5 and 5 over four servers load each with 25."""
    pieces = assign_blocks([50, 30, 10, 5, 5], 4)

    assert [sum(held) for held in pieces] == [25, 25, 25, 25]
    assert sum(len(held) for held in pieces) == 7


def test_loads_differ_by_little_and_pieces_are_fewer_than_an_even_split() -> None:
    """Nothing is lost, no server is far above the mean, and there are fewer pieces than when all blocks are split."""
    draws = np.random.default_rng(6)
    for _ in range(100):
        sizes = np.ceil(np.exp(draws.uniform(0, 9, size=int(draws.integers(4, 40))))).tolist()
        servers = int(draws.integers(2, 9))
        pieces = assign_blocks(sizes, servers)
        loads = [sum(held) for held in pieces]
        assert sum(loads) == pytest.approx(sum(sizes))
        assert sum(len(held) for held in pieces) <= len(sizes) + servers
