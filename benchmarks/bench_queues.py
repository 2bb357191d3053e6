"""Measure the replay of a Philly-like month in 14 queues with quotas, relative to a bare event loop.

Each replay runs in a process of its own. CPU time counts, not the clock. Other load on the machine still
slows it down, but hardly changes the ratio to the bare loop of the same process.
"""

import json
import subprocess
import sys
from typing import TypedDict, cast

import numpy as np

from benchmarks.bench_sim import CPUS, GPUS, LOAD, MEMORY_BYTES, NUM_SERVERS, ROUND_S, bare_loop_s
from benchmarks.support.bounds import backlog, cores
from scheduler.choices import build_config
from scheduler.core.model.tables import NO_ROW, QueueTable, ServerTable
from scheduler.simulator.replay.engine import simulate
from scheduler.simulator.replay.replay import Replay
from scheduler.simulator.workloads.philly import QUEUES, philly_like, philly_quotas

QUESTION = "How long does it take to replay 30,000 jobs in 14 queues on 313 servers of 8 GPUs, rounds of 60 s?"

NUM_JOBS = 30_000
TARGET_CPU_S = 15.0
POLICIES, MECHANISMS = ("fifo", "srtf", "las", "fair"), ("proportional", "tune")


class ReplayCost(TypedDict):
    """One replay."""

    policy: str
    mechanism: str
    num_jobs: int
    cpu_s: float
    cpu_ms_per_planned: float
    times_bare_loop: float
    rounds: int
    planned: int
    preemptions: int
    unfinished: int


def cluster() -> tuple[ServerTable, QueueTable]:
    """Return the servers, and queues that borrow what others leave of their quotas."""
    servers = ServerTable(
        server_id=np.arange(NUM_SERVERS),
        num_gpus=np.full(NUM_SERVERS, GPUS),
        num_cpus=np.full(NUM_SERVERS, CPUS),
        memory_bytes=np.full(NUM_SERVERS, MEMORY_BYTES),
        rack=np.zeros(NUM_SERVERS, dtype=np.int64),
    )
    quotas = np.array(philly_quotas(cluster_gpus=NUM_SERVERS * GPUS), dtype=np.int64)
    queues = QueueTable(
        queue_id=np.arange(QUEUES),
        parent=np.full(QUEUES, NO_ROW),
        quota_gpus=quotas,
        weight=quotas.astype(np.float64),
        may_borrow=np.ones(QUEUES, dtype=np.bool_),
        max_gpus=np.full(QUEUES, NUM_SERVERS * GPUS),
    )
    return servers, queues


def replay(policy: str, mechanism: str, num_jobs: int) -> ReplayCost:
    """Replay in this process."""
    jobs = philly_like(num_jobs=num_jobs, cluster_gpus=NUM_SERVERS * GPUS, load=LOAD, num_queues=QUEUES)
    bare_s = bare_loop_s(jobs)
    outcome = simulate(Replay(jobs, *cluster(), build_config(policy=policy, mechanism=mechanism), round_s=ROUND_S))
    return ReplayCost(
        policy=policy,
        mechanism=mechanism,
        num_jobs=num_jobs,
        cpu_s=round(outcome.cpu_s, 2),
        cpu_ms_per_planned=round(outcome.cpu_s / outcome.planned * 1e3, 3),
        times_bare_loop=round(outcome.cpu_s / bare_s, 1),
        rounds=outcome.rounds,
        planned=outcome.planned,
        preemptions=int(outcome.records.preemptions.sum()),
        unfinished=int(np.isinf(outcome.records.end_s).sum()),
    )


def _in_own_process(policy: str, mechanism: str, num_jobs: int) -> ReplayCost:
    command = [sys.executable, "-m", "benchmarks.bench_queues", policy, mechanism, str(num_jobs)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return cast(ReplayCost, json.loads(answer))  # written by this very module


def run(*, num_jobs: int = NUM_JOBS) -> dict[str, object]:
    """Return all replays, whether they keep within the target, and what a backlog and cores that bind cost."""
    replays = [_in_own_process(policy, mechanism, num_jobs) for mechanism in MECHANISMS for policy in POLICIES]
    worst_s = max(one["cpu_s"] for one in replays)
    return {
        "num_gpus": NUM_SERVERS * GPUS,
        "num_queues": QUEUES,
        "load": LOAD,
        "round_s": ROUND_S,
        "target_cpu_s": TARGET_CPU_S,
        "worst_cpu_s": worst_s,
        "within_target": worst_s <= TARGET_CPU_S,
        "replays": replays,
        "backlog": backlog(),
        "cores": cores(),
    }


if __name__ == "__main__":
    print(json.dumps(replay(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
