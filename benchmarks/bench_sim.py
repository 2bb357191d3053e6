"""Measure the replay of a Philly-like trace, relative to a bare event loop.

Each replay runs in a process of its own, so that its peak memory is its own. CPU time counts, not the clock. Other
load on the machine slows both down, but hardly changes the ratio to the bare loop of the same process.
"""

import json
import os
import resource
import subprocess
import sys
import time
from heapq import heappop, heappush
from pathlib import Path
from typing import TypedDict, cast

import numpy as np

from scheduler.choices import build_config
from scheduler.core.model.profile import Profile
from scheduler.core.model.tables import NO_ROW, QueueTable, ServerTable
from scheduler.simulator.jobs import SimJob
from scheduler.simulator.replay.engine import simulate
from scheduler.simulator.replay.replay import Replay
from scheduler.simulator.workloads.elastic import elastic
from scheduler.simulator.workloads.philly import philly_like

QUESTION = "How long does it take to replay 100,000 jobs on 313 servers of 8 GPUs, rounds of 60 s?"

NUM_SERVERS, GPUS, CPUS, MEMORY_BYTES, ROUND_S, LOAD = 313, 8, 24.0, 500e9, 60.0, 0.95
NUM_JOBS = 100_000
# CPU seconds that the whole trace may take, by mechanism.
TARGETS_S = {"proportional": 10.0, "tune": 25.0}
POLICIES = {
    "proportional": ("fifo", "priority", "srsf", "srtf", "las", "gittins", "tetris", "fair", "drf", "ftf"),
    "tune": ("fifo", "srtf", "las", "gittins"),
}
# Policies that choose how many GPUs each job has replay elastic jobs with measured curves (``bench_elastic``).
SHARES = ("afs-l", "afs-p")
CURVES = Path(__file__).parent.parent / "fixtures" / "profiles" / "afs.json"


class ReplayCost(TypedDict):
    """One replay."""

    policy: str
    mechanism: str
    num_jobs: int
    cpu_s: float
    cpu_s_per_1000_jobs: float
    times_bare_loop: float
    peak_rss_mb: int
    rounds: int
    planned: int
    preemptions: int
    unfinished: int
    load_1min: float


def bare_loop_s(jobs: list[SimJob]) -> float:
    """Return the CPU time of a loop that only pushes and pops the arrival and the end of each job."""
    begin_s = time.process_time()
    events: list[tuple[float, int]] = []
    for row, job in enumerate(jobs):
        heappush(events, (job.arrival_s, row))
    while events:
        at_s, row = heappop(events)
        if row >= 0:
            heappush(events, (at_s + jobs[row].run_s, -1))
    return time.process_time() - begin_s


def _jobs(num_jobs: int, *, elastic_jobs: bool) -> list[SimJob]:
    cluster_gpus = NUM_SERVERS * GPUS
    if not elastic_jobs:
        return philly_like(num_jobs=num_jobs, cluster_gpus=cluster_gpus, load=LOAD)
    curves = {
        model: Profile(scaling=tuple((float(gpus), speed / points[0][1]) for gpus, speed in points))
        for model, points in json.loads(CURVES.read_text()).items()
    }
    return elastic(num_jobs=num_jobs, cluster_gpus=cluster_gpus, curves=curves, load=LOAD)


def replay(policy: str, mechanism: str, num_jobs: int) -> ReplayCost:
    """Replay in this process."""
    jobs = _jobs(num_jobs, elastic_jobs=policy in SHARES)
    servers = ServerTable(
        server_id=np.arange(NUM_SERVERS),
        num_gpus=np.full(NUM_SERVERS, GPUS),
        num_cpus=np.full(NUM_SERVERS, CPUS),
        memory_bytes=np.full(NUM_SERVERS, MEMORY_BYTES),
        rack=np.zeros(NUM_SERVERS, dtype=np.int64),
    )
    queue = QueueTable(
        queue_id=np.arange(1),
        parent=np.full(1, NO_ROW),
        quota_gpus=np.zeros(1, dtype=np.int64),
        weight=np.ones(1),
        may_borrow=np.ones(1, dtype=np.bool_),
        max_gpus=np.full(1, 1_000_000),
    )
    bare_s = bare_loop_s(jobs)
    outcome = simulate(Replay(jobs, servers, queue, build_config(policy=policy, mechanism=mechanism), round_s=ROUND_S))
    return ReplayCost(
        policy=policy,
        mechanism=mechanism,
        num_jobs=num_jobs,
        cpu_s=round(outcome.cpu_s, 2),
        cpu_s_per_1000_jobs=round(outcome.cpu_s / num_jobs * 1000, 4),
        times_bare_loop=round(outcome.cpu_s / bare_s, 1),
        peak_rss_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        rounds=outcome.rounds,
        planned=outcome.planned,
        preemptions=int(outcome.records.preemptions.sum()),
        unfinished=int(np.isinf(outcome.records.end_s).sum()),
        load_1min=round(os.getloadavg()[0], 1),
    )


def in_own_process(policy: str, mechanism: str, num_jobs: int) -> ReplayCost:
    """Replay in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.bench_sim", policy, mechanism, str(num_jobs)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return cast(ReplayCost, json.loads(answer))  # written by this very module


def run(*, num_jobs: int = NUM_JOBS) -> dict[str, object]:
    """Return all replays, and whether they keep within their targets."""
    replays = [in_own_process(policy, mechanism, num_jobs) for mechanism in TARGETS_S for policy in POLICIES[mechanism]]
    worst = {name: max(one["cpu_s"] for one in replays if one["mechanism"] == name) for name in TARGETS_S}
    return {
        "num_gpus": NUM_SERVERS * GPUS,
        "load": LOAD,
        "round_s": ROUND_S,
        "target_cpu_s": TARGETS_S,
        "worst_cpu_s": worst,
        "within_target": all(worst[name] <= most for name, most in TARGETS_S.items()),
        "peak_rss_mb": max(one["peak_rss_mb"] for one in replays),
        "replays": replays,
    }


if __name__ == "__main__":
    print(json.dumps(replay(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
