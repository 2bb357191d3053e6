"""Measure replays of elastic jobs under policies that choose how many GPUs each job gets.

The cluster, the rounds and the load are those of ``bench_sim``; the jobs have the lengths of its trace and measured
scaling curves.
"""

from benchmarks.bench_sim import GPUS, LOAD, NUM_SERVERS, ROUND_S, SHARES, in_own_process

QUESTION = "How long does it take to replay 20,000 elastic jobs on 313 servers of 8 GPUs, rounds of 60 s?"

NUM_JOBS = 20_000
TARGET_CPU_S, TARGET_RSS_MB = 60.0, 500


def run(*, num_jobs: int = NUM_JOBS) -> dict[str, object]:
    """Return a replay under each policy, and whether they keep within their targets."""
    replays = [in_own_process(policy, "proportional", num_jobs) for policy in SHARES]
    return {
        "num_gpus": NUM_SERVERS * GPUS,
        "load": LOAD,
        "round_s": ROUND_S,
        "target_cpu_s": TARGET_CPU_S,
        "target_rss_mb": TARGET_RSS_MB,
        "within_target": all(one["cpu_s"] <= TARGET_CPU_S and one["peak_rss_mb"] <= TARGET_RSS_MB for one in replays),
        "replays": replays,
    }
