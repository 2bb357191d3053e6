"""The result of a replay: tables by job, by moment and by stay on servers, and the figures over them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypedDict

from scheduler.core.model.tables import FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """The history of each job, one row each, in the order of the workload. Times in seconds.

    Attributes:
        arrival_s: (n,) submission.
        first_start_s: (n,) first start; +inf when it never ran.
        end_s: (n,) completion; +inf when it did not complete.
        queueing_s: (n,) time without GPUs.
        num_gpus: (n,) GPUs it asked for.
        queue: (n,) row in the QueueTable.
        preemptions: (n,) times it was stopped or moved.
        moves: (n,) of these, times it went on at once on other GPUs.
        reconfigurations: (n,) times its number of GPUs was changed while it ran.
        service_gpu_s: (n,) GPU-seconds it held.
        useful_gpu_s: (n,) the work it did and kept, in GPU-seconds at its reference speed.
        rho: (n,) finish-time fairness: completion time over the time on an exclusive share of the cluster, shared by
            as many jobs as were active on average while it was active; NaN when it did not complete.
        attempts: (n,) starts that ended in a failure, or in completion.
        waited_s: By reason of waiting (values of WaitReason), (n,) seconds, which add up to queueing_s; empty when
            reasons were not asked for.
    """

    arrival_s: FloatArray
    first_start_s: FloatArray
    end_s: FloatArray
    queueing_s: FloatArray
    num_gpus: IntArray
    queue: IntArray
    preemptions: IntArray
    moves: IntArray
    reconfigurations: IntArray
    service_gpu_s: FloatArray
    useful_gpu_s: FloatArray
    rho: FloatArray
    attempts: IntArray
    waited_s: Mapping[str, FloatArray]

    def __len__(self) -> int:
        return len(self.arrival_s)

    @property
    def jct_s(self) -> FloatArray:
        """Return (n,) completion minus submission; +inf when it did not complete."""
        return self.end_s - self.arrival_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The cluster over time, one row for each moment after which something changed; a row holds until the next.

    Attributes:
        at_s: (t,) seconds.
        allocated_gpus: (t,) GPUs given to jobs.
        useful_gpus: (t,) the same, each counted at the speed of its job (1 is the reference speed).
        running_jobs: (t,) jobs with GPUs.
        waiting_jobs: (t,) jobs without.
        largest_free_gpus: (t,) most free GPUs on one server; small beside the free ones means fragmentation.
        queue_gpus: (t, k) GPUs held by the jobs of each queue itself.
    """

    at_s: FloatArray
    allocated_gpus: FloatArray
    useful_gpus: FloatArray
    running_jobs: IntArray
    waiting_jobs: IntArray
    largest_free_gpus: IntArray
    queue_gpus: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Stays:
    """Placements over time: one row for each interval in which a job held the same GPUs of a server.

    Attributes:
        job: (s,) row of the workload.
        server: (s,) row in the ServerTable.
        num_gpus: (s,) GPUs there.
        begin_s: (s,) seconds.
        end_s: (s,) seconds.
    """

    job: IntArray
    server: IntArray
    num_gpus: IntArray
    begin_s: FloatArray
    end_s: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A replayed workload.

    Attributes:
        records: The history of each job.
        series: The cluster over time; None when not asked for.
        stays: Placements over time; None when not asked for.
        num_gpus: GPUs of the cluster.
        rounds: Rounds of the grid up to the last completion, skipped ones included, 0 when no job completes; without a
            grid, rounds planned.
        planned: Rounds that had to be planned.
        plan_hash: Digest over all changes that the plans made; equal histories give equal ones, skipping or not.
        cpu_s: CPU time of the replay, seconds.
        planner: How rounds were planned, and why, in a few lines.
        checked: Rounds of this replay that were held against the safety rules, each a defect if it broke one.
        compared: Those of them planned from what changed that were planned from scratch as well, and found equal.
        until_s: When the replay stopped, seconds; records of jobs that had not ended are of this moment.
        holding: Jobs that held GPUs then.
        is_continued: Whether it began with a running cluster: records reach back before it then, series do not.
    """

    records: Records
    series: Series | None
    stays: Stays | None
    num_gpus: int
    rounds: int
    planned: int
    plan_hash: str
    cpu_s: float
    planner: str = ""
    checked: int = 0
    compared: int = 0
    until_s: float = 0.0
    holding: tuple[int, ...] = ()
    is_continued: bool = False


class Summary(TypedDict):
    """The figures of a replay; times in seconds. Figures over jobs count finished ones only."""

    jobs: int
    finished: int
    unfinished: int
    avg_jct_s: float
    p50_jct_s: float
    p95_jct_s: float
    p99_jct_s: float
    makespan_s: float
    avg_queueing_s: float
    avg_gpu_occupancy: float
    avg_useful_gpu: float
    preemptions: int
    moves: int
    avg_rho: float
    p99_rho: float
    max_rho: float
    jain_index: float
    rounds: int
    cpu_s: float
    peak_rss_bytes: int
    plan_hash: str
