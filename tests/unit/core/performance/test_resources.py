"""Shares, alignment and progressive filling over several resources."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.model.tables import FloatArray
from scheduler.core.performance.resources import (
    alignment,
    capacities,
    demands,
    dominant_share,
    epsilon,
    free_capacities,
    shares_before,
    with_short_first,
)
from tests.support.simulator.strategies import JobRow, ServerRow, snapshot_of

GB = 1e9


def fill(demand: FloatArray, capacity: FloatArray, *, weight: list[float], tasks: int) -> list[int]:
    """Return how many tasks each user gets from one pool when tasks are taken by ``shares_before`` while they fit."""
    user = np.repeat(np.arange(len(demand)), tasks)
    each = demand[user]
    key = shares_before(
        each / np.array(weight)[user, np.newaxis], group=user, rank=np.arange(len(user)), capacity=capacity
    )
    left, got = capacity.copy(), [0] * len(demand)
    for row in np.lexsort((np.arange(len(user)), key)).tolist():
        if (each[row] <= left + 1e-12).all():
            left -= each[row]
            got[user[row]] += 1
    return got


def test_the_classic_sequence() -> None:
    """DRF example: 9 cores and 18 GB, A (1, 4), B (3, 1): A, B, A, B, A; both end at a dominant share of 2/3."""
    capacity, demand = np.array([9.0, 18.0]), np.array([[1.0, 4.0], [3.0, 1.0]])
    user = np.array([0] * 4 + [1] * 4)
    key = shares_before(demand[user], group=user, rank=np.arange(8), capacity=capacity)

    assert "".join("AB"[user[row]] for row in np.lexsort((np.arange(8), key))[:5]) == "ABABA"
    assert fill(demand, capacity, weight=[1, 1], tasks=9) == [3, 2]
    held = demand * np.array([[3], [2]])
    assert dominant_share(held, capacity).tolist() == pytest.approx([2 / 3, 2 / 3])


def test_a_hundred_cores() -> None:
    """DRF: 100 cores, 10,000 GB, A (2, 300), B (6, 100): 20 and 10 tasks."""
    demand = np.array([[2.0, 300.0], [6.0, 100.0]])

    assert fill(demand, np.array([100.0, 10_000.0]), weight=[1, 1], tasks=60) == [20, 10]


def test_a_gpu_server_filled_by_two_users() -> None:
    """8 GPUs, 24 cores, 500 GB: 2 image tasks (1, 9, 62.5) and 6 language tasks (1, 1, 20.83)."""
    demand = np.array([[1, 9, 62.5], [1, 1, 20.83]])

    assert fill(demand, np.array([8.0, 24.0, 500.0]), weight=[1, 1], tasks=8) == [2, 6]


def test_the_fluid_example() -> None:
    """Demands (.1,.2), (.2,.1), (.1,.1) of two resources: in small enough tasks every user gets a share of .4."""
    demand = np.array([[0.1, 0.2], [0.2, 0.1], [0.1, 0.1]]) / 100
    got = np.array(fill(demand, np.ones(2), weight=[1, 1, 1], tasks=1_200))

    assert dominant_share(demand * got[:, np.newaxis], np.ones(2)).tolist() == pytest.approx([0.4] * 3, abs=5e-3)


def test_weights_scale_what_is_fair() -> None:
    """Weights 2 to 1 with the same demands give task counts 2 to 1."""
    demand = np.array([[1.0, 4.0], [1.0, 4.0]])

    assert fill(demand, np.array([90.0, 120.0]), weight=[2, 1], tasks=40) == [20, 10]


users = st.lists(st.tuples(*[st.integers(1, 9)] * 3), min_size=2, max_size=4)


@given(users)
def test_fair_filling_in_small_tasks(demand_rows: list[tuple[int, int, int]]) -> None:
    """No user is worse off than with 1/n of everything, none envies another, and nothing more fits."""
    capacity = np.array([1.0, 1.0, 1.0])
    demand = np.array(demand_rows, dtype=np.float64) / 300
    got = np.array(fill(demand, capacity, weight=[1.0] * len(demand), tasks=301))
    bundles = demand * got[:, np.newaxis]
    alone = np.floor((capacity / len(demand) / demand).min(axis=1))
    with_bundle_of = np.array([[(bundle / own).min() for bundle in bundles] for own in demand])

    assert (got >= alone - 9).all()  # sharing incentive, but for one task of another
    assert (with_bundle_of.max(axis=1) <= got + 9).all()  # envy-free, but for one task of the other
    assert not (demand + bundles.sum(axis=0) <= capacity - 1e-9).all(axis=1).any()  # Pareto


@given(users, st.integers(0, 2), st.integers(1, 9))
def test_asking_for_more_than_needed_does_not_pay(
    demand_rows: list[tuple[int, int, int]], resource: int, more: int
) -> None:
    """Strategy: a user that over-reports one resource runs no more useful tasks, but for a task of rounding."""
    honest = np.array(demand_rows, dtype=np.float64) / 300
    lying = honest.copy()
    lying[0, resource] += more / 300
    weight = [1.0] * len(honest)

    truth = fill(honest, np.ones(3), weight=weight, tasks=301)[0]
    assert fill(lying, np.ones(3), weight=weight, tasks=301)[0] <= truth + 9


def test_alignment_of_three_jobs_with_two_servers() -> None:
    """Tetris on servers of (8, 24, 500) with (4, 20, 100) and (4, 6, 400) free: .4000, .4250, .1056 and .1062."""
    jobs = np.array([[1, 9, 62.5], [1, 6, 187.5], [1, 1, 20.83]])
    free = np.array([[4.0, 20.0, 100.0], [4.0, 6.0, 400.0]])
    align = alignment(jobs, free, np.array([[8.0, 24.0, 500.0]] * 2))

    assert align[0, 0] == pytest.approx(0.4000, abs=5e-5)
    assert align[1, 1] == pytest.approx(0.4250, abs=5e-5)
    assert align[2].tolist() == pytest.approx([0.1056, 0.1062], abs=5e-5)
    assert np.isnan(align[[0, 1], [1, 0]]).all()  # 9 cores of 6, 187.5 GB of 100
    assert np.nanargmax(align, axis=0).tolist() == [0, 1]  # each server takes its own, the little one is left


def test_epsilon_weighs_both_terms_alike() -> None:
    """Tetris: alignments .40 and .10, remaining 8 and 1: epsilon .0714, scores .40 and .60."""
    align, work = np.array([0.40, 0.10]), np.array([8.0, 1.0])

    assert epsilon(align, np.array([0.0, 7.0])) == pytest.approx(0.0714, abs=5e-5)
    assert with_short_first(align, work).tolist() == pytest.approx([0.40, 0.60])
    assert with_short_first(align, np.array([8.0, math.inf])).tolist() == pytest.approx([0.40, 0.10])
    assert epsilon(align, np.zeros(2)) == 0


def test_what_a_job_does_not_say_is_its_share() -> None:
    """2 of 8 GPUs ask for a quarter of the cores and memory of the cluster."""
    snapshot = snapshot_of([JobRow(num_gpus=2), JobRow(demand_cpus=5.0, demand_memory_bytes=9.0)], [ServerRow()])

    assert demands(snapshot.jobs, snapshot.servers).tolist() == [[2, 6, 125 * GB], [1, 5, 9]]


def test_free_is_what_no_job_holds() -> None:
    """A running job of 2 GPUs takes its share off its server."""
    snapshot = snapshot_of([JobRow(num_gpus=2, seats=((1, 2),))], [ServerRow()] * 2)

    assert capacities(snapshot.servers).tolist() == [[8, 24, 500 * GB]] * 2
    assert free_capacities(snapshot).tolist() == [[8, 24, 500 * GB], [6, 18, 375 * GB]]
