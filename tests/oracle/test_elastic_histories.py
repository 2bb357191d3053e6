"""Completion times of whole small elastic workloads under every share policy, against the plain history."""

import os
from random import Random

import numpy as np
import pytest

from scheduler.core.model.profile import Profile
from scheduler.policies import POLICIES
from scheduler.simulator.jobs import SimJob
from scheduler.simulator.replay.engine import simulate
from scheduler.simulator.replay.replay import Replay
from tests.oracle.test_rounds import config_of
from tests.oracle.test_shares import SHARES
from tests.support.oracle.auction import TiedError
from tests.support.oracle.cases import Case
from tests.support.oracle.elastic_history import ElasticTask, elastic_completions
from tests.support.simulator.strategies import ServerRow

CASES = int(os.environ.get("ORACLE_CASES", "25"))
# Of those that change by themselves the fast one is asked in short rounds too, in which a slice must not end twice.
ROUNDS_S = {"afs-p": 60.0}


def _round_s(policy: str) -> float:
    return ROUNDS_S.get(policy, 300.0)


def _curve(rng: Random) -> Profile:
    """Return a curve that rises ever more slowly."""
    points, speed, slope = [(1.0, 1.0)], 1.0, 1.0
    for gpus, step in ((2.0, 1), (4.0, 2), (8.0, 4)):
        slope *= rng.uniform(0.3, 1.0)
        speed += step * slope
        points.append((gpus, speed))
    return Profile(scaling=tuple(points))


def _workload(rng: Random) -> tuple[list[ElasticTask], ServerRow]:
    size = rng.choice([2, 4, 8])
    tasks = []
    for _ in range(rng.randint(2, 8)):
        most = rng.choice([1, 2, 4, 8])
        arrival_s, run_s = rng.uniform(0, 2_500), rng.choice([150, 900, 5_000, 20_000]) * rng.uniform(0.8, 1.2)
        num_gpus = rng.randint(1, min(most, size))
        tasks.append(
            ElasticTask(arrival_s=arrival_s, num_gpus=num_gpus, max_gpus=most, run_s=run_s, profile=_curve(rng))
        )
    return tasks, ServerRow(num_gpus=size, num_cpus=3.0 * size)


def _simulated(tasks: list[ElasticTask], server: ServerRow, policy: str) -> tuple[list[float], list[int]]:
    jobs = [
        SimJob(
            arrival_s=task.arrival_s,
            num_gpus=task.num_gpus,
            run_s=task.run_s,
            max_servers=1,
            min_gpus=1,
            max_gpus=task.max_gpus,
            profile=task.profile,
        )
        for task in tasks
    ]
    empty = Case(jobs=(), servers=(server,), racks=(0,)).snapshot()
    config = config_of(policy, "consolidate", "proportional")
    records = simulate(Replay(jobs, empty.servers, empty.queues, config, round_s=_round_s(policy))).records
    return [float(end_s) for end_s in records.end_s], records.reconfigurations.tolist()


@pytest.mark.parametrize("policy", [name for name in POLICIES if name in SHARES])
def test_completion_times_and_changes(policy: str) -> None:
    """Every job completes when the plain history says, after as many changes of its GPUs."""
    rng = Random(f"elastic-history-{policy}")
    compared = changed = 0
    for _ in range(CASES):
        tasks, server = _workload(rng)
        try:
            ends_s, changes = elastic_completions(tasks, server, SHARES[policy], round_s=_round_s(policy))
        except TiedError:
            continue
        found_s, found_changes = _simulated(tasks, server, policy)
        lines = "\n".join(map(str, tasks))
        assert np.allclose(found_s, ends_s, atol=1e-3), f"{server.num_gpus} GPUs\n{lines}\n{found_s}\n{ends_s}"
        assert found_changes == changes, f"{server.num_gpus} GPUs\n{lines}"
        compared += 1
        changed += sum(changes)

    assert compared > CASES / 2
    assert changed > CASES  # else nothing was elastic
