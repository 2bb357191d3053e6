"""What twice the jobs at the same load cost, in times.

The core of a rented machine is half as fast in one minute as in another: the sizes are replayed several times, in turn,
and the median of each counts.
"""

from statistics import median
from typing import TypedDict

from benchmarks.bench_sim import NUM_JOBS, in_own_process

QUESTION = "What do twice the jobs cost at the same load, on 313 servers of 8 GPUs with rounds of 60 s?"

TARGET = 2.2
POLICIES, SIZES = ("fifo", "srtf", "las"), (NUM_JOBS // 2, NUM_JOBS, NUM_JOBS * 2)
REPEATS = 3


class Doubling(TypedDict):
    """Twice ``num_jobs`` in times of ``num_jobs``; of preemptions None where nobody is stopped."""

    policy: str
    num_jobs: int
    cpu: float
    preemptions: float | None


def run() -> dict[str, object]:
    """Return the costs of doubling, and the times they come from."""
    cpu_s: dict[str, dict[int, list[float]]] = {}
    doubling: list[Doubling] = []
    for policy in POLICIES:
        took: dict[int, list[float]] = {size: [] for size in SIZES}
        stopped: dict[int, int] = {}
        for _ in range(REPEATS):
            for size in SIZES:
                one = in_own_process(policy, "proportional", size)
                took[size].append(one["cpu_s"])
                stopped[size] = one["preemptions"]
        cpu_s[policy] = took
        doubling += [
            Doubling(
                policy=policy,
                num_jobs=size,
                cpu=round(median(took[2 * size]) / median(took[size]), 2),
                preemptions=round(stopped[2 * size] / stopped[size], 2) if stopped[size] else None,
            )
            for size in SIZES[:-1]
        ]
    return {
        "target": TARGET,
        "within_target": all(one["cpu"] <= TARGET for one in doubling),
        "repeats": REPEATS,
        "doubling": doubling,
        "cpu_s": cpu_s,
    }
