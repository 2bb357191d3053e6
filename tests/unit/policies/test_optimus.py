"""Optimus in GPUs: each to the largest marginal gain."""

from heapq import heapify, heapreplace

import numpy as np

from scheduler.core.model.profile import scaling
from scheduler.policies.optimus import Optimus
from tests.support.simulator.elastic import afs_profile, elastic_job
from tests.support.simulator.strategies import ServerRow, snapshot_of

MODELS = ("vgg16-256", "bert-64", "resnet50-64", "gpt2-256")


def _by_heap(work_s: list[float], most: list[int], gpus: int) -> list[int]:
    """Return shares GPU by GPU from a heap of gains, as published."""
    profiles = [afs_profile(MODELS[number % 4]) for number in range(len(work_s))]
    speeds = [np.maximum.accumulate([0.0, *(scaling(p, k) for k in range(1, 34))]) for p in profiles]

    def key(row: int) -> tuple[float, int]:
        if shares[row] >= most[row]:
            return 0.0, row
        now, more = (work_s[row] / speeds[row][shares[row] + extra] for extra in (0, 1))
        return more - now, row

    shares = [1] * len(work_s)
    heap = [key(row) for row in range(len(work_s))]
    heapify(heap)
    while sum(shares) < gpus and heap[0][0] < 0:
        row = heap[0][1]
        shares[row] += 1
        heapreplace(heap, key(row))
    return shares


def test_all_gains_at_once_are_those_of_the_heap() -> None:
    """On 60 random workloads sorting all steps gives what taking them one by one gives."""
    draws = np.random.default_rng(8)
    for _ in range(60):
        size = int(draws.integers(1, 12))
        work_s = draws.uniform(10, 5_000, size=size).tolist()
        most = draws.integers(1, 33, size=size).tolist()
        gpus = int(draws.integers(size, 80))
        jobs = [
            elastic_job(work_s=work, max_gpus=count, profile=afs_profile(MODELS[row % 4]), arrival_s=float(row))
            for row, (work, count) in enumerate(zip(work_s, most, strict=True))
        ]
        shares = Optimus().shares(snapshot_of(jobs, [ServerRow()]), gpus).tolist()
        assert shares == _by_heap(work_s, most, gpus)


def test_a_job_of_unknown_length_keeps_its_least() -> None:
    """Nothing is gained by what cannot be estimated."""
    jobs = [elastic_job(work_s=float("inf"), max_gpus=8), elastic_job(work_s=100.0, max_gpus=4)]

    assert Optimus().shares(snapshot_of(jobs, [ServerRow()]), 8).tolist() == [1, 4]
