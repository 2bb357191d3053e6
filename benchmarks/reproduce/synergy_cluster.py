"""The servers, workloads and replays of Synergy's evaluation, which that of DRF and Tetris shares."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from scheduler.core.model.tables import FloatArray
from scheduler.core.round.config import SchedulerConfig
from scheduler.simulator.jobs import SimJob
from scheduler.simulator.replay.engine import simulate
from scheduler.simulator.replay.replay import Replay
from scheduler.simulator.speeds.profiles import synergy_profiles
from scheduler.simulator.state.outcome import Outcome
from scheduler.simulator.study.cluster import GB, Cluster, QueueSpec, ServerGroup, queue_table, server_table
from scheduler.simulator.workloads.synergy import synergy_split

HOUR_S, ROUND_S = 3_600.0, 300.0
GPUS = 8
PROFILES = synergy_profiles(Path("fixtures/profiles"))
# Jobs left out at each end, as a share of all: the cluster is still filling up, or already emptying.
_EDGE = 0.1


def workload(*, num_jobs: int, servers: int, per_hour: float, mix: Sequence[float], seed: int = 0) -> list[SimJob]:
    """Return jobs of one GPU at this rate; the mix is image, language and speech."""
    jobs = synergy_split(
        num_jobs=num_jobs,
        cluster_gpus=servers * GPUS,
        profiles=PROFILES,
        seed=seed,
        mix=dict(zip(("image", "language", "speech"), mix, strict=True)),
    )
    return with_rate(jobs, jobs_per_hour=per_hour)


def with_rate(jobs: list[SimJob], *, jobs_per_hour: float) -> list[SimJob]:
    """Return the jobs with arrivals stretched to this mean rate, as the paper states its loads."""
    factor = len(jobs) / jobs_per_hour * 3600 / jobs[-1].arrival_s
    return [replace(job, arrival_s=round(job.arrival_s * factor, 3)) for job in jobs]


def run(jobs: Sequence[SimJob], config: SchedulerConfig, *, servers: int, series: bool = False) -> Outcome:
    """Return what becomes of the jobs on servers of 8 GPUs, 24 cores and 500 GB, in rounds of 300 s."""
    gpus = servers * GPUS
    group = ServerGroup(count=servers, gpus=GPUS, cpus=3.0 * GPUS, memory_bytes=500 * GB)
    queues = queue_table((QueueSpec(name="all", quota_gpus=gpus),), cluster_gpus=gpus)
    return simulate(
        Replay(jobs, server_table(Cluster(groups=(group,))), queues, config, round_s=ROUND_S, keep_series=series)
    )


def middle(outcome: Outcome) -> FloatArray:
    """Return the completion times of the jobs between the first and the last tenth, hours."""
    edge = round(_EDGE * len(outcome.records))
    return outcome.records.jct_s[edge : len(outcome.records) - edge] / HOUR_S
