"""Tetris as an order: remaining work, fit to what is free, and fairness."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.choices import build_config
from scheduler.core.model.tables import Snapshot
from scheduler.core.round.plan_round import plan_round
from scheduler.policies.drf import Drf
from scheduler.policies.tetris import Tetris, among_the_fair
from tests.support.simulator.strategies import JobRow, ServerRow, snapshot_of

GB = 1e9


def order(policy: Tetris | Drf, snapshot: Snapshot) -> list[int]:
    """Return the rows, smallest key first, ties by arrival and row."""
    keys = policy.priority(snapshot)
    return sorted(range(len(keys)), key=lambda row: (keys[row], snapshot.jobs.arrival_s[row], row))


def test_remaining_time_times_the_sum_of_relative_demands() -> None:
    """Half the GPUs, a quarter of the cores and all memory for 100 s are 175; unknown lengths come last."""
    rows = [JobRow(num_gpus=4, demand_cpus=6.0, demand_memory_bytes=500 * GB, remaining_s=100.0), JobRow()]
    policy, snapshot = Tetris(), snapshot_of(rows, [ServerRow()])

    assert policy.priority(snapshot).tolist() == [175.0, math.inf]
    assert policy.preemptive


def _fits(cpus: float, memory: float, remaining_s: float = math.inf, owner: int = 0) -> JobRow:
    return JobRow(demand_cpus=cpus, demand_memory_bytes=memory * GB, remaining_s=remaining_s, owner=owner)


def _two_servers(jobs: list[JobRow]) -> Snapshot:
    """Return servers of (8, 24, 500) with (4, 20, 100) and (4, 6, 400) free, as in the example of alignment."""
    held = ((4.0, 400 * GB), (18.0, 100 * GB))
    holders = [
        JobRow(num_gpus=4, max_servers=1, seats=((server, 4),), demand_cpus=cpus, demand_memory_bytes=memory)
        for server, (cpus, memory) in enumerate(held)
    ]
    snapshot = snapshot_of([*jobs, *holders], [ServerRow()] * 2)
    snapshot.held.cpus[:] = [4.0, 18.0]
    snapshot.held.memory_bytes[:] = [400 * GB, 100 * GB]
    return snapshot


def test_the_best_fit_goes_first_and_nobody_is_stopped() -> None:
    """Alignments .4250 (speech), .4000 (image), .1062 (language): the little one gets the leftovers."""
    policy = Tetris(score="alignment")
    snapshot = _two_servers([_fits(1, 20.83), _fits(9, 62.5), _fits(6, 187.5), _fits(21, 1)])
    keys = policy.priority(snapshot)

    assert (-keys[:3]).tolist() == pytest.approx([0.1062, 0.4000, 0.4250], abs=5e-5)
    assert keys[3] == math.inf  # 21 cores are free nowhere
    assert not policy.preemptive
    config = build_config(policy="tetris", policy_options={"score": "alignment"}, mechanism="greedy")
    plan = plan_round(snapshot, config)
    assert plan.order[2:4] == [2, 1]
    at = dict(zip(plan.grants.job.tolist(), plan.grants.server.tolist(), strict=True))
    assert (at[1], at[2]) == (0, 1)  # the image job where cores are free, the speech job where memory is


def test_epsilon_trades_fit_for_short_work() -> None:
    """0 orders by fit alone, a large one by remaining work alone, none given weighs both alike."""
    snapshot = _two_servers([_fits(9, 62.5, 800.0), _fits(1, 20.83, 100.0)])
    firsts = [order(Tetris(score="alignment", epsilon=weight), snapshot)[2] for weight in (0.0, 1e9, math.inf)]

    assert firsts == [0, 1, 1]


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 60), st.integers(0, 2)), min_size=1, max_size=12))
def test_extremes_of_the_fairness_knob(jobs: list[tuple[int, int, int]]) -> None:
    """0 ignores fairness; next to 1 the order is that of dominant resource fairness by user."""
    rows = [_fits(float(cpus), 20.0, 10.0 * left, owner) for cpus, left, owner in jobs]
    snapshot = snapshot_of(rows, [ServerRow()])

    assert order(Tetris(fairness=1.0), snapshot) == order(Drf(), snapshot)
    assert np.array_equal(Tetris(fairness=0.0).priority(snapshot), Tetris().priority(snapshot))


def test_a_job_outside_the_fair_part_waits_for_its_turn() -> None:
    """Scores .40 and .60: with both looked at the second goes first, with half of them the first, being fairer."""
    scores = [-0.40, -0.60]

    assert among_the_fair(scores, [0, 1], fairness=0.0) == [1, 0]
    assert among_the_fair(scores, [0, 1], fairness=0.5) == [0, 1]


@given(st.lists(st.integers(0, 9).map(float), max_size=12), st.floats(0, 1))
def test_fairness_bounds_how_far_a_job_jumps(keys: list[float], fairness: float) -> None:
    """Each choice is the best of the next ``(1 - f) n`` jobs in fair order."""
    left = list(range(len(keys)))
    window = max(1, math.ceil((1 - fairness) * len(keys) - 1e-9))
    for row in among_the_fair(keys, left.copy(), fairness=fairness):
        assert row == min(left[:window], key=lambda other: (keys[other], other))
        left.remove(row)

    assert not left


def test_a_gang_wider_than_a_server_is_scored_by_its_pieces() -> None:
    """16 GPUs on two empty servers: each piece of 8 takes the whole server."""
    rows = [JobRow(num_gpus=16, max_servers=2)]

    assert Tetris(score="alignment").priority(snapshot_of(rows, [ServerRow()] * 2)).tolist() == [-3.0]


def test_equal_work_ties() -> None:
    """6000 s x (1/3 + 12/9 + 1/3) and 6000 s x (2/3 + 6/9 + 2/3) are both 12000, whatever floats make of the parts."""
    server = ServerRow(num_gpus=1, num_cpus=3.0, memory_bytes=64 * GB)
    rows = [
        JobRow(num_gpus=1, demand_cpus=12.0, demand_memory_bytes=64 * GB, remaining_s=6_000.0),
        JobRow(num_gpus=2, demand_cpus=6.0, demand_memory_bytes=128 * GB, remaining_s=6_000.0),
    ]

    assert Tetris().priority(snapshot_of(rows, [server] * 3)).tolist() == [12_000.0, 12_000.0]


@given(st.lists(st.tuples(st.sampled_from([1, 3, 6, 9, 12]), st.integers(1, 60)), max_size=20), st.integers(1, 3))
def test_tune_on_top_never_runs_fewer_gpus(jobs: list[tuple[int, int]], servers: int) -> None:
    """For the same order of 1-GPU jobs: hard demands leave GPUs idle that Tune uses."""
    snapshot = snapshot_of([_fits(float(cpus), 62.5, 10.0 * left) for cpus, left in jobs], [ServerRow()] * servers)
    configs = [build_config(policy="tetris", mechanism=mechanism) for mechanism in ("greedy", "tune")]
    gpus = [plan_round(snapshot, config).grants.num_gpus.sum() for config in configs]

    assert gpus[0] <= gpus[1]
