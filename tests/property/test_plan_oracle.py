"""Plans against slow, independent answers written from the specification, not from the core."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.choices import build_config
from scheduler.core.model.plan import PreemptRule, WaitReason
from scheduler.core.model.queue_tree import water_fill
from scheduler.core.round.plan_round import plan_round
from tests.support.oracle.told.clusters import random_cluster, told_wrong
from tests.support.simulator.strategies import NO_LIMIT, JobRow, QueueRow, ServerRow, snapshot_of
from tests.support.suite.examples import tried

quick = tried(60)
one_gpu_jobs = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from([10.0, 20.0, 30.0, 40.0, 50.0]), st.booleans()), max_size=14
)
flat_queues = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from([1, 2, 4]), st.sampled_from([NO_LIMIT, NO_LIMIT, 4])),
    min_size=3,
    max_size=3,
)


def _water_level(capacity: Fraction, demands: list[int], weights: list[int]) -> list[Fraction]:
    """Return weighted max-min shares by raising the level from one member's demand to the next."""
    level, shares = Fraction(0), [Fraction(0)] * len(demands)
    while True:
        thirsty = [i for i in range(len(demands)) if shares[i] < demands[i]]
        if not thirsty or capacity == 0:
            return shares
        weight = sum(weights[i] for i in thirsty)
        step = min(min(Fraction(demands[i], weights[i]) - level for i in thirsty), capacity / weight)
        for i in thirsty:
            shares[i] += step * weights[i]
        capacity -= step * weight
        level += step


@quick
@given(
    capacity=st.integers(0, 40),
    members=st.lists(st.tuples(st.integers(0, 20), st.integers(1, 5)), min_size=1, max_size=6),
)
def test_water_filling(capacity: int, members: list[tuple[int, int]]) -> None:
    """Shares equal those found by raising the water step by step."""
    demands, weights = [demand for demand, _ in members], [weight for _, weight in members]

    exact = _water_level(Fraction(capacity), demands, weights)
    assert water_fill(float(capacity), [float(d) for d in demands], [float(w) for w in weights]) == pytest.approx(
        [float(share) for share in exact]
    )


@quick
@given(jobs=one_gpu_jobs, queues=flat_queues, capacity=st.integers(1, 8))
def test_who_runs_when_every_job_wants_one_gpu(
    jobs: list[tuple[int, float, bool]], queues: list[tuple[int, int, int]], capacity: int
) -> None:
    """Without gangs it is plain who runs: covered jobs, then fair borrowers, then the rest, each in order.

    Which of them run already does not matter, because the policy is preemptive.
    """
    free = [1] * capacity
    rows = []
    for queue, remaining_s, runs in jobs:
        at = next((server for server, count in enumerate(free) if count and runs), None)
        if at is not None:
            free[at] = 0
        rows.append(JobRow(queue=queue, remaining_s=remaining_s, seats=((at, 1),) if at is not None else ()))
    tree = [QueueRow(quota_gpus=quota, weight=weight, max_gpus=max(quota, most)) for quota, weight, most in queues]
    snapshot = snapshot_of(rows, [ServerRow(num_gpus=1, num_cpus=3)] * capacity, tree)

    plan = plan_round(snapshot, build_config(policy="srtf", mechanism="proportional"))

    assert set(plan.grants.job.tolist()) == _expected(rows, tree, capacity, plan.order)


def _expected(rows: list[JobRow], tree: list[QueueRow], capacity: int, order: list[int]) -> set[int]:
    of_queue = [[row for row in order if rows[row].queue == queue][: node.max_gpus] for queue, node in enumerate(tree)]
    covered = {row for node, mine in zip(tree, of_queue, strict=True) for row in mine[: node.quota_gpus]}
    ensured = [min(len(mine), node.quota_gpus) for node, mine in zip(tree, of_queue, strict=True)]
    if sum(ensured) > capacity:  # overcommitted: covered jobs alone compete in the order
        return set([row for row in order if row in covered][:capacity])
    wanted = [len(mine) - sure for mine, sure in zip(of_queue, ensured, strict=True)]
    extra = _water_level(Fraction(capacity - sum(ensured)), wanted, [int(node.weight) for node in tree])
    fair: set[int] = set()
    for mine, sure, more in zip(of_queue, ensured, extra, strict=True):
        count = -(-more.numerator // more.denominator)  # the job that crosses the fair share counts as inside
        fair |= set(mine[sure : sure + count])
    rest = {row for mine in of_queue for row in mine} - covered - fair
    ranked = [row for group in (covered, fair, rest) for row in order if row in group]
    return set(ranked[:capacity])


def _fits(gangs: list[int], servers: list[int]) -> bool:
    """Return whether gangs can be put on servers, each on one, by trying every way."""
    return any(
        all(sum(gang for gang, at in zip(gangs, where, strict=True) if at == server) <= size
            for server, size in enumerate(servers))
        for where in product(range(len(servers)), repeat=len(gangs))
    )  # fmt: skip


@quick
@given(
    gangs=st.lists(st.sampled_from([1, 2, 4]), min_size=1, max_size=6),
    servers=st.lists(st.sampled_from([2, 4, 8]), min_size=1, max_size=3),
)
def test_gangs_of_powers_of_two_are_all_packed_when_they_can_be(gangs: list[int], servers: list[int]) -> None:
    """Widest first onto servers whose sizes are powers of two: if any packing exists, nobody waits."""
    rows = [replace(JobRow(), num_gpus=gang, remaining_s=-gang) for gang in gangs]
    snapshot = snapshot_of(rows, [ServerRow(num_gpus=size, num_cpus=3.0 * size) for size in servers])
    for mechanism in ("proportional", "tune"):
        plan = plan_round(snapshot, build_config(policy="srtf", mechanism=mechanism))

        assert (not plan.waiting) == _fits(gangs, servers)


ROUNDS = 400  # of each seed: 10,000 in all
# Reasons that services give beside a round, and rules of trials that introspection takes back.
NOT_OF_A_ROUND = {"new", "reconfiguring", "backoff", "held", "policy_paused", "scheduler_stale", "unpacked"}


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 25))])
def test_what_a_round_says_is_true(seed: int) -> None:
    """Each rule of a preemption and each reason to wait, with its numbers, holds in the cluster after the round."""
    rng, told = Random(f"told-{seed}"), Counter[str]()
    for number in range(ROUNDS):
        cluster = random_cluster(rng)
        snapshot = cluster.snapshot()
        plan = plan_round(snapshot, cluster.config)
        told.update([wait.reason.value for wait in plan.waiting])
        told.update([stop.rule.value for stop in plan.preemptions])

        assert told_wrong(cluster, snapshot, plan) == [], f"round {number}, {cluster}"

    rare = {WaitReason.NO_SERVER, PreemptRule.MOVED, PreemptRule.REPACKED, PreemptRule.OVER_SHARE}
    assert {*WaitReason, *PreemptRule} - NOT_OF_A_ROUND - rare <= set(told)
