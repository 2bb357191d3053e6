"""Completion times of whole small workloads, against the plain history."""

import os
from random import Random

import numpy as np
import pytest

from scheduler.policies import POLICIES
from scheduler.simulator.jobs import SimJob
from scheduler.simulator.replay.engine import simulate
from scheduler.simulator.replay.replay import Replay
from tests.oracle.test_rounds import config_of
from tests.support.oracle.cases import Case
from tests.support.oracle.history import Task, completions
from tests.support.oracle.orders import ORDERS
from tests.support.simulator.strategies import ServerRow

CASES = int(os.environ.get("ORACLE_CASES", "25"))
# Policies whose order changes only when a job arrives, ends or crosses a limit: they need no grid of rounds.
BY_EVENT = ("fifo", "priority", "srtf", "srsf", "las")


def _workload(rng: Random) -> tuple[list[Task], tuple[ServerRow, ...]]:
    sizes = [rng.choice([2, 4, 8]) for _ in range(rng.randint(1, 3))]
    tasks = [
        Task(
            arrival_s=float(rng.randint(0, 30)) * 50,
            num_gpus=rng.choice([gpus for gpus in (1, 1, 1, 2, 2, 3, 4, 8) if gpus <= max(sizes)]),
            run_s=float(rng.choice([40, 130, 700, 1_500, 4_000]) + rng.randint(0, 20)),
            priority=rng.choice([20.0, 50.0, 80.0]),
            owner=rng.randint(0, 2),
        )
        for _ in range(rng.randint(2, 12))
    ]
    return tasks, tuple(ServerRow(num_gpus=size, num_cpus=3.0 * size) for size in sizes)


def _simulated(tasks: list[Task], servers: tuple[ServerRow, ...], policy: str, round_s: float | None) -> list[float]:
    jobs = [
        SimJob(
            arrival_s=task.arrival_s,
            num_gpus=task.num_gpus,
            run_s=task.run_s,
            max_servers=1,
            priority=task.priority,
            owner=task.owner,
        )
        for task in tasks
    ]
    empty = Case(jobs=(), servers=servers, racks=(0,) * len(servers)).snapshot()
    config = config_of(policy, "consolidate", "proportional")
    outcome = simulate(Replay(jobs, empty.servers, empty.queues, config, round_s=round_s))
    return [float(end_s) for end_s in outcome.records.end_s]


def _agree(policy: str, round_s: float | None) -> None:
    rng = Random(f"history-{policy}-{round_s}")
    for _ in range(CASES):
        tasks, servers = _workload(rng)

        def differs(few: list[Task]) -> bool:
            core = _simulated(few, servers, policy, round_s)  # noqa: B023  (called in this turn of the loop)
            return not np.allclose(core, completions(few, servers, policy, round_s=round_s), atol=1e-3)  # noqa: B023

        if differs(tasks):
            at = 0
            while at < len(tasks):
                fewer = tasks[:at] + tasks[at + 1 :]
                tasks, at = (fewer, 0) if fewer and differs(fewer) else (tasks, at + 1)
            core, plain = (
                _simulated(tasks, servers, policy, round_s),
                completions(tasks, servers, policy, round_s=round_s),
            )
            lines = "\n".join(map(str, tasks))
            pytest.fail(f"{policy} {[s.num_gpus for s in servers]}\n{lines}\ncore   {core}\noracle {plain}")


@pytest.mark.parametrize("policy", [name for name in BY_EVENT if name in POLICIES and name in ORDERS])
def test_completion_times_by_event(policy: str) -> None:
    """A round whenever something happens: every job completes when the plain history says."""
    _agree(policy, None)


@pytest.mark.parametrize("policy", [name for name in POLICIES if name in ORDERS])
def test_completion_times_by_round(policy: str) -> None:
    """Rounds of 60 s: every job completes when the plain history says."""
    _agree(policy, 60.0)
