"""The cluster of 64 GPUs and the jobs on which elastic policies are compared."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from scheduler.core.model.profile import scaling
from scheduler.core.round.config import Policy, SchedulerConfig
from scheduler.mechanisms.proportional import Proportional
from scheduler.placement.consolidate import Consolidate
from scheduler.simulator.jobs import SimJob
from scheduler.simulator.replay.engine import simulate
from scheduler.simulator.replay.replay import Replay
from scheduler.simulator.speeds.measured import afs_profiles
from scheduler.simulator.state.costs import ReconfigurationCosts
from scheduler.simulator.state.outcome import Outcome
from scheduler.simulator.study.cluster import Cluster, QueueSpec, ServerGroup, queue_table, server_table
from scheduler.simulator.workloads import elastic

SERVERS, GPUS = 8, 8
CLUSTER_GPUS = SERVERS * GPUS
CURVES = afs_profiles(Path("fixtures/profiles"))
_TABLE = server_table(Cluster(groups=(ServerGroup(count=SERVERS, gpus=GPUS, cpus=48.0, memory_bytes=500e9),)))
_QUEUES = queue_table([QueueSpec(name="all")], cluster_gpus=CLUSTER_GPUS)


def workload(num_jobs: int, *, load: float, seed: int) -> list[SimJob]:
    """Return elastic jobs with the scaling of models measured on A100."""
    return elastic(num_jobs=num_jobs, cluster_gpus=CLUSTER_GPUS, curves=CURVES, load=load, seed=seed, diurnal=False)


def as_wide_as_useful(jobs: Sequence[SimJob]) -> list[SimJob]:
    """Return the jobs asking for the most GPUs that they can use, with the same work."""
    wide = []
    for job in jobs:
        most = job.max_gpus or job.num_gpus
        faster = scaling(job.profile, most) / scaling(job.profile, job.num_gpus)
        wide.append(replace(job, num_gpus=most, run_s=job.run_s / faster))
    return wide


def replay(
    jobs: Sequence[SimJob],
    policy: Policy,
    *,
    costs: ReconfigurationCosts | None = None,
    round_s: float | None = 60.0,
    skip: bool = True,
    stays: bool = False,
    until_s: float = float("inf"),
) -> Outcome:
    """Return what happens to the jobs; they are reconfigured as CoDDL does unless ``costs`` says how."""
    return simulate(
        Replay(
            jobs,
            _TABLE,
            _QUEUES,
            SchedulerConfig(policy=policy, locality=Consolidate(), mechanism=Proportional()),
            round_s=round_s,
            costs=costs or ReconfigurationCosts(),
            incremental=skip,
            keep_stays=stays,
            until_s=until_s,
        )
    )
