"""Replay the measured jobs in the simulator, and compare both runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from benchmarks.fidelity.calibration import Measured
from benchmarks.fidelity.live import LOCALITY, MECHANISM, ROUND_S, seconds
from benchmarks.fidelity.workload import STEP_S, Planned
from scheduler.choices import build_config
from scheduler.simulator.jobs import SimJob
from scheduler.simulator.replay.engine import simulate
from scheduler.simulator.replay.replay import Replay
from scheduler.simulator.study.cluster import GB, Cluster, QueueSpec, ServerGroup, queue_table, server_table


@dataclass(frozen=True, slots=True, kw_only=True)
class Starts:
    """What starts cost, seconds; a job that is stopped meanwhile has lost only what it had of that."""

    first_s: float
    again_s: float

    def pause_s(self, *, first: bool, before_gpus: int, num_gpus: int) -> float:
        """Return for how long a job that gets its GPUs trains nothing."""
        return self.first_s if first else self.again_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of the workload; ``ends_s`` are those of its jobs, seconds after the first submission."""

    average_jct_s: float
    makespan_s: float
    preemptions: int
    ends_s: tuple[float, ...]


def lived(jobs: Sequence[Mapping[str, Any]]) -> Outcome:
    """Return what really happened."""
    begun_s = [seconds(job["submitted_at"]) for job in jobs]
    ended_s = [seconds(job["ended_at"]) for job in jobs]
    return Outcome(
        average_jct_s=mean(end_s - begin_s for begin_s, end_s in zip(begun_s, ended_s, strict=True)),
        makespan_s=max(ended_s) - min(begun_s),
        preemptions=sum(attempt["end_cause"] == "preempted" for job in jobs for attempt in job["attempts"]),
        ends_s=tuple(round(end_s - min(begun_s), 2) for end_s in ended_s),
    )


def replayed(
    planned: Sequence[Planned],
    steps: Sequence[int],
    jobs: Sequence[Mapping[str, Any]],
    measured: Measured,
    policy: str,
    options: Mapping[str, object],
    *,
    num_slots: int,
) -> Outcome:
    """Return what the simulator says, from the times of submission and from what was measured before."""
    starts = Starts(first_s=measured.start_s, again_s=measured.restart_s)
    first_s = min(seconds(job["submitted_at"]) for job in jobs)
    workload = [
        SimJob(
            arrival_s=seconds(job["submitted_at"]) - first_s,
            num_gpus=1,
            run_s=count * STEP_S[plan.kind],
            max_servers=1,
            priority=float(plan.priority),
        )
        for plan, count, job in zip(planned, steps, jobs, strict=True)
    ]
    group = ServerGroup(count=2, gpus=num_slots // 2, cpus=float(num_slots), memory_bytes=4 * GB)
    servers = server_table(Cluster(groups=(group,)))
    queues = queue_table((QueueSpec(name="all"),), cluster_gpus=num_slots)
    config = build_config(policy=policy, policy_options=options, locality=LOCALITY, mechanism=MECHANISM)
    replay = Replay(workload, servers, queues, config, costs=starts, leave_s=measured.leave_s, beat_s=ROUND_S)
    records = simulate(replay).records
    return Outcome(
        average_jct_s=float(records.jct_s.mean()),
        makespan_s=float(records.end_s.max() - records.arrival_s.min()),
        preemptions=int(records.preemptions.sum()),
        ends_s=tuple(round(end_s, 2) for end_s in records.end_s.tolist()),
    )
