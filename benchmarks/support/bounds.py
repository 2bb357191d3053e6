"""Measure what queues and cores that bind cost a replay: as many times the CPU time of the same jobs without them.

Part of ``python -m benchmarks queues``; alone: ``python -m benchmarks.support.bounds backlog`` or ``cores``. A pair is
replayed one after the other in one process, so the ratio means something on a busy machine.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np

from scheduler.choices import build_config
from scheduler.core.model.tables import NO_ROW, QueueTable, ServerTable
from scheduler.simulator.draws import Draws
from scheduler.simulator.jobs import SimJob
from scheduler.simulator.replay.engine import simulate
from scheduler.simulator.replay.replay import Replay
from scheduler.simulator.study.cluster import QueueSpec, queue_table
from scheduler.simulator.traces import open_trace
from scheduler.simulator.traces import trace as cut
from scheduler.simulator.workloads.philly import philly_like

TRACE = Path(__file__).parents[2] / "fixtures" / "traces" / "philly_2017-10.csv.gz"
POLICIES, MECHANISMS = ("fifo", "srtf", "las", "fair"), ("proportional", "tune")
TIMES = 3
# Philly's 37,749 jobs ask for more than so many servers of 8 GPUs have, so lines of thousands of jobs grow.
BACKLOG_SERVERS, BACKLOG_ROUND_S = 40, 300.0
CORES_SERVERS, CORES_JOBS, CORES_ROUND_S = 64, 3_000, 60.0
INSISTING, PER_GPU = 0.2, (3.0, 4.0, 6.0)  # share of the jobs, and the cores they ask for; 3 come with a GPU


def _servers(count: int) -> ServerTable:
    return ServerTable(
        server_id=np.arange(count),
        num_gpus=np.full(count, 8),
        num_cpus=np.full(count, 24.0),
        memory_bytes=np.full(count, 500e9),
        rack=np.full(count, 0),
    )


def _cpu_s(
    jobs: list[SimJob], servers: ServerTable, queues: QueueTable, names: tuple[str, str], round_s: float
) -> float:
    config = build_config(policy=names[0], mechanism=names[1])
    return simulate(Replay(jobs, servers, queues, config, round_s=round_s)).cpu_s


def _ratios(plain: list[SimJob], bound: list[SimJob], queues: QueueTable, count: int, round_s: float) -> list[object]:
    """Return by policy and mechanism the CPU times of both, and their ratio: medians of pairs."""
    servers, one = _servers(count), queue_table([QueueSpec(name="all")], cluster_gpus=8 * count)
    found: list[object] = []
    for mechanism in MECHANISMS:
        for policy in POLICIES:
            pairs = [
                (
                    _cpu_s(plain, servers, one, (policy, mechanism), round_s),
                    _cpu_s(bound, servers, queues, (policy, mechanism), round_s),
                )
                for _ in range(TIMES)
            ]
            found.append(
                {
                    "policy": policy,
                    "mechanism": mechanism,
                    "plain_cpu_s": round(median(plain_s for plain_s, _ in pairs), 2),
                    "bound_cpu_s": round(median(bound_s for _, bound_s in pairs), 2),
                    "times": round(median(bound_s / plain_s for plain_s, bound_s in pairs), 2),
                }
            )
    return found


def backlog() -> dict[str, object]:
    """Return what the queues of an overloaded trace cost."""
    trace = open_trace(str(TRACE))
    queues = cut.trace_queue_table(trace, cluster_gpus=8 * BACKLOG_SERVERS)
    in_one = [replace(job, queue=0) for job in trace.jobs]
    assert (queues.parent == NO_ROW).all()
    return {
        "num_jobs": len(trace.jobs),
        "num_queues": len(queues),
        "replays": _ratios(in_one, trace.jobs, queues, BACKLOG_SERVERS, BACKLOG_ROUND_S),
    }


def cores() -> dict[str, object]:
    """Return what jobs cost that insist on more cores than come with their GPUs."""
    jobs = philly_like(num_jobs=CORES_JOBS, cluster_gpus=8 * CORES_SERVERS, load=0.95)
    draws = Draws(1, "cores")
    insists = draws.uniform(len(jobs)) < INSISTING
    per_gpu = np.array(PER_GPU)[draws.choice(len(jobs), [1.0] * len(PER_GPU))]
    bound = [
        replace(job, min_cpus=job.num_gpus * float(cpus)) if asks else job
        for job, asks, cpus in zip(jobs, insists.tolist(), per_gpu.tolist(), strict=True)
    ]
    queues = queue_table([QueueSpec(name="all")], cluster_gpus=8 * CORES_SERVERS)
    return {"num_jobs": len(jobs), "replays": _ratios(jobs, bound, queues, CORES_SERVERS, CORES_ROUND_S)}


if __name__ == "__main__":
    print(json.dumps({"backlog": backlog, "cores": cores}[sys.argv[1]](), indent=1))
