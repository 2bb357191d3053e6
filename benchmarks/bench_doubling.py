"""Measure how CPU time grows when the jobs double at the same load.

The speed of a rented core varies by half from minute to minute. So the larger trace is replayed on one core in turns of
milliseconds with the smaller one, which is replayed twice.

The target is for the trace of ``bench_sim``. Half of it is measured too: the cluster begins empty, and the days until
jobs queue are a larger part of a short trace, so twice its jobs are more than twice the work.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from statistics import median
from typing import TypedDict

from benchmarks.bench_sim import NUM_JOBS, ReplayCost, in_own_process
from benchmarks.bench_sim import POLICIES as LIST_POLICIES

QUESTION = "What do twice the jobs cost at the same load, on 313 servers of 8 GPUs with rounds of 60 s?"

TARGET = 2.2
# Policies by the jobs that are doubled.
POLICIES = {NUM_JOBS // 2: ("fifo", "srtf", "las"), NUM_JOBS: LIST_POLICIES["proportional"]}
REPEATS = 3


class Doubling(TypedDict):
    """Twice ``num_jobs`` in times of ``num_jobs``; ``preemptions`` None where no job is stopped."""

    policy: str
    num_jobs: int
    cpu: float
    cpu_of_each: list[float]
    preemptions: float | None


def run() -> dict[str, object]:
    """Return the costs of doubling, and the times they come from."""
    with _one_core():
        doubling = [_doubling(policy, size) for size, policies in POLICIES.items() for policy in policies]
    return {
        "target": TARGET,
        "target_num_jobs": NUM_JOBS,
        "within_target": all(one["cpu"] <= TARGET for one in doubling if one["num_jobs"] == NUM_JOBS),
        "repeats": REPEATS,
        "doubling": doubling,
    }


def _doubling(policy: str, size: int) -> Doubling:
    pairs = [_side_by_side(policy, size) for _ in range(REPEATS)]
    times = [round(2 * large["cpu_s"] / sum(one["cpu_s"] for one in small), 2) for large, small in pairs]
    large, (small, _) = pairs[0]
    stopped = small["preemptions"]
    return Doubling(
        policy=policy,
        num_jobs=size,
        cpu=median(times),
        cpu_of_each=times,
        preemptions=round(large["preemptions"] / stopped, 2) if stopped else None,
    )


def _side_by_side(policy: str, size: int) -> tuple[ReplayCost, list[ReplayCost]]:
    """Return a replay of twice the jobs, and two of the jobs made meanwhile."""

    def replays(num_jobs: int, times: int) -> list[ReplayCost]:
        return [in_own_process(policy, "proportional", num_jobs) for _ in range(times)]

    with ThreadPoolExecutor(2) as pool:
        large, small = pool.submit(replays, 2 * size, 1), pool.submit(replays, size, 2)
        return large.result()[0], small.result()


@contextmanager
def _one_core() -> Iterator[None]:
    """Keep this process and its children on one core."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)
